"""The queue leaves no usable GPU idle, is deterministic, and starts every job in bounded time."""

import itertools
import math
from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from gputopo.queueing.decide import decide_queue
from gputopo.queueing.model import (
    AdmittedJob,
    QueueDecision,
    QueueOrder,
    QueueRules,
    QueueState,
    WaitingJob,
)

STEP_SECONDS, LONGEST_SECONDS = 5.0, 30.0

NAMES = ("n1", "n2", "n3")
capacities = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 8), min_size=1)
rules = st.builds(QueueRules, st.sampled_from(QueueOrder), st.sampled_from([50.0, 500.0]))


@st.composite
def states(draw: st.DrawFn) -> QueueState:
    """Any state; an admitted job may be on a node without enough GPUs, after some have failed."""
    times = st.integers(0, 1000).map(float)
    jobs = [f"job-{number}" for number in range(draw(st.integers(0, 12)))]
    waiting, admitted = [], []
    for job in jobs:
        gpus = draw(st.integers(1, 8))
        if draw(st.booleans()):
            node = draw(st.sampled_from([None, *NAMES]))
            admitted.append(AdmittedJob(job, gpus, node, draw(times)))
            continue
        found = WaitingJob(
            job,
            gpus,
            created=draw(times),
            waiting_since=draw(times),
            ran_seconds=draw(st.sampled_from([0.0, 100.0])),
            expected_seconds=draw(st.none() | st.integers(1, 500).map(float)),
            priority=draw(st.integers(0, 1)),
            can_avoid_nodes=draw(st.booleans()),
        )
        waiting.append(found)
    return QueueState(draw(capacities), tuple(admitted), tuple(waiting), now=1000.0)


@given(states(), rules, st.data())
def test_decision_does_not_depend_on_the_order_of_its_input(
    state: QueueState, rules: QueueRules, data: st.DataObject
) -> None:
    shuffled = replace(
        state,
        capacities=dict(data.draw(st.permutations(list(state.capacities.items())))),
        admitted=tuple(data.draw(st.permutations(state.admitted))),
        waiting=tuple(data.draw(st.permutations(state.waiting))),
    )
    assert decide_queue(shuffled, rules) == decide_queue(state, rules)


def _after(state: QueueState, decision: QueueDecision) -> QueueState:
    """Return the state in which the admitted jobs have started, but are not bound."""
    waiting = {job.job: job for job in state.waiting}
    started = [
        AdmittedJob(each.job, waiting.pop(each.job).gpus, None, state.now, frozenset(each.avoids))
        for each in decision.admitted
    ]
    return replace(state, admitted=(*state.admitted, *started), waiting=tuple(waiting.values()))


@given(states(), rules)
def test_every_job_starts_or_waits_with_a_place(state: QueueState, rules: QueueRules) -> None:
    decision = decide_queue(state, rules)
    named = [*(each.job for each in decision.admitted), *(each.job for each in decision.waiting)]
    assert sorted(named) == sorted(job.job for job in state.waiting)
    assert [each.position for each in decision.waiting] == list(range(1, len(decision.waiting) + 1))
    assert sum(each.node is not None for each in decision.waiting) <= 1


@given(states(), rules)
def test_no_job_waits_while_a_node_that_is_not_reserved_has_its_gpus(
    state: QueueState, rules: QueueRules
) -> None:
    bound = tuple(job for job in state.admitted if job.node is not None)
    state = replace(state, admitted=bound)
    decision = decide_queue(state, rules)
    free, closed = _free(state), {each.node for each in decision.waiting}
    gpus = {job.job: job.gpus for job in state.waiting}
    for admission in decision.admitted:
        fitting = [node for node in free if free[node] >= gpus[admission.job]]
        best = min(set(fitting) - set(admission.avoids), key=lambda node: (free[node], node))
        free[best] -= gpus[admission.job]
    can_avoid = {job.job: job.can_avoid_nodes for job in state.waiting}
    for place in decision.waiting:
        if can_avoid[place.job]:
            assert all(free[node] < gpus[place.job] for node in free if node not in closed), place


def _free(state: QueueState) -> dict[str, int]:
    free = dict(state.capacities)
    for job in state.admitted:
        if job.node in free:
            free[job.node] = max(0, free[job.node] - job.gpus)
    return free


@dataclass
class Cluster:
    """A simulated cluster whose scheduler binds a job to any node that the job may use.

    Attributes:
        ends: time at which each bound job ends.
    """

    capacities: dict[str, int]
    rules: QueueRules
    now: float = 0.0
    waiting: list[WaitingJob] = field(default_factory=list)
    admitted: list[AdmittedJob] = field(default_factory=list)
    ends: dict[str, float] = field(default_factory=dict)
    decision: QueueDecision = field(default_factory=lambda: QueueDecision((), ()))

    def submit(self, job: str, gpus: int, expected_seconds: float | None) -> None:
        self.waiting.append(
            WaitingJob(job, gpus, self.now, self.now, expected_seconds=expected_seconds)
        )

    def advance(self, draw: st.DataObject) -> None:
        """End jobs, start jobs as the queue decides, and bind their pods to any nodes."""
        self.now += STEP_SECONDS
        self.admitted = [
            job for job in self.admitted if self.ends.get(job.job, math.inf) > self.now
        ]
        admitted, waiting = tuple(self.admitted), tuple(self.waiting)
        state = QueueState(
            self.capacities, admitted, waiting, self.now, offers=self.decision.offers
        )
        self.decision = decide_queue(state, self.rules)
        after = _after(state, self.decision)
        self.admitted, self.waiting = list(after.admitted), list(after.waiting)
        for job in draw.draw(st.permutations([it for it in self.admitted if it.node is None])):
            self._bind(draw, job)

    def _bind(self, draw: st.DataObject, job: AdmittedJob) -> None:
        free = _free(QueueState(self.capacities, tuple(self.admitted), (), self.now))
        nodes = [node for node in sorted(free) if free[node] >= job.gpus and node not in job.avoids]
        if nodes:
            bound = replace(job, node=draw.draw(st.sampled_from(nodes)))
            self.admitted[self.admitted.index(job)] = bound
            steps = draw.draw(st.integers(1, int(LONGEST_SECONDS / STEP_SECONDS)))
            self.ends[job.job] = self.now + steps * STEP_SECONDS
        else:
            self.admitted[self.admitted.index(job)] = replace(job, rejected=True)


@given(
    st.dictionaries(st.sampled_from(NAMES), st.integers(1, 4), min_size=1),
    st.sampled_from(QueueOrder),
    st.data(),
)
def test_large_job_starts_within_the_limit_and_the_longest_running_time(
    capacities: dict[str, int], order: QueueOrder, data: st.DataObject
) -> None:
    limit_seconds = 50.0
    cluster = Cluster(capacities, QueueRules(order, limit_seconds))
    # Small jobs keep every GPU busy, and every order but FIFO prefers them.
    for number in itertools.count():
        while len(cluster.waiting) < sum(capacities.values()):
            cluster.submit(f"small-{number}-{len(cluster.waiting)}", 1, 1.0)
        if number == 1:
            submitted = cluster.now
            cluster.submit("large", max(capacities.values()), 1000.0)
        cluster.advance(data)
        if "large" in cluster.ends:
            break
        # One step of the simulation passes until a job that has ended leaves its GPUs.
        waited_seconds = cluster.now - submitted if number else 0.0
        assert waited_seconds <= limit_seconds + LONGEST_SECONDS + STEP_SECONDS

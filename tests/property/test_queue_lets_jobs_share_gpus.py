"""The queue starts sharing jobs only if they fit, whatever the scheduler does; no job starves.

A simulated cluster: its scheduler binds the started jobs in any order, each to any idle GPU or to
any shared GPU that the job may join. Which workloads may share is random, and the same for queue
and scheduler.
"""

import itertools
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from gputopo.queueing.decide import decide_queue
from gputopo.queueing.model import (
    AdmittedJob,
    JoinableGpu,
    QueueOrder,
    QueueRules,
    QueueState,
    WaitingJob,
)

STEP_SECONDS, LONGEST_SECONDS, LIMIT_SECONDS = 5.0, 30.0, 50.0
MOST_PODS = 3
NODES = ("n1", "n2", "n3")
WORKLOADS = "abc"


@dataclass
class Job:
    """A job; a workload means that it shares its GPU."""

    name: str
    gpus: int
    workload: str
    created: float
    avoids: frozenset[str] = frozenset()
    node: str | None = None
    devices: tuple[str, ...] = ()
    since: float = 0.0
    ends: float = 0.0


@dataclass
class Cluster:
    """Nodes with GPUs, and the jobs of the queue."""

    draw: st.DataObject
    capacities: dict[str, int]
    rules: QueueRules
    now: float = 0.0
    waiting: list[Job] = field(default_factory=list)
    admitted: list[Job] = field(default_factory=list)
    _allowed: dict[tuple[str, ...], bool] = field(default_factory=dict)

    def submit(self, name: str, gpus: int, workload: str = "") -> None:
        self.waiting.append(Job(name, gpus, workload, self.now))

    def allows(self, job: Job, beside: list[Job]) -> bool:
        """Return whether the workloads may share a GPU; always the same for the same workloads."""
        if not job.workload or len(beside) >= MOST_PODS or not all(it.workload for it in beside):
            return False
        key = (job.workload, *sorted(it.workload for it in beside))
        if key not in self._allowed:
            self._allowed[key] = self.draw.draw(st.booleans())
        return self._allowed[key]

    def on(self, node: str) -> dict[str, list[Job]]:
        """Return the jobs of each GPU of a node."""
        found: dict[str, list[Job]] = {str(n): [] for n in range(self.capacities[node])}
        for job in self.admitted:
            if job.node == node:
                for device in job.devices:
                    found[device].append(job)
        return found

    def joins(self, job: Job) -> frozenset[JoinableGpu]:
        return frozenset(
            JoinableGpu(node, device)
            for node in self.capacities
            if node not in job.avoids
            for device, present in self.on(node).items()
            if present and self.allows(job, present)
        )

    def state(self) -> QueueState:
        admitted = [
            AdmittedJob(
                *(job.name, job.gpus, job.node, job.since or self.now, job.avoids),
                shares=job.devices[0] if job.node and job.workload else None,
                joins=frozenset() if job.node else self.joins(job),
            )
            for job in self.admitted
        ]
        waiting = [
            WaitingJob(
                *(job.name, job.gpus, job.created, job.created),
                sharing=bool(job.workload),
                joins=self.joins(job),
            )
            for job in self.waiting
        ]
        return QueueState(self.capacities, tuple(admitted), tuple(waiting), self.now)

    def advance(self) -> None:
        """End jobs, start jobs as the queue decides, and bind their pods to any GPUs."""
        self.now += STEP_SECONDS
        self.admitted = [job for job in self.admitted if not job.node or job.ends > self.now]
        for start in decide_queue(self.state(), self.rules).admitted:
            (job,) = (job for job in self.waiting if job.name == start.job)
            job.avoids = frozenset(start.avoids)
            self.waiting.remove(job)
            self.admitted.append(job)
        for job in self.draw.draw(st.permutations([it for it in self.admitted if not it.node])):
            self._bind(job)

    def _bind(self, job: Job) -> None:
        choices: list[tuple[str, tuple[str, ...]]] = []
        for node in sorted(self.capacities.keys() - job.avoids):
            gpus = self.on(node)
            idle = [device for device, present in gpus.items() if not present]
            if len(idle) >= job.gpus:
                choices.append((node, tuple(idle[: job.gpus])))
        choices += [(gpu.node, (gpu.gpu,)) for gpu in sorted(self.joins(job))]
        if choices:
            job.node, job.devices = self.draw.draw(st.sampled_from(choices))
            steps = self.draw.draw(st.integers(1, int(LONGEST_SECONDS / STEP_SECONDS)))
            job.since, job.ends = self.now, self.now + steps * STEP_SECONDS


capacities = st.dictionaries(st.sampled_from(NODES), st.integers(1, 3), min_size=1)
orders = st.sampled_from(QueueOrder)
workloads = st.sampled_from(["", *WORKLOADS])


@given(capacities, orders, st.data())
def test_every_job_that_is_started_gets_a_gpu_at_once(
    nodes: dict[str, int], order: QueueOrder, data: st.DataObject
) -> None:
    cluster = Cluster(data, nodes, QueueRules(order, LIMIT_SECONDS))
    for step in range(data.draw(st.integers(1, 14))):
        for number in range(data.draw(st.integers(0, 5))):
            cluster.submit(f"job-{step}-{number}", 1, data.draw(workloads))
        cluster.advance()
        assert [job.name for job in cluster.admitted if not job.node] == []


@given(capacities, orders, st.data())
def test_no_sharing_job_waits_alone_beside_a_gpu_that_it_may_join(
    nodes: dict[str, int], order: QueueOrder, data: st.DataObject
) -> None:
    cluster = Cluster(data, nodes, QueueRules(order, LIMIT_SECONDS))
    for number in range(data.draw(st.integers(1, 12))):
        cluster.submit(f"job-{number}", 1, data.draw(workloads))
        cluster.advance()
        state = cluster.state()
        decision = decide_queue(state, cluster.rules)
        joins = {job.job: job.joins for job in state.waiting}
        closed = {place.node for place in decision.waiting}
        waits = [place for place in decision.waiting if joins[place.job]]
        if not decision.admitted and closed == {None}:
            assert waits == []


@given(capacities, orders, st.data())
@settings(deadline=None)
def test_job_with_whole_gpus_starts_beside_a_stream_of_sharing_jobs(
    nodes: dict[str, int], order: QueueOrder, data: st.DataObject
) -> None:
    cluster = Cluster(data, nodes, QueueRules(order, LIMIT_SECONDS))
    cluster._allowed = {
        key: True
        for size in range(1, MOST_PODS + 1)
        for key in itertools.product(WORKLOADS, repeat=size)
    }
    for number in itertools.count():
        while len(cluster.waiting) < 2 * sum(nodes.values()):
            cluster.submit(f"small-{number}-{len(cluster.waiting)}", 1, WORKLOADS[number % 3])
        if number == 1:
            submitted = cluster.now
            cluster.submit("large", max(nodes.values()))
        cluster.advance()
        if any(job.name == "large" and job.node for job in cluster.admitted):
            break
        waited = cluster.now - submitted if number else 0.0
        assert waited <= LIMIT_SECONDS + LONGEST_SECONDS + STEP_SECONDS

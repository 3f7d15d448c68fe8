"""Pods that fit nowhere although kube-scheduler counts enough free GPUs."""

import asyncio

import pytest

from gputopo.api.names import RESOURCE
from gputopo.placement.score import Candidate
from gputopo_extender.state.ledger import Ledger
from gputopo_extender.verbs import retries as module
from gputopo_extender.verbs.retries import ERRORS_SECONDS, LONGEST_WAIT_SECONDS, FilterRetries
from gputopo_kube.pods import PodView, parse_gpu_pod
from gputopo_scheduling.evaluation import Evaluation, Misfit, MisfitKind, NodeFit
from support.builders.objects import pod
from support.virtual_time import runner

BUSY = Misfit(MisfitKind.BUSY, "too few free GPUs")
SMALL = Misfit(MisfitKind.TOO_SMALL, "too few GPUs")
ELSEWHERE = Misfit(MisfitKind.RESERVED_ELSEWHERE, "the pod is being bound to another node")
UNOBSERVED = Misfit(MisfitKind.UNOBSERVED, "unobserved")


def record(name: str = "a", *, grouped: bool = False, node: str | None = None) -> PodView:
    document = pod(name, node=node)
    if grouped:
        document["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    found = parse_gpu_pod(document, RESOURCE)
    assert found is not None
    return found


def evaluated(*results: NodeFit) -> Evaluation:
    nodes = [f"n{number}" for number in range(len(results))]
    return Evaluation(nodes, nodes, dict(zip(nodes, results, strict=True)))


class Filter:
    """What filter does for one pod, with a ledger that changes at a given time."""

    def __init__(self, retries: FilterRetries, ledger: Ledger) -> None:
        self.retries, self.ledger = retries, ledger
        self.evaluated = 0

    def __call__(
        self, pod: PodView, found: Evaluation, *, then: Evaluation, after: float
    ) -> tuple[Evaluation, float]:
        """Return the result and the seconds it took."""
        with runner() as loop:
            return loop.run(self._filter(pod, found, then, after))

    async def _filter(
        self, pod: PodView, found: Evaluation, then: Evaluation, after: float
    ) -> tuple[Evaluation, float]:
        loop = asyncio.get_running_loop()
        loop.call_later(after, self.ledger.drop_topology, "n0")

        wait = self.retries.begin_wait(pod, found)
        while wait is not None and await wait.changed():
            self.evaluated += 1
            found = then
            if not self.retries.may_be_outdated(pod, found):
                break
        return found, loop.time()


@pytest.fixture
def filtered() -> Filter:
    ledger = Ledger()
    return Filter(FilterRetries(ledger), ledger)


FITS = Evaluation([], [], {"n0": Candidate(match=None, lost_mb_per_s=0)})  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [BUSY, ELSEWHERE, UNOBSERVED])
def test_pod_waits_for_a_change_of_the_ledger_once(filtered: Filter, kind: Misfit) -> None:
    busy = evaluated(kind, SMALL)
    found, seconds = filtered(record(), busy, then=FITS, after=0.035)
    assert (found, filtered.evaluated) == (FITS, 1)
    assert 0.035 <= seconds < 0.06
    assert filtered.retries.reason(record(), found) is None
    found, seconds = filtered(record(), busy, then=FITS, after=0.0)
    assert (found, seconds) == (busy, 0.0), "once per pod"
    assert filtered(record("b"), busy, then=FITS, after=0.0)[0] is FITS


def test_pod_that_does_not_fit_after_the_wait_gets_an_error(filtered: Filter) -> None:
    busy = evaluated(SMALL, BUSY, BUSY, BUSY, BUSY)
    found, seconds = filtered(record(), busy, then=busy, after=0.035)
    assert (found, filtered.evaluated) == (busy, 1)
    assert LONGEST_WAIT_SECONDS <= seconds < LONGEST_WAIT_SECONDS + 0.02
    assert filtered.retries.reason(record(), found) == (
        "kube-scheduler counts enough free GPUs, the extender does not yet: n1: too few free GPUs; "
        "n2: too few free GPUs; n3: too few free GPUs; and 1 more nodes"
    )


@pytest.mark.parametrize(
    ("waiting", "found"),
    [
        (record(grouped=True), evaluated(BUSY)),
        (record(), evaluated(SMALL)),
        (record(), evaluated()),
        (record(), FITS),
    ],
)
def test_pod_that_fits_or_waits_for_other_pods_gets_a_result_at_once(
    filtered: Filter, waiting: PodView, found: Evaluation
) -> None:
    assert filtered(waiting, found, then=FITS, after=1.0) == (found, 0.0)
    assert filtered.retries.reason(waiting, found) is None


def test_processes_of_deleted_pods_are_named_at_once_also_to_groups(filtered: Filter) -> None:
    deleted = evaluated(BUSY, Misfit(MisfitKind.DELETED_PODS, "GPUs in use by processes"))
    for waiting in (record(), record(grouped=True)):
        assert filtered(waiting, deleted, then=FITS, after=0.0) == (deleted, 0.0)
        reason = filtered.retries.reason(waiting, deleted)
        assert reason == "n1: GPUs in use by processes: waiting until they end"


class Clock:
    """A clock that the test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def important(name: str = "a", **spec: object) -> PodView:
    """Return a pod that may preempt others."""
    document = pod(name)
    document["spec"] |= {"priority": 100, **spec}
    found = parse_gpu_pod(document, RESOURCE)
    assert found is not None
    return found


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def retries(clock: Clock) -> FilterRetries:
    """Return the retries of a cluster where one pod of priority 0 runs."""
    ledger = Ledger()
    ledger.put_pod(record("live", node="n9"))
    return FilterRetries(ledger, clock)


DELETED = evaluated(Misfit(MisfitKind.DELETED_PODS, "GPUs in use by processes"))
LASTING = [DELETED, evaluated(BUSY), evaluated(Misfit(MisfitKind.NOT_READY, "not ready"))]


@pytest.mark.parametrize("found", LASTING)
def test_pod_that_may_preempt_is_unschedulable_once_a_minute(
    retries: FilterRetries, clock: Clock, found: Evaluation
) -> None:
    unschedulable = []
    for second in range(0, 200, 2):
        clock.now = second
        if retries.reason(important(), found) is None:
            unschedulable.append(second)
    assert unschedulable == [60, 122, 184]


@pytest.mark.parametrize(
    "waiting",
    [record(), important(preemptionPolicy="Never"), important(priority=-1), important(priority=0)],
)
def test_pod_that_can_preempt_no_pod_gets_errors_without_limit(
    retries: FilterRetries, clock: Clock, waiting: PodView
) -> None:
    for second in range(0, 700, 2):
        clock.now = second
        assert retries.reason(waiting, DELETED) is not None


def test_waiting_and_ended_pods_cannot_be_preempted(clock: Clock) -> None:
    ledger = Ledger()
    ledger.put_pod(record("waits"))
    ended = parse_gpu_pod(pod("ended", node="n1", phase="Failed"), RESOURCE)
    assert ended is not None
    ledger.put_pod(ended)
    retries = FilterRetries(ledger, clock)
    assert retries.reason(important(), DELETED) is not None
    clock.now = ERRORS_SECONDS
    assert retries.reason(important(), DELETED) is not None


def test_minute_begins_again_after_the_pod_fitted(retries: FilterRetries, clock: Clock) -> None:
    assert retries.reason(important(), DELETED) is not None
    clock.now = ERRORS_SECONDS - 1
    assert retries.reason(important("b"), DELETED) is not None
    assert retries.reason(important(), FITS) is None
    clock.now = ERRORS_SECONDS
    assert retries.reason(important(), DELETED) is not None
    clock.now = 2 * ERRORS_SECONDS - 1
    assert retries.reason(important("b"), DELETED) is None
    assert retries.reason(important(), DELETED) is not None


def test_oldest_errors_are_forgotten(
    retries: FilterRetries, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_REMEMBERED", 1)
    assert retries.reason(important("a"), DELETED) is not None
    assert retries.reason(important("b"), DELETED) is not None
    clock.now = ERRORS_SECONDS
    assert retries.reason(important("b"), DELETED) is None
    assert retries.reason(important("a"), DELETED) is not None


def test_pods_that_are_gone_or_bound_are_forgotten(
    filtered: Filter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_REMEMBERED", 2)
    for waiting in (record("a"), record("b", node="n1"), record("c")):
        filtered.ledger.put_pod(waiting)
    busy = evaluated(BUSY)

    def waits(name: str) -> bool:
        return filtered(record(name), busy, then=FITS, after=0.0)[0] is FITS

    assert [waits(name) for name in "abc"] == [True, True, True]
    assert not waits("a"), "it still waits, unlike b, which is bound"
    assert waits("d"), "the oldest has to go"
    assert waits("a")

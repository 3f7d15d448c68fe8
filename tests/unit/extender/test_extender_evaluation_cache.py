"""The evaluation cache evaluates each state once, in a thread, while other pods are served."""

import asyncio
from collections.abc import Hashable
from collections.abc import Set as AbstractSet
from threading import Event

import pytest
from prometheus_client import Histogram

from gputopo.patterns.model import PatternKind, build
from gputopo.placement.model import PlacementRequest, PolicyName
from gputopo_cluster.usage import NodeState
from gputopo_extender.verbs import evaluation_cache as cache_module
from gputopo_extender.verbs.evaluation_cache import EvaluationCache, TablesNotReadyError
from gputopo_scheduling.evaluation import AnyNodeState, NodeFit
from gputopo_scheduling.node_fits import evaluate_states
from support.builders.topologies import node

FOUR = node(0, 1, 2, 3)
IDLE = NodeState(FOUR, FOUR.mask, FOUR.mask, unknown=0, blocked=None)
PATIENT = 60.0


def ring(size: int, policy: PolicyName = PolicyName.PRESERVE) -> PlacementRequest:
    return PlacementRequest(build(PatternKind.RING, size), sensitive=True, policy=policy)


class SlowBuild:
    """Works out what is true, but rings of three only once the gate is open."""

    def __init__(self) -> None:
        self.gate = Event()
        self.started = Event()
        self.calls: list[PlacementRequest] = []

    def __call__(
        self, states: AbstractSet[AnyNodeState], request: PlacementRequest
    ) -> dict[Hashable, NodeFit]:
        self.calls.append(request)
        self.started.set()
        if request.size == 3:
            self.gate.wait(PATIENT)
        return evaluate_states(states, request)


@pytest.fixture
def slow() -> SlowBuild:
    return SlowBuild()


def build_seconds() -> Histogram:
    return Histogram("build_seconds", "Build time.", registry=None)


def kept_by(slow: SlowBuild, *, timeout_seconds: float = PATIENT) -> EvaluationCache:
    return EvaluationCache(slow, build_seconds(), timeout_seconds=timeout_seconds)


async def test_requests_for_the_same_key_share_one_build(slow: SlowBuild) -> None:
    cache = kept_by(slow)
    requested = [asyncio.create_task(cache.evaluate({IDLE}, ring(3))) for _ in range(5)]
    await asyncio.sleep(0)
    slow.gate.set()
    found = await asyncio.gather(*requested)
    assert slow.calls == [ring(3)]
    assert all(each[IDLE] is found[0][IDLE] for each in found)


async def test_requests_of_one_pattern_do_not_build_its_tables_at_the_same_time(
    slow: SlowBuild,
) -> None:
    cache = kept_by(slow)
    first = asyncio.create_task(cache.evaluate({IDLE}, ring(3)))
    second = asyncio.create_task(cache.evaluate({IDLE}, ring(3, PolicyName.GREEDY)))
    await asyncio.to_thread(slow.started.wait, PATIENT)
    await asyncio.sleep(0.2)  # the second would begin in this time
    assert len(slow.calls) == 1
    slow.gate.set()
    await asyncio.gather(first, second)
    assert len(slow.calls) == 2


async def test_other_requests_are_evaluated_while_a_table_is_being_built(slow: SlowBuild) -> None:
    cache = kept_by(slow)
    waiting = asyncio.create_task(cache.evaluate({IDLE}, ring(3)))
    assert IDLE in await cache.evaluate({IDLE}, ring(2))
    assert not waiting.done()
    slow.gate.set()
    assert IDLE in await waiting


async def test_evaluation_that_times_out_raises_and_its_result_is_kept(
    slow: SlowBuild,
) -> None:
    cache = kept_by(slow, timeout_seconds=0.01)
    with pytest.raises(TablesNotReadyError, match="still being evaluated for Ring of 3 GPUs: try"):
        await cache.evaluate({IDLE}, ring(3))
    slow.gate.set()
    await cache.prepare({IDLE}, ring(3))
    assert IDLE in await cache.evaluate({IDLE}, ring(3))
    assert slow.calls == [ring(3)]


async def test_only_new_states_are_evaluated(slow: SlowBuild) -> None:
    seconds = build_seconds()
    cache = EvaluationCache(slow, seconds, timeout_seconds=PATIENT)
    await cache.evaluate({IDLE, None}, ring(2))
    await cache.evaluate({IDLE}, ring(2))
    await cache.evaluate({None}, ring(2))
    assert len(slow.calls) == 1
    (family,) = seconds.collect()
    assert [each.value for each in family.samples if each.name.endswith("_count")] == [1]


async def test_failed_evaluation_raises_and_is_not_kept() -> None:
    broken = True

    def work_out(
        states: AbstractSet[AnyNodeState], request: PlacementRequest
    ) -> dict[Hashable, NodeFit]:
        if broken:
            raise ArithmeticError("no such table")
        return evaluate_states(states, request)

    cache = EvaluationCache(work_out, build_seconds(), timeout_seconds=PATIENT)
    with pytest.raises(ArithmeticError):
        await cache.evaluate({IDLE}, ring(2))
    broken = False
    assert IDLE in await cache.evaluate({IDLE}, ring(2))


async def test_least_recently_used_requests_are_dropped_first(
    slow: SlowBuild, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_module, "_MOST_RESULTS", 2)
    cache = kept_by(slow)
    for size in (1, 2, 1, 4, 1):
        assert IDLE in await cache.evaluate({IDLE}, ring(size))
    assert slow.calls == [ring(1), ring(2), ring(4)]
    await cache.evaluate({IDLE}, ring(2))
    assert slow.calls[3:] == [ring(2)]

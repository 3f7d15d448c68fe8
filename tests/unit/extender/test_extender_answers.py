"""The evaluation cache evaluates each state once, in a thread, while other pods are served."""

import asyncio
from collections.abc import Hashable
from collections.abc import Set as AbstractSet
from threading import Event

import pytest

from builders import node
from gputopo.patterns.model import PatternKind, build
from gputopo.placement.model import PlacementRequest, PolicyName
from gputopo_extender.state.usage import NodeState
from gputopo_extender.verbs import evaluation_cache as answers_module
from gputopo_extender.verbs.evaluation import AnyNodeState, NodeFit, evaluate_states
from gputopo_extender.verbs.evaluation_cache import EvaluationCache, TablesNotReadyError

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


def kept_by(slow: SlowBuild, *, patience_seconds: float = PATIENT) -> EvaluationCache:
    return EvaluationCache(slow, patience_seconds=patience_seconds, on_worked_out=lambda _: None)


async def test_requests_for_the_same_key_share_one_build(slow: SlowBuild) -> None:
    answers = kept_by(slow)
    asked = [asyncio.create_task(answers.of({IDLE}, ring(3))) for _ in range(5)]
    await asyncio.sleep(0)
    slow.gate.set()
    found = await asyncio.gather(*asked)
    assert slow.calls == [ring(3)]
    assert all(each[IDLE] is found[0][IDLE] for each in found)


async def test_shapes_of_one_pattern_do_not_build_its_tables_at_the_same_time(
    slow: SlowBuild,
) -> None:
    answers = kept_by(slow)
    first = asyncio.create_task(answers.of({IDLE}, ring(3)))
    second = asyncio.create_task(answers.of({IDLE}, ring(3, PolicyName.GREEDY)))
    await asyncio.to_thread(slow.started.wait, PATIENT)
    assert len(slow.calls) == 1
    slow.gate.set()
    await asyncio.gather(first, second)
    assert len(slow.calls) == 2


async def test_others_are_answered_while_a_table_is_being_built(slow: SlowBuild) -> None:
    answers = kept_by(slow)
    waiting = asyncio.create_task(answers.of({IDLE}, ring(3)))
    assert IDLE in await answers.of({IDLE}, ring(2))
    assert not waiting.done()
    slow.gate.set()
    assert IDLE in await waiting


async def test_who_cannot_wait_is_told_to_try_again_and_then_finds_the_answer(
    slow: SlowBuild,
) -> None:
    answers = kept_by(slow, patience_seconds=0.01)
    with pytest.raises(TablesNotReadyError, match="Ring of 3 GPUs are being built: try again"):
        await answers.of({IDLE}, ring(3))
    slow.gate.set()
    await answers.prepare({IDLE}, ring(3))
    assert IDLE in await answers.of({IDLE}, ring(3))
    assert slow.calls == [ring(3)]


async def test_only_states_not_seen_before_are_worked_out(slow: SlowBuild) -> None:
    told: list[float] = []
    answers = EvaluationCache(slow, patience_seconds=PATIENT, on_worked_out=told.append)
    await answers.of({IDLE, None}, ring(2))
    await answers.of({IDLE}, ring(2))
    await answers.of({None}, ring(2))
    assert len(slow.calls) == len(told) == 1


async def test_a_failure_reaches_who_asked_and_is_not_kept() -> None:
    broken = True

    def work_out(
        states: AbstractSet[AnyNodeState], request: PlacementRequest
    ) -> dict[Hashable, NodeFit]:
        if broken:
            raise ArithmeticError("no such table")
        return evaluate_states(states, request)

    answers = EvaluationCache(work_out, patience_seconds=PATIENT, on_worked_out=lambda _: None)
    with pytest.raises(ArithmeticError):
        await answers.of({IDLE}, ring(2))
    broken = False
    assert IDLE in await answers.of({IDLE}, ring(2))


async def test_the_shapes_not_asked_for_are_forgotten_when_there_are_too_many_answers(
    slow: SlowBuild, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers_module, "_MOST_ANSWERS", 2)
    answers = kept_by(slow)
    for size in (1, 2, 1, 4, 1):
        assert IDLE in await answers.of({IDLE}, ring(size))
    assert slow.calls == [ring(1), ring(2), ring(4)]
    await answers.of({IDLE}, ring(2))
    assert slow.calls[3:] == [ring(2)]

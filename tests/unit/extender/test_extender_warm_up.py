"""Tables of rings are built before the first pod needs them."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Hashable
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager
from typing import cast

import pytest
from prometheus_client import Histogram

from gputopo.catalogue import named
from gputopo.placement.model import PlacementRequest, PolicyName
from gputopo_cluster.topologies import UnreadableTopology, parse_gpu_node
from gputopo_cluster.usage import NodeState
from gputopo_extender.state.ledger import Ledger
from gputopo_extender.verbs import warm_up as warmup
from gputopo_extender.verbs.evaluation_cache import EvaluationCache
from gputopo_extender.verbs.warm_up import TableWarmUp
from gputopo_scheduling.evaluation import AnyNodeState, NodeFit
from gputopo_scheduling.node_fits import evaluate_states
from support.builders.objects import topology_object
from support.extender.service import until


class Recorder:
    """Works out what is true, and notes sizes by the node's number of GPUs."""

    def __init__(self) -> None:
        self.built: list[tuple[int, int]] = []
        self.broken_for = 0

    def __call__(
        self, states: AbstractSet[AnyNodeState], request: PlacementRequest
    ) -> dict[Hashable, NodeFit]:
        gpus = [len(each.structure.gpus) for each in states if isinstance(each, NodeState)]
        self.built.append((gpus[0], request.size))
        if gpus[0] == self.broken_for:
            raise ArithmeticError("no such table")
        return evaluate_states(states, request)

    def has(self, gpus: int) -> bool:
        return [size for there, size in self.built if there == gpus] == [*range(1, gpus + 1)]


@asynccontextmanager
async def warming(
    ledger: Ledger, recorder: Callable[..., dict[Hashable, NodeFit]]
) -> AsyncIterator[None]:
    cache = EvaluationCache(
        recorder, Histogram("build_seconds", "Build time.", registry=None), timeout_seconds=60.0
    )
    task = asyncio.create_task(TableWarmUp(ledger, cache, PolicyName.PRESERVE).run())
    try:
        yield
    finally:
        task.cancel()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warmup, "_LOOK_EVERY_SECONDS", 0.01)


def put(ledger: Ledger, node: str, server: str) -> None:
    ledger.put_topology(parse_gpu_node(topology_object(node, named(server, node=node))))


async def _holds(condition: Callable[[], bool]) -> bool:
    return condition()


async def test_tables_of_all_rings_are_built_once_for_each_structure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    ledger, recorder = Ledger(), Recorder()
    put(ledger, "n1", "dgx1-v100")
    put(ledger, "n2", "dgx1-v100")
    ledger.put_topology(UnreadableTopology("n3", "broken"))
    async with warming(ledger, recorder):
        await until(lambda: _holds(lambda: recorder.has(8)))
        put(ledger, "n4", "summit")
        await until(lambda: _holds(lambda: recorder.has(6)))
    assert "tables of rings built" in caplog.text
    assert "up_to=8 of=8" in caplog.text


async def test_structure_whose_tables_cannot_be_built_does_not_stop_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ledger, recorder = Ledger(), Recorder()
    recorder.broken_for = 8
    put(ledger, "n1", "dgx1-v100")
    async with warming(ledger, recorder):
        await until(lambda: _holds(lambda: "warm-up failed" in caplog.text))
        put(ledger, "n2", "summit")
        await until(lambda: _holds(lambda: recorder.has(6)))
    assert "no such table" in caplog.text
    assert recorder.built.count((8, 1)) == 1


def test_topologies_of_nodes_that_are_gone_are_forgotten() -> None:
    ledger = Ledger()
    put(ledger, "n1", "dgx1-v100")
    warm = TableWarmUp(ledger, cast("EvaluationCache", None), PolicyName.PRESERVE)
    [structure] = warm._cold()
    warm._warm.add(structure.fingerprint)
    assert warm._cold() == []
    assert len(warm._warm) == 1
    ledger.drop_topology("n1")
    assert warm._cold() == []
    assert not warm._warm

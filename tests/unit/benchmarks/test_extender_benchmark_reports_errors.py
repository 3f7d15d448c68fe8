"""The extender benchmark reports pods for which filter fails, and measures the others."""

from collections.abc import Hashable, Mapping
from collections.abc import Set as AbstractSet

import pytest

from benchmarks import extender
from benchmarks.fleet import SHAPES
from gputopo.placement.model import PlacementRequest
from gputopo_extender.verbs.evaluation_cache import EvaluationCache, TablesNotReadyError
from gputopo_scheduling.evaluation import AnyNodeState, NodeFit

NOT_READY = "tables are not built yet"


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Return the numbers of GPUs for which the evaluation runs into its time limit."""
    sizes: set[int] = set()
    evaluate = EvaluationCache.evaluate

    async def evaluated(
        self: EvaluationCache, states: AbstractSet[AnyNodeState], request: PlacementRequest
    ) -> Mapping[Hashable, NodeFit]:
        if request.size in sizes:
            raise TablesNotReadyError(NOT_READY)
        return await evaluate(self, states, request)

    monkeypatch.setattr(EvaluationCache, "evaluate", evaluated)
    return sizes


def test_pod_whose_tables_are_not_built_in_time_is_reported_and_the_others_are_measured(
    failing: set[int], capsys: pytest.CaptureFixture[str]
) -> None:
    failing.add(8)
    costs = extender.in_process(nodes=10, times=1)
    named = [shape.name for shape in SHAPES if shape.gpus != 8]
    assert [cost.name for cost in costs] == [*named, "nothing to decide"]
    reported = capsys.readouterr().err
    assert reported == f"ring of 8: not measured: filter returned an error: {NOT_READY}\n"


def test_run_in_which_filter_fails_for_each_pod_ends_with_a_message(failing: set[int]) -> None:
    failing.update(shape.gpus for shape in SHAPES)
    with pytest.raises(SystemExit, match="filter returned an error for each pod"):
        extender.in_process(nodes=10, times=1)

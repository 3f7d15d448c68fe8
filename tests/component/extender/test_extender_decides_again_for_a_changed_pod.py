"""A bind uses no annotations that have changed: it fails, and the next one uses the new ones."""

import copy
import json
from collections.abc import Hashable, Mapping
from collections.abc import Set as AbstractSet

import pytest

from gputopo.api.names import (
    GPUS_ANNOTATION,
    PATTERN_ANNOTATION,
    PLACEMENT_ANNOTATION,
    PROFILE_ANNOTATION,
)
from gputopo.placement.model import PlacementRequest
from gputopo_extender.verbs.evaluation_cache import EvaluationCache
from gputopo_kube.pods import parse_pod
from gputopo_scheduling.evaluation import AnyNodeState, NodeFit
from support.api.faults import Hook
from support.api.server import ApiServer
from support.api.store import PODS
from support.builders.objects import pod
from support.extender.service import Start, before_binding, until

CHANGED = "other clients keep changing the pod, node n1 or the claims: try again"


def change_pattern(api: ApiServer, pattern: str) -> None:
    changed = copy.deepcopy(api.pod("a"))
    changed["metadata"].setdefault("annotations", {})[PATTERN_ANNOTATION] = pattern
    api.put(PODS, changed)


def recorded_pattern(api: ApiServer) -> tuple[str, str]:
    """Return the pattern of the pod's Binding, and where it came from."""
    record = json.loads(api.pod("a")["metadata"]["annotations"][PLACEMENT_ANNOTATION])
    return record["pattern"], record["replay"]["patternFrom"]


async def test_pattern_that_changes_before_the_binding_is_used(
    start: Start, api: ApiServer
) -> None:
    api.put(PODS, pod("a", 4))
    async with start() as extender:
        before_binding(api, lambda: change_pattern(api, "AllToAll"))
        assert CHANGED in await extender.scheduler().bind(pod("a", 4), "n1")
        assert await extender.scheduler().bind(pod("a", 4), "n1") == ""
    assert recorded_pattern(api) == ("AllToAll", "Annotation")


async def test_pattern_that_becomes_invalid_before_the_binding_is_rejected(
    start: Start, api: ApiServer
) -> None:
    api.put(PODS, pod("a", 4))
    async with start() as extender:
        before_binding(api, lambda: change_pattern(api, "Spiral"))
        assert "Spiral" in await extender.scheduler().bind(pod("a", 4), "n1")
    assert api.bindings == []


async def test_pattern_that_changes_while_claims_are_read_is_used(
    start: Start, api: ApiServer
) -> None:
    api.put(PODS, pod("a", 4))
    async with start() as extender:
        api.hooks.append(Hook("GET", "/leases", lambda: change_pattern(api, "AllToAll")))
        assert CHANGED in await extender.scheduler().bind(pod("a", 4), "n1")
        assert await extender.scheduler().bind(pod("a", 4), "n1") == ""
    assert recorded_pattern(api) == ("AllToAll", "Annotation")


async def test_pattern_that_changes_while_tables_are_built_is_used(
    start: Start, api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.put(PODS, pod("a", 4))
    evaluate = EvaluationCache.evaluate
    patterns: list[str] = []
    async with start() as extender:

        async def change_meanwhile(
            cache: EvaluationCache, states: AbstractSet[AnyNodeState], request: PlacementRequest
        ) -> Mapping[Hashable, NodeFit]:
            patterns.append(request.pattern.kind)
            if len(patterns) == 1:
                change_pattern(api, "AllToAll")
                api.put(PODS, pod("later"))
                await until(two_pods_wait)
            return await evaluate(cache, states, request)

        async def two_pods_wait() -> bool:
            return await extender.metric("gputopo_ledger_waiting_pods") == 2

        monkeypatch.setattr(EvaluationCache, "evaluate", change_meanwhile)
        assert CHANGED in await extender.scheduler().bind(pod("a", 4), "n1")
        assert await extender.scheduler().bind(pod("a", 4), "n1") == ""
    assert patterns == ["Ring", "AllToAll"]
    assert recorded_pattern(api) == ("AllToAll", "Annotation")


async def test_binding_records_the_request_of_the_decision(start: Start, api: ApiServer) -> None:
    def change(profile: str) -> None:
        changed = copy.deepcopy(api.pod("a"))
        changed["metadata"]["annotations"][PROFILE_ANNOTATION] = profile
        api.put(PODS, changed)

    api.put(PODS, pod("a", 4, annotations={PROFILE_ANNOTATION: "first"}))
    async with start() as extender:
        before_binding(api, lambda: change("second"))
        assert await extender.scheduler().bind(pod("a", 4), "n1") == ""
        recorded = json.loads(api.pod("a")["metadata"]["annotations"][GPUS_ANNOTATION])
        assert recorded["request"] == {"profile": "second"}
        change("third")
    assert parse_pod(api.pod("a")).annotations[PROFILE_ANNOTATION] == "second"

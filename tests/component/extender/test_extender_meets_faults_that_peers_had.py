"""Faults of other projects' extenders, reproduced with this one: see docs/develop/scenarios.md."""

import copy

from support.api.server import ApiServer
from support.api.store import PODS
from support.builders.objects import pod
from support.extender.service import Extender, Start, twice, until, uuids_of

NODES = ["n1", "n2"]
GPUS = ("free", "used", "unhealthy", "blocked")


async def usages(extender: Extender) -> dict[str, float]:
    """Return what the ledger counts: GPUs by state, and reservations by progress."""
    gpus = {state: f'gputopo_ledger_gpus{{state="{state}"}}' for state in GPUS}
    held = {
        progress: f'gputopo_ledger_reservations{{progress="{progress}"}}'
        for progress in ("writing", "unknown", "bound")
    }
    return {name: await extender.metric(line) for name, line in {**gpus, **held}.items()}


async def test_equal_pods_filtered_against_one_snapshot_are_bound_as_far_as_they_fit(
    start: Start, api: ApiServer
) -> None:
    pods = [pod(f"p{number}", 3) for number in range(5)]
    for each in pods:
        api.put(PODS, each)

    async def nothing_is_reserved() -> bool:
        found = await usages(extender)
        return (found["used"], found["writing"], found["unknown"], found["bound"]) == (6, 0, 0, 0)

    async with start() as extender:
        scheduler = extender.scheduler()
        for each in pods:
            assert (await scheduler.filter(each, ["n1"])).fits == ["n1"]
        errors = [await scheduler.bind(each, "n1") for each in pods]
        assert errors == ["", "", *["n1: too few free GPUs"] * 3]
        assert [len(uuids_of(api.pod(each["metadata"]["name"]))) for each in pods] == [
            3,
            3,
            0,
            0,
            0,
        ]
        assert twice(api.all(PODS)) == []
        assert len(api.bindings) == 2
        await until(nothing_is_reserved)
        rejected = await scheduler.filter(pods[2], ["n1"])
        assert "n1: too few free GPUs" in rejected.error
        assert await scheduler.bind(pod("p2", 3), "n2") == ""


async def test_bound_pod_that_is_filtered_again_keeps_its_gpus(
    start: Start, api: ApiServer
) -> None:
    api.put(PODS, pod("a", 2))

    async def is_shown() -> bool:
        return (await usages(extender))["bound"] == 0

    async with start() as extender:
        scheduler = extender.scheduler()
        assert await scheduler.bind(pod("a", 2), "n1") == ""
        await until(is_shown)
        bound, before = copy.deepcopy(api.pod("a")), await usages(extender)
        for document in (pod("a", 2), bound):  # before and after the Binding
            assert (await scheduler.filter(document, NODES)).error == ""
            assert set(await scheduler.prioritize(document, NODES)) == set(NODES)
            assert await scheduler.bind(document, "n1") == ""
            assert "bound to n1" in await scheduler.bind(document, "n2")
        assert await usages(extender) == before
    assert api.pod("a") == bound
    assert len(api.bindings) == 1

"""Init containers, sidecars and application containers of one pod, as kubelet serves them."""

from collections.abc import Collection, Mapping, Sequence

import pytest

from support.agent.world import AgentWorld, annotation_of, pod_document
from support.api.store import PODS
from support.kubelet.device_manager import AdmissionRejectedError


async def run(
    world: AgentWorld,
    requests: Mapping[str, int],
    placed: Mapping[str, Sequence[int]],
    *,
    init: Mapping[str, int],
    sidecars: Collection[str] = (),
) -> dict[str, list[int]]:
    """Place and admit pod "a"; return the GPUs that each container sees, by index, in order."""
    gpus = {name: [world.uuids[index] for index in indices] for name, indices in placed.items()}
    document = pod_document(
        "a", requests, init=init, sidecars=sidecars, annotation=annotation_of("a", gpus)
    )
    world.api.put(PODS, document)
    given = await world.kubelet.admit(("default", "a"), requests, init=init, sidecars=sidecars)
    return {
        name: [world.uuids.index(uuid) for uuid in reply.envs["CUDA_VISIBLE_DEVICES"].split(",")]
        for name, reply in given.items()
    }


async def test_an_init_container_gets_the_first_ranks_of_the_application_container(
    world: AgentWorld,
) -> None:
    async with world.agent():
        await world.served()
        seen = await run(world, {"main": 3}, {"main": [6, 2, 5]}, init={"warm": 2})
        assert seen == {"warm": [6, 2], "main": [6, 2, 5]}
        await world.until(lambda: world.observed(6).get("container") == "main")


async def test_kubelet_reuses_equally_many_gpus_without_a_preference_request(
    world: AgentWorld,
) -> None:
    async with world.agent():
        await world.served()
        seen = await run(world, {"main": 2}, {"main": [6, 2]}, init={"one": 2, "two": 2})
    assert seen == {"one": [6, 2], "two": [6, 2], "main": [6, 2]}


async def test_a_smaller_init_container_gets_any_part_of_the_reused_gpus(
    world: AgentWorld,
) -> None:
    async with world.agent():
        await world.served()
        init = {"one": 3, "idle": 0, "two": 2, "three": 4}
        seen = await run(world, {"main": 4}, {"main": [7, 6, 1, 0]}, init=init)
    assert seen["one"] == [7, 6, 1]
    assert set(seen["two"]) < {7, 6, 1}  # kubelet chooses without a preference request
    assert seen["two"] == sorted(seen["two"], reverse=True)  # still in rank order
    assert seen["three"] == seen["main"] == [7, 6, 1, 0]


async def test_a_sidecar_keeps_its_gpus_and_init_containers_get_those_of_the_next_container(
    world: AgentWorld,
) -> None:
    async with world.agent():
        await world.served()
        seen = await run(
            world,
            {"main": 2, "idle": 0, "second": 1},
            {"proxy": [4, 3], "main": [6, 2], "second": [0]},
            init={"before": 1, "proxy": 2, "after": 1},
            sidecars=["proxy"],
        )
        expected = {"before": [4], "proxy": [4, 3], "after": [6], "main": [6, 2], "second": [0]}
        assert seen == expected
        await world.until(lambda: world.observed(3).get("container") == "proxy")


async def test_a_sidecar_without_gpus_beside_a_container_with_gpus_changes_nothing(
    world: AgentWorld,
) -> None:
    async with world.agent():
        await world.served()
        seen = await run(
            world, {"main": 2}, {"main": [6, 2]}, init={"proxy": 0}, sidecars=["proxy"]
        )
    assert seen == {"main": [6, 2]}


@pytest.mark.parametrize(
    ("requests", "later"),
    [({"main": 1}, "container main after it requests 1"), ({}, "container after it requests any")],
)
async def test_an_init_container_that_requests_too_many_gpus_is_rejected(
    world: AgentWorld, requests: dict[str, int], later: str
) -> None:
    async with world.agent():
        await world.served()
        requests = requests or {"main": 0}
        with pytest.raises(AdmissionRejectedError) as rejected:
            await run(world, requests, {"main": [3]}, init={"warm": 2})
        assert "init container warm requests 2 GPUs" in str(rejected.value)
        assert later in str(rejected.value)
        await world.until(lambda: world.events("GPUsRefused") == [str(rejected.value)])


async def test_no_other_pod_is_admitted_between_the_containers_of_a_pod(world: AgentWorld) -> None:
    async with world.agent():
        await world.served()
        await world.place("b", {"main": [1]})
        world.api.mute = True
        seen = await run(world, {"main": 1}, {"main": [6]}, init={"warm": 1})
        assert seen == {"warm": [6], "main": [6]}
        given = await world.kubelet.admit(("default", "b"), {"main": 1})
    assert given["main"].envs["CUDA_VISIBLE_DEVICES"] == world.uuids[1]

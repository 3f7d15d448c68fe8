"""The agent with a kubelet and an API server: which pod gets which GPUs."""

from pathlib import Path

import pytest

from support.agent.world import AgentWorld, agent_world, annotation_of, pod_document
from support.api.store import PODS
from support.kubelet.device_manager import AdmissionRejectedError


async def test_a_container_gets_its_gpus_in_rank_order(world: AgentWorld) -> None:
    async with world.agent():
        await world.served()
        given = await world.run("a", {"main": [6, 2, 5]})
    chosen = [world.uuids[index] for index in (6, 2, 5)]
    assert given["main"].envs["CUDA_VISIBLE_DEVICES"] == ",".join(chosen)
    assert given["main"].envs["NVIDIA_VISIBLE_DEVICES"] == ",".join(chosen)
    assert world.kubelet.checkpoint.pods["default", "a"]["main"] == set(chosen)
    names = ["nvidia6", "nvidia2", "nvidia5", "nvidiactl", "nvidia-uvm"]
    assert [spec.container_path for spec in given["main"].devices] == [
        f"/dev/{name}" for name in names
    ]
    assert [spec.host_path for spec in given["main"].devices] == [
        str(world.settings.device_dir / name) for name in names
    ]


async def test_with_cdi_a_container_gets_device_names_in_rank_order_and_no_device_nodes(
    short_directory: Path, library_dir: Path
) -> None:
    async with agent_world(short_directory, library_dir, device_injection="CDI") as world:
        async with world.agent():
            await world.served()
            given = await world.run("a", {"main": [6, 2, 5]})
        chosen = [world.uuids[index] for index in (6, 2, 5)]
    names = [device.name for device in given["main"].cdi_devices]
    assert names == [f"nvidia.com/gpu={uuid}" for uuid in chosen]
    assert given["main"].envs["CUDA_VISIBLE_DEVICES"] == ",".join(chosen)
    assert given["main"].envs["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert not given["main"].devices


async def test_pods_admitted_one_after_the_other_each_get_their_own_gpus(world: AgentWorld) -> None:
    async with world.agent():
        await world.served()
        # Placed in one order and admitted in another, all of one size.
        for name, gpu in (("a", 0), ("b", 1), ("c", 2)):
            await world.place(name, {"main": [gpu]})
        for name, gpu in (("c", 2), ("a", 0), ("b", 1)):
            given = await world.kubelet.admit(("default", name), {"main": 1})
            assert given["main"].envs["CUDA_VISIBLE_DEVICES"] == world.uuids[gpu]
    assert world.kubelet.checkpoint.lists_inside_allocate == 0


async def test_several_containers_of_a_pod_each_get_their_own_gpus(world: AgentWorld) -> None:
    async with world.agent():
        await world.served()
        given = await world.run("a", {"first": [3, 0], "idle": [], "second": [7, 5]})
    seen = {name: reply.envs["CUDA_VISIBLE_DEVICES"] for name, reply in given.items()}
    assert seen == {
        "first": f"{world.uuids[3]},{world.uuids[0]}",
        "second": f"{world.uuids[7]},{world.uuids[5]}",
    }


async def test_a_pod_that_the_watch_has_not_shown_yet_is_read(world: AgentWorld) -> None:
    async with world.agent():
        await world.served()
        world.api.mute = True
        given = await world.run("a", {"main": [1]})
    assert given["main"].envs["CUDA_VISIBLE_DEVICES"] == world.uuids[1]


async def test_a_recreated_pod_of_the_same_name_gets_the_gpus_of_the_new_pod(
    world: AgentWorld,
) -> None:
    async with world.agent():
        await world.served()
        await world.run("set-0", {"main": [1]})
        world.kubelet.end(("default", "set-0"))
        world.api.mute = True  # the watch still shows the former pod
        await world.place("set-0", {"main": [4]}, uid="uid-new")
        given = await world.kubelet.admit(("default", "set-0"), {"main": 1})
    assert given["main"].envs["CUDA_VISIBLE_DEVICES"] == world.uuids[4]


async def test_gpus_of_an_ended_pod_are_given_to_the_next_at_once(world: AgentWorld) -> None:
    async with world.agent():
        await world.served()
        await world.run("a", {"main": [1, 2]})
        world.api.mute = True
        await world.set_phase("a", "Succeeded")
        world.kubelet.end(("default", "a"))
        given = await world.run("b", {"main": [2, 1]})
    assert given["main"].envs["CUDA_VISIBLE_DEVICES"] == f"{world.uuids[2]},{world.uuids[1]}"


async def test_gpus_taken_without_a_preference_request_are_rejected_even_if_they_are_correct(
    world: AgentWorld,
) -> None:
    async with world.agent():
        await world.served()
        world.kubelet.requests_preference = False
        world.kubelet.ignore_preference = {world.uuids[6], world.uuids[2]}
        with pytest.raises(AdmissionRejectedError, match="without GetPreferredAllocation"):
            await world.run("a", {"main": [6, 2]})
        assert world.kubelet.checkpoint.allocated == set()


async def test_other_gpus_than_the_chosen_ones_are_rejected(world: AgentWorld) -> None:
    async with world.agent():
        await world.served()
        world.kubelet.ignore_preference = {world.uuids[0], world.uuids[1]}
        with pytest.raises(
            AdmissionRejectedError, match=r"kubelet took .* but container main should have"
        ):
            await world.run("a", {"main": [6, 2]})
        assert world.kubelet.checkpoint.allocated == set()
        await world.until(lambda: world.events("GPUsRefused"))


async def test_a_swap_with_another_waiting_pod_is_rejected(world: AgentWorld) -> None:
    async with world.agent():
        await world.served()
        await world.place("b", {"main": [4]})
        world.kubelet.ignore_preference = {world.uuids[4]}
        with pytest.raises(AdmissionRejectedError, match=f"took {world.uuids[4]}"):
            await world.run("a", {"main": [3]})


async def test_gpus_that_kubelet_requires_are_rejected_only_when_it_has_taken_them(
    world: AgentWorld,
) -> None:
    async with world.agent():
        await world.served()
        world.kubelet.aligned = {world.uuids[0]}
        # An error in the preference would leave GPU 0 marked as used in kubelet's checkpoint.
        with pytest.raises(AdmissionRejectedError, match=f"kubelet requires {world.uuids[0]}"):
            await world.run("a", {"main": [6, 2]})
        assert world.kubelet.rejected_by == "Allocate"


async def test_a_gpu_that_a_live_container_uses_is_not_allocated_twice(world: AgentWorld) -> None:
    async with world.agent():
        await world.served()
        await world.run("a", {"main": [1]})
        world.kubelet.checkpoint.allocated.clear()  # kubelet forgot its allocations
        with pytest.raises(AdmissionRejectedError, match="is used by pod default/a"):
            await world.run("b", {"main": [1]})
        world.kubelet.checkpoint.allocated.clear()
        world.kubelet.requests_preference = False
        world.kubelet.ignore_preference = {world.uuids[1]}
        with pytest.raises(AdmissionRejectedError, match="is used by pod default/a"):
            await world.run("c", {"main": [1]})


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        (None, "was not placed by gputopo: set schedulerName: gputopo"),
        ("{", "annotation gputopo.io/gpus: value: '{': Invalid JSON"),
        ('{"v":2}', "annotation gputopo.io/gpus: v: 2: Input should be 1"),
        (
            annotation_of("a", {"main": ["GPU-1"]}, uid="uid-b"),
            "uid is uid-b, but the pod's uid is",
        ),
        (
            annotation_of("a", {"main": ["GPU-1"]}, node="n9"),
            "node is n9, but the pod's node is n1",
        ),
        (
            annotation_of("a", {"other": ["GPU-1"]}),
            "requests 1 GPUs, but the annotation of the pod names 0",
        ),
        (
            annotation_of("a", {"main": ["GPU-1", "GPU-2"]}),
            "requests 1 GPUs, but the annotation of the pod names 2",
        ),
        (annotation_of("a", {"main": ["GPU-1"]}), "GPU-1 is not available on this node now"),
    ],
)
async def test_a_pod_without_a_placement_of_its_own_is_rejected_with_the_reason(
    world: AgentWorld, annotation: str | None, message: str
) -> None:
    async with world.agent():
        await world.served()
        document = pod_document("a", {"main": 1}, annotation=annotation)
        world.api.put(PODS, document)
        with pytest.raises(AdmissionRejectedError) as rejected:
            await world.kubelet.admit(("default", "a"), {"main": 1})
        assert str(rejected.value).startswith("pod default/a")
        assert message in str(rejected.value)
        await world.until(lambda: world.events("GPUsRefused") == [str(rejected.value)])


async def test_gpus_of_a_running_container_that_kubelet_offers_are_rejected(
    world: AgentWorld,
) -> None:
    async with world.agent():
        await world.served()
        await world.run("a", {"main": [1]})
        await world.place("b", {"main": [2]})
        world.kubelet.checkpoint.allocated.clear()
        world.kubelet.requests_preference = False
        world.kubelet.ignore_preference = {world.uuids[1]}
        # Without a preference request only the GPUs identify the pod: they are those of pod a.
        with pytest.raises(AdmissionRejectedError, match="is used by pod default/a"):
            await world.kubelet.admit(("default", "b"), {"main": 1})


async def test_the_annotation_protects_a_gpu_that_kubelet_and_agent_forgot(
    world: AgentWorld,
) -> None:
    async with world.agent():
        await world.served()
        await world.run("a", {"main": [1]})
        await world.set_phase("a", "Running")
    world.kubelet.end(("default", "a"))  # kubelet lost its checkpoint, and the agent is new
    async with world.agent():
        await world.served()
        with pytest.raises(AdmissionRejectedError, match="is used by pod default/a"):
            await world.run("b", {"main": [1]})
        world.api.delete(PODS, "a")
        given = await world.run("c", {"main": [1]})
    assert given["main"].envs["CUDA_VISIBLE_DEVICES"] == world.uuids[1]


async def test_the_agent_does_not_guess_between_two_possible_pods(
    world: AgentWorld,
) -> None:
    async with world.agent():
        await world.served()
        await world.place("a", {"main": [0]})
        world.kubelet.checkpoint.pods["default", "a"] = {"main": set()}
        with pytest.raises(AdmissionRejectedError, match="several pods wait for 1 GPUs"):
            await world.run("b", {"main": [1]})


async def test_a_container_may_get_its_own_gpus_again(world: AgentWorld) -> None:
    async with world.agent():
        await world.served()
        await world.run("a", {"main": [1]})
        world.kubelet.end(("default", "a"))  # kubelet lost its record of a running container
        given = await world.kubelet.admit(("default", "a"), {"main": 1})
    assert given["main"].envs["CUDA_VISIBLE_DEVICES"] == world.uuids[1]


async def test_a_pod_being_deleted_is_not_identified_as_the_pod_in_admission(
    world: AgentWorld,
) -> None:
    async with world.agent():
        await world.served()
        await world.place("a", {"main": [0]})
        leaving = world.api.pod("a")
        leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        world.api.put(PODS, leaving)
        world.kubelet.checkpoint.pods["default", "a"] = {"main": set()}
        given = await world.run("b", {"main": [1]})
    assert given["main"].envs["CUDA_VISIBLE_DEVICES"] == world.uuids[1]


async def test_no_pod_is_admitted_while_the_api_server_cannot_confirm_it(
    world: AgentWorld,
) -> None:
    async with world.agent() as agent:
        await world.served()
        await world.place("set-0", {"main": [5]})
        await world.until(lambda: len(agent.api.pods) == 1)
        world.api.down = True  # by now set-0 may be another pod, with other GPUs
        with pytest.raises(
            AdmissionRejectedError, match=r"did not return these pods in time: .*set-0"
        ):
            await world.kubelet.admit(("default", "set-0"), {"main": 1})
        # The failed read proves the loss: no further pod reaches the agent.
        await world.kubelet.wait_for_devices(dict.fromkeys(world.uuids, "Unhealthy"))
        with pytest.raises(AdmissionRejectedError, match="no healthy devices present"):
            await world.kubelet.admit(("default", "unknown"), {"main": 1})
        world.api.down = False
        world.api.delete(PODS, "set-0")
        await world.kubelet.wait_for_devices(dict.fromkeys(world.uuids, "Healthy"))
        given = await world.run("b", {"main": [5]})
        assert given["main"].envs["CUDA_VISIBLE_DEVICES"] == world.uuids[5]


async def test_an_unknown_pod_is_not_identified_as_a_known_one_without_the_api_server(
    world: AgentWorld,
) -> None:
    async with world.agent() as agent:
        await world.served()
        await world.place("leaving", {"main": [5]})
        await world.until(lambda: len(agent.api.pods) == 1)
        world.kubelet.checkpoint.pods["default", "leaving"] = {"main": set()}
        world.api.down = True
        with pytest.raises(AdmissionRejectedError, match="default/leaving, default/unknown"):
            await world.kubelet.admit(("default", "unknown"), {"main": 1})
        assert world.kubelet.checkpoint.allocated == set()


async def test_a_recreated_pod_may_get_the_gpus_of_the_former_pod(world: AgentWorld) -> None:
    async with world.agent():
        await world.served()
        await world.run("set-0", {"main": [1]})
        world.kubelet.end(("default", "set-0"))
        world.api.mute = True  # the watch still shows the former pod
        await world.place("set-0", {"main": [1]}, uid="uid-new")
        given = await world.kubelet.admit(("default", "set-0"), {"main": 1})
    assert given["main"].envs["CUDA_VISIBLE_DEVICES"] == world.uuids[1]


async def test_a_pod_whose_predecessor_requested_no_gpus_gets_its_own(world: AgentWorld) -> None:
    async with world.agent() as agent:
        await world.served()
        await world.place("set-0", {"main": []})
        await world.until(lambda: len(agent.api.pods) == 1)
        world.api.mute = True  # the watch still shows the former pod
        await world.place("set-0", {"main": [1]}, uid="uid-new")
        given = await world.kubelet.admit(("default", "set-0"), {"main": 1})
    assert given["main"].envs["CUDA_VISIBLE_DEVICES"] == world.uuids[1]


@pytest.mark.parametrize("aligned", [[], [0]])
async def test_a_pod_that_gputopo_did_not_place_gets_nothing_and_nothing_is_published(
    world: AgentWorld, aligned: list[int]
) -> None:
    async with world.agent():
        await world.served()
        world.kubelet.aligned = {world.uuids[index] for index in aligned}
        world.api.put(PODS, pod_document("static", {"main": 2}))
        with pytest.raises(AdmissionRejectedError, match="was not placed by gputopo"):
            await world.kubelet.admit(("default", "static"), {"main": 2})
        # Where kubelet has taken GPUs already, only an error of Allocate releases them.
        assert world.kubelet.rejected_by == ("Allocate" if aligned else "GetPreferredAllocation")
        assert world.kubelet.checkpoint.allocated == set()
        world.kubelet.aligned = set()
        await world.run("a", {"main": [0, 1]})  # and it blocks no other pod
        await world.until(lambda: world.observed(0).get("pod") == "a")
        assert not any("pod" in world.observed(index) for index in range(2, 8))

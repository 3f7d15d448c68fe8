"""The agent with a kubelet of two resources: shares, whole GPUs, and the MPS daemons of both."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import grpc.aio
import pytest

from gputopo.api.names import GPUS_ANNOTATION, RESOURCE
from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.gpus.state import GpuState
from gputopo_deviceplugin.report import reporter
from gputopo_deviceplugin.sharing import coordinator, daemons
from gputopo_deviceplugin.sharing.device_plugin import PIPE_DIRECTORY
from support.agent.sharing import PER_GPU, SharingWorld, sharing_world
from support.agent.world import PATIENCE_SECONDS, agent_world, annotation_of
from support.api.store import NODES, PODS
from support.builders.shares import SHARES, share_container, sharing_pod
from support.kubelet.configz import config_server
from support.kubelet.device_manager import AdmissionRejectedError
from support.kubelet.sharing import SharingKubelet, running_sharing_kubelet

GIB = 2**30


@pytest.fixture
async def world(
    short_directory: Path, library_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[SharingWorld]:
    monkeypatch.setenv("FAKE_NVML_TOPOLOGY", "")  # so that it is unset after the test
    monkeypatch.setattr(coordinator, "_CHECK_SECONDS", 0.05)
    async with sharing_world(short_directory, library_dir) as found:
        yield found


async def test_kubelet_lists_shares_beside_the_gpus(world: SharingWorld) -> None:
    async with world.node.agent():
        await world.served()
    assert world.kubelet.resource == RESOURCE
    assert world.kubelet.shares.resource == SHARES
    assert world.kubelet.shares.numa_nodes == {}
    assert world.node.status["sharing"] == {"maxPodsPerGPU": PER_GPU}


async def test_without_shares_kubelet_gets_only_gpus(
    short_directory: Path, library_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_NVML_TOPOLOGY", "")
    async with agent_world(
        short_directory, library_dir, start_kubelet=running_sharing_kubelet
    ) as node:
        async with node.agent():
            await node.served()
            await node.run("whole", {"main": [1]})
        kubelet = node.kubelet
        assert isinstance(kubelet, SharingKubelet)
        assert kubelet.shares.registrations == 0
        assert "sharing" not in node.status


@pytest.mark.parametrize(("registrar", "withdraws"), [(0, True), (1, False)])
async def test_registration_of_shares_does_not_withdraw_the_numa_nodes(
    world: SharingWorld, monkeypatch: pytest.MonkeyPatch, registrar: int, *, withdraws: bool
) -> None:
    async with world.node.agent() as agent:
        await world.served()
        state, gpu = GpuState(), GpuUuid(world.node.uuids[0])
        state.report_numa({gpu: 1})
        monkeypatch.setattr(agent.serve.registrars[registrar], "_gpus", state)
        await agent.serve.registrars[registrar]._register()
        assert state.numa_nodes == ({} if withdraws else {gpu: 1})
        state.unregistered_reason = None


async def test_sharing_container_is_a_client_of_its_gpus_daemon(world: SharingWorld) -> None:
    async with world.node.agent():
        await world.served()
        first = await world.run("first", 5, 2, memory="3Gi")
        second = await world.run("second", 5, 0)
    uuid = world.node.uuids[5]
    memory = world.node.topology.gpus[5].memory_bytes
    for given in (first, second):
        assert given.envs["CUDA_VISIBLE_DEVICES"] == given.envs["NVIDIA_VISIBLE_DEVICES"] == uuid
        assert given.envs["CUDA_MPS_PIPE_DIRECTORY"] == PIPE_DIRECTORY
        mounts = {each.container_path: each.host_path for each in given.mounts}
        assert mounts[PIPE_DIRECTORY] == f"/run/gputopo-mps/gpus/{uuid}/pipe"
        assert mounts["/dev/shm"] == f"/run/gputopo-mps/gpus/{uuid}/shm"  # noqa: S108
        assert [each.container_path for each in given.devices] == [
            *("/dev/nvidia5", "/dev/nvidiactl", "/dev/nvidia-uvm")
        ]
    assert first.envs["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=3072M"
    equal = (memory - GIB // 2) // PER_GPU // 2**20
    assert second.envs["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == f"0={equal}M"
    assert world.kubelet.shares.checkpoint.pods["default", "first"] == {"main": {world.share(5, 2)}}
    assert world.kubelet.shares.checkpoint.lists_inside_allocate == 0


async def test_with_cdi_a_sharing_container_gets_its_gpu_and_mps(
    short_directory: Path, library_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_NVML_TOPOLOGY", "")
    cdi = sharing_world(short_directory, library_dir, device_injection="CDI")
    async with cdi as world, world.node.agent():
        await world.served()
        given = await world.run("a", 5, 2)
    uuid = world.node.uuids[5]
    assert [device.name for device in given.cdi_devices] == [f"nvidia.com/gpu={uuid}"]
    assert given.envs["CUDA_VISIBLE_DEVICES"] == uuid
    assert given.envs["CUDA_MPS_PIPE_DIRECTORY"] == PIPE_DIRECTORY
    assert not given.devices


async def test_memory_that_was_changed_after_the_binding_is_rejected(world: SharingWorld) -> None:
    async with world.node.agent():
        await world.served()
        await world.run("a", 1, 0, memory="20Gi")
        with pytest.raises(AdmissionRejectedError, match="needs 20480 MiB of GPU memory"):
            await world.run("b", 1, 1, memory="20Gi")
        await world.run("c", 1, 2, memory="5Gi")


async def test_status_names_the_user_of_each_share(world: SharingWorld) -> None:
    async with world.node.agent():
        await world.served()
        await world.run("b", 3, 1)
        await world.run("a", 3, 0)
        await world.node.until(lambda: len(world.node.observed(3).get("shares", [])) == 2)
        found = world.node.observed(3)
        users = [(each["id"], each["podUID"], each["container"]) for each in found["shares"]]
        assert users == [
            (world.share(3, 0), "uid-a", "main"),
            (world.share(3, 1), "uid-b", "main"),
        ]
        # An extender that knows no shares sees a GPU in use.
        assert (found["podUID"], found["pod"]) == ("uid-a", "a")
        assert "id" not in found
        assert "shares" not in world.node.observed(2)


async def test_daemon_starts_before_kubelet_admits_the_pod(world: SharingWorld) -> None:
    async with world.node.agent():
        await world.served()
        world.place("a", 4)
        await world.node.until(lambda: world.node.uuids[4] in world.mps.gpus)
        assert world.kubelet.shares.checkpoint.pods == {}


async def test_daemon_ends_when_no_pod_shares_the_gpu(world: SharingWorld) -> None:
    async with world.node.agent():
        await world.served()
        await world.run("a", 4)
        await world.run("b", 4, 1)
        await world.end("a")
        seen = world.mps.lists
        await world.node.until(lambda: world.mps.lists > seen + 8)
        assert [*world.mps.gpus] == [world.node.uuids[4]]
        await world.end("b")
        await world.node.until(lambda: not world.mps.gpus)


async def test_pods_of_both_kinds_in_random_order_never_get_a_gpu_together(
    world: SharingWorld,
) -> None:
    chance = Random(5)  # noqa: S311 - repeatable
    running: dict[str, set[str]] = {}
    rejected = 0
    async with world.node.agent():
        await world.served()
        for number in range(40):
            name, gpu = f"p{number}", chance.randrange(3)
            used = {each for devices in running.values() for each in devices}
            uuid, share = world.node.uuids[gpu], world.share(gpu, chance.randrange(PER_GPU))
            whole = chance.random() < 0.4
            own: set[str] = {uuid} if whole else {share}
            taken = {each.split("::")[0] if whole else each for each in used}
            free = not own & taken and (whole or uuid not in used)
            try:
                if whole:
                    await world.node.run(name, {"main": [gpu]})
                else:
                    await world.run(name, gpu, int(share[-1]))
            except AdmissionRejectedError:
                assert not free
                rejected += 1
                await world.end(name)
            else:
                assert free, (own, used)
                running[name] = own
                assert (uuid in world.mps.gpus) is not whole
            while running and chance.random() < 0.5:
                ended = chance.choice(sorted(running))
                del running[ended]
                await world.end(ended)
    assert rejected > 3
    assert world.kubelet.checkpoint.lists_inside_allocate == 0
    assert world.kubelet.shares.checkpoint.lists_inside_allocate == 0


@pytest.mark.parametrize("kind", ["whole", "share"])
async def test_devices_of_a_pod_that_kubelet_forgot_exclude_the_others(
    world: SharingWorld, kind: str
) -> None:
    async with world.node.agent():
        await world.served()
        if kind == "whole":
            await world.node.run("a", {"main": [1]})
            with pytest.raises(AdmissionRejectedError, match=r"1.* is used by pod default/a"):
                await world.run("b", 1)
        else:
            await world.run("a", 1, 2)
            with pytest.raises(AdmissionRejectedError, match=r"::2 is used by pod default/a"):
                await world.node.run("b", {"main": [1]})
            world.kubelet.shares.checkpoint.allocated.clear()
            with pytest.raises(AdmissionRejectedError, match=r"::2 is used by pod default/a"):
                await world.run("c", 1, 2)


async def test_annotation_of_a_pod_that_was_not_admitted_yet_excludes_the_others(
    world: SharingWorld,
) -> None:
    async with world.node.agent():
        await world.served()
        world.place("intended", 1, 0)
        with pytest.raises(AdmissionRejectedError, match="is used by pod default/intended"):
            await world.node.run("whole", {"main": [1]})
        await world.node.place("whole-intended", {"main": [2]})
        with pytest.raises(AdmissionRejectedError, match="is used by pod default/whole-intended"):
            await world.run("share", 2)


@pytest.mark.parametrize("order", [("whole", "share"), ("share", "whole")])
async def test_container_with_both_resources_is_rejected(
    world: SharingWorld, order: tuple[str, str]
) -> None:
    both = sharing_pod("both", containers=[share_container(gpus=1)], node="n1")
    placed = {"main": [world.node.uuids[0]]}
    both["metadata"]["annotations"][GPUS_ANNOTATION] = annotation_of("both", placed)
    async with world.node.agent():
        await world.served()
        world.node.api.put(PODS, both)
        managers = {"whole": world.kubelet, "share": world.kubelet.shares}
        with pytest.raises(AdmissionRejectedError):  # noqa: PT012 - kubelet's random order
            for kind in order:
                await managers[kind].admit(("default", "both"), {"main": 1})
    assert world.mps.gpus == {}


async def test_two_shares_in_a_container_are_rejected(world: SharingWorld) -> None:
    two = sharing_pod("two", share=world.share(0), containers=[share_container(shares=2)])
    async with world.node.agent():
        await world.served()
        world.node.api.put(PODS, two)
        with pytest.raises(AdmissionRejectedError, match="requests 2 GPUs, but the annotation"):
            await world.admit("two", 2)


async def test_pod_of_another_scheduler_gets_no_share(world: SharingWorld) -> None:
    async with world.node.agent():
        await world.served()
        world.node.api.put(PODS, sharing_pod("other", node="n1"))
        with pytest.raises(AdmissionRejectedError, match="was not placed by gputopo"):
            await world.admit("other")


@pytest.mark.parametrize("state", ["Fault", "Stopping", "Failed"])
async def test_share_is_rejected_while_the_daemon_takes_no_clients(
    world: SharingWorld, state: str
) -> None:
    async with world.node.agent():
        await world.served()
        world.mps.serve(world.node.uuids[2], state, "server 7\nhas a fault")
        with pytest.raises(
            AdmissionRejectedError,
            # From Allocate, or from an earlier check of the coordinator.
            match=f": MPS is in state {state}: server 7 has a fault",
        ):
            await world.run("a", 2)


async def test_faulty_gpu_keeps_its_clients_and_takes_no_more(world: SharingWorld) -> None:
    async with world.node.agent():
        await world.served()
        await world.run("a", 2)
        await world.node.until(lambda: len(world.node.observed(2).get("shares", [])) == 1)
        world.mps.serve(world.node.uuids[2], "Fault", "x" * 3000)
        await world.node.until(lambda: "sharingFault" in world.node.observed(2))
        assert world.node.observed(2)["sharingFault"] == f"MPS is in state Fault: {'x' * 300}"
        with pytest.raises(AdmissionRejectedError, match="MPS is in state Fault"):
            await world.run("b", 2, 1)
        world.mps.serve(world.node.uuids[2])
        await world.node.until(lambda: "sharingFault" not in world.node.observed(2))
        assert world.kubelet.shares.devices == world.devices()


async def test_gpu_that_cannot_be_shared_is_reported(world: SharingWorld) -> None:
    world.mps.no_start[world.node.uuids[2]] = "process 99 uses the GPU"
    async with world.node.agent():
        await world.served()
        with pytest.raises(AdmissionRejectedError):
            await world.run("a", 2)
        await world.until_gpu(2, {"sharingFault": "process 99 uses the GPU"})
        assert world.node.observed(1).get("sharingFault") is None
        await world.end("a")
        await world.node.until(lambda: "sharingFault" not in world.node.observed(2))


async def test_without_the_component_no_share_starts_and_whole_gpus_are_served(
    world: SharingWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.mps.broken = True
    async with world.node.agent():
        await world.served()
        reason = "the MPS component does not respond: status 500"
        await world.until_gpu(0, {"sharingFault": reason})
        condition = world.node.condition("MPSReady")
        assert (condition["status"], condition["message"]) == ("False", reason)
        monkeypatch.setattr(daemons, "_PATIENCE_SECONDS", 0.0)
        await world.run("share", 0)
        with pytest.raises(grpc.aio.AioRpcError, match="cannot be shared: the MPS component"):
            await world.start("share")
        await world.node.run("whole", {"main": [1]})
        world.mps.broken = False
        await world.node.until(lambda: "sharingFault" not in world.node.observed(0))
        assert world.node.condition("MPSReady")["status"] == "True"
        await world.start("share")


async def test_end_of_the_component_is_published_at_once(
    world: SharingWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporter, "_AFTER_START_SECONDS", PATIENCE_SECONDS)
    async with world.node.agent() as agent:
        await world.served()
        await world.run("a", 1)
        await world.node.until(lambda: world.node.observed(1).get("shares"))
        # No other report follows before the end of the test.
        monkeypatch.setattr(agent._reporter, "_report", never)
        await world.mps.end()
        await world.node.until(lambda: "sharingFault" in world.node.observed(0))
        assert "sharingFault" not in world.node.observed(1)
        assert "wholeFault" in world.node.observed(1)
        await world.mps.open()
        await world.node.until(lambda: "sharingFault" not in world.node.observed(0))
        assert "wholeFault" not in world.node.observed(1)


async def never(hardware: object) -> bool:  # noqa: ARG001 - a report
    await asyncio.Event().wait()
    return False


async def test_container_waits_for_the_component_while_its_end_is_published(
    world: SharingWorld,
) -> None:
    async with world.node.agent():
        await world.served()
        await world.mps.end()
        given = await world.run("a", 1)
        assert given.envs["CUDA_VISIBLE_DEVICES"] == world.node.uuids[1]
        async with asyncio.TaskGroup() as tasks:
            started = tasks.create_task(world.start("a"))
            await world.node.until(lambda: "sharingFault" in world.node.observed(1))
            assert not started.done()
            assert world.kubelet.shares.devices == world.devices()
            await world.mps.open()
        await world.node.until(lambda: "sharingFault" not in world.node.observed(1))
        [pipe] = [each.host_path for each in given.mounts if each.container_path == PIPE_DIRECTORY]
        assert pipe == str(world.mps.folder(GpuUuid(world.node.uuids[1])) / "pipe")


async def test_gpu_whose_daemon_goes_on_is_shared_without_the_component(
    world: SharingWorld,
) -> None:
    async with world.node.agent():
        await world.served()
        await world.run("a", 1)
        await world.mps.end()
        given = await world.run("b", 1, 1)
        assert given.envs["CUDA_VISIBLE_DEVICES"] == world.node.uuids[1]
        await world.end("a")
        await world.end("b")
        with pytest.raises(AdmissionRejectedError, match="cannot be used as a whole"):
            await world.node.run("whole", {"main": [1]})


async def test_no_pod_is_rejected_under_kills_of_the_component(
    short_directory: Path, library_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_NVML_TOPOLOGY", "")
    monkeypatch.setattr(coordinator, "_CHECK_SECONDS", 0.05)
    chance = Random(7)  # noqa: S311 - repeatable
    running: dict[str, set[str]] = {}
    kinds: list[str] = []
    is_up = True
    wanted = {"waited", "sharingFault True", "sharingFault False", "wholeFault True"}
    async with sharing_world(short_directory, library_dir) as world, world.node.agent():
        await world.served()
        for number in range(200):  # which kinds occur depends on the speed of the machine too
            if number >= 30 and wanted <= {*kinds}:
                break
            shown = [world.node.observed(gpu) for gpu in range(3)]
            if chance.random() < 0.4:
                await (world.mps.end() if is_up else world.mps.open())
                is_up = not is_up
            name, whole = f"p{number}", chance.random() < 0.3
            if whole or chance.random() < 0.5:  # otherwise it is placed by an outdated status
                await _until_ready(world, shown=str(is_up))
                shown = [world.node.observed(gpu) for gpu in range(3)]
            fault = "wholeFault" if whole else "sharingFault"
            used = {each for devices in running.values() for each in devices}
            free = [
                gpu
                for gpu in range(3)
                if fault not in shown[gpu] and world.node.uuids[gpu] not in used
            ]
            devices = [
                (gpu, number)
                for gpu in free
                for number in range(PER_GPU)
                if world.share(gpu, number) not in used
            ]
            if whole:
                devices = [(gpu, 0) for gpu in free if not _shared(world, gpu, used)]
            if not devices:
                continue
            gpu, share = chance.choice(devices)
            if whole:
                await world.node.run(name, {"main": [gpu]})
            else:
                await world.run(name, gpu, share)
                started = asyncio.create_task(world.start(name))
                await asyncio.wait({started}, timeout=0.5)
                if not started.done() and not is_up:
                    kinds.append("waited")
                    await world.mps.open()
                    is_up = True
                await started
            kinds.append(f"{fault} {is_up}")
            running[name] = {world.node.uuids[gpu] if whole else world.share(gpu, share)}
            while running and chance.random() < 0.5:
                ended = chance.choice(sorted(running))
                del running[ended]
                await world.end(ended)
    assert {*kinds} >= wanted


async def _until_ready(world: SharingWorld, *, shown: str) -> None:
    await world.node.until(lambda: world.node.condition("MPSReady")["status"] == shown)


def _shared(world: SharingWorld, gpu: int, used: set[str]) -> bool:
    return any(world.share(gpu, number) in used for number in range(PER_GPU))


async def test_whole_gpu_is_given_after_its_daemon_has_ended(world: SharingWorld) -> None:
    async with world.node.agent():
        await world.served()
        await world.run("share", 6)
        world.mps.no_end[world.node.uuids[6]] = "processes 12 use it"
        await world.end("share")
        with pytest.raises(
            AdmissionRejectedError, match="cannot be used as a whole: processes 12 use it"
        ):
            await world.node.run("early", {"main": [6]})
        await world.end("early")
        world.mps.no_end.clear()
        await world.node.run("whole", {"main": [6]})
        assert world.mps.gpus == {}


async def test_new_agent_knows_daemons_and_users_of_shares(world: SharingWorld) -> None:
    async with world.node.agent():
        await world.served()
        await world.run("a", 1, 1)
        await world.node.set_phase("a", "Running")
    requests = len(world.mps.requests)
    async with world.node.agent():
        await world.served()
        await world.run("b", 1, 0)
        with pytest.raises(AdmissionRejectedError, match="::0 is used by pod default/b"):
            await world.node.run("whole", {"main": [1]})
        await world.node.until(lambda: len(world.node.observed(1).get("shares", [])) == 2)
        assert not any("DELETE" in each for each in world.mps.requests[requests:])


async def test_new_agent_ends_a_daemon_before_it_gives_the_gpu(world: SharingWorld) -> None:
    world.mps.serve(world.node.uuids[3])
    async with world.node.agent():
        await world.served()
        await world.node.run("whole", {"main": [3]})
    assert world.mps.gpus == {}


async def test_shares_of_a_deleted_pod_are_in_use_while_its_process_runs(
    world: SharingWorld,
) -> None:
    async with world.node.agent():
        await world.served()
        await world.run("a", 1, 1)
        await world.node.until(lambda: len(world.node.observed(1).get("shares", [])) == 1)
        world.node.start_processes("uid-a")
        world.node.api.delete(PODS, "a")
        world.kubelet.end_pod("a")
        with pytest.raises(AdmissionRejectedError, match="by a process of deleted pod default/a"):
            await world.node.run("whole", {"main": [1]})
        await world.node.until(
            lambda: world.node.observed(1).get("shares", [{}])[0].get("podDeleted")
        )
        assert world.node.uuids[1] in world.mps.gpus
        world.node.end_processes("uid-a")
        await world.node.run("later", {"main": [1]})


async def test_fatal_fault_is_an_event_of_each_pod_that_it_hit(world: SharingWorld) -> None:
    async with world.node.agent():
        await world.served()
        for number, name in enumerate(("a", "b")):
            await world.run(name, 1, number)
        world.mps.fault(13, world.node.uuids[1], "uid-a", "uid-b", "uid-gone", cause="uid-a")
        await world.node.until(lambda: len(world.node.events("SharedGPUFault")) == 2)
        await world.node.until(lambda: not world.mps.faults)
    assert sorted(world.node.events("SharedGPUFault")) == [
        "pod default/a caused a fatal fault on the shared GPU: Xid 13",
        "the pod caused a fatal fault on its shared GPU: Xid 13",
    ]


async def test_gpu_in_shares_has_no_numa_node_for_a_kubelet_that_aligns(
    short_directory: Path, library_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_NVML_TOPOLOGY", "")
    account = short_directory / "account"
    settings = {"publish_numa": "AnyPolicy", "service_account_dir": account}
    async with (
        config_server(account) as config,
        sharing_world(short_directory, library_dir, **settings) as world,
    ):
        config.policy = "best-effort"
        node = world.node
        node.api.put(NODES, {**node.node_object, "status": config.node_status})
        async with node.agent():
            await world.served()
            await node.until(lambda: len(world.kubelet.numa_nodes) == len(node.uuids))
            await world.run("a", 2)
            await node.until(lambda: node.uuids[2] not in world.kubelet.numa_nodes)
            assert len(world.kubelet.numa_nodes) == len(node.uuids) - 1
            assert not any(world.kubelet.shares.numa_seen)

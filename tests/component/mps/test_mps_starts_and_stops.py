"""The node agent starts and stops MPS for single GPUs."""

import asyncio
import json
import stat
from pathlib import Path

from gputopo.api.names import GPUS_ANNOTATION, SHARING_MEMORY_ANNOTATION
from gputopo.api.shares import SERVER_BYTES, share_id
from gputopo.topology.model import GpuUuid
from support.api.store import PODS, Document
from support.mps.world import NODE, MpsWorld, pod_uid


async def test_it_serves_a_gpu_and_leaves_it_as_found(world: MpsWorld) -> None:
    async with world.running():
        shared = await world.share(0)
        control, server = world.daemons(0)
        assert shared == {
            "uuid": world.uuids[0],
            "state": "Ready",
            "reason": "",
            "pipeDirectory": str(world.folder(0) / "pipe"),
            "shmDirectory": str(world.folder(0) / "shm"),
            "serverPid": server,
            "clients": [],
            "memoryBytes": world.topology.gpus[0].memory_bytes,
            "podsAboveMemory": [],
        }
        assert world.mode(0) == "3"
        assert await world.share(0) == shared, "a second request changes nothing"
        assert world.daemons(0) == [control, server]
        assert await world.call("DELETE", f"/gpus/{world.uuids[0]}") == (
            200,
            {"uuid": world.uuids[0]},
        )
        assert (world.mode(0), world.daemons(0), world.folder(0).exists()) == ("0", [], False)
        assert await world.shared(0) == {}
        status, _ = await world.call("DELETE", f"/gpus/{world.uuids[0]}")
        assert status == 200, "a GPU that is not shared"


async def test_servers_of_all_users_can_open_the_folders(world: MpsWorld) -> None:
    async with world.running():
        await world.share(0)
        for folder in (world.folder(0), world.folder(0) / "pipe", world.folder(0) / "log"):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o755, folder
        assert stat.S_IMODE(world.settings.socket.stat().st_mode) == 0o600


async def test_gpus_have_daemons_of_their_own(world: MpsWorld) -> None:
    async with world.running():
        await asyncio.gather(world.share(0), world.share(1))
        assert len({*world.daemons(0), *world.daemons(1)}) == 4
        world.start_client(1, "b")
        await world.until_clients(1, ["b"])
        assert (await world.shared(0))["clients"] == []
        metrics = world.metrics.registry.get_sample_value
        await world.until(lambda: metrics("gputopo_mps_gpus", {"state": "Ready"}) == 2)
        await world.until(lambda: metrics("gputopo_mps_clients") == 1)


async def test_clients_are_listed_with_their_pods_and_keep_the_daemon(world: MpsWorld) -> None:
    async with world.running():
        await world.share(0)
        first = world.start_client(0, "a")
        world.start_client(0, "b")
        await world.until_clients(0, ["a", "b"])
        clients = (await world.shared(0))["clients"]
        assert {"pid": first.pid, "podUID": pod_uid("a")} in clients
        status, document = await world.call("DELETE", f"/gpus/{world.uuids[0]}")
        assert status == 409
        assert str(first.pid) in document["reason"]
        assert (await world.shared(0))["state"] == "Ready"


async def test_memory_above_the_limit_of_a_client_is_rejected(world: MpsWorld) -> None:
    async with world.running():
        await world.share(0)
        world.start_client(0, "a", "--memory=1G")
        greedy = world.start_client(0, "b", "--memory=1100M", ready=False)
        assert await world.error_of(greedy) == 2


def share_of(world: MpsWorld) -> int:
    """Return an equal part of the first GPU in MiB."""
    usable = world.topology.gpus[0].memory_bytes - SERVER_BYTES
    return usable // world.settings.max_pods_per_gpu // 2**20


async def test_a_process_without_a_limit_has_that_of_an_equal_part(world: MpsWorld) -> None:
    async with world.running():
        await world.share(0)
        most = share_of(world)
        world.start_client(0, "a", f"--memory={most}M", limit="")
        greedy = world.start_client(0, "b", f"--memory={most + 1}M", limit="", ready=False)
        assert await world.error_of(greedy) == 2


async def test_a_pod_gets_the_memory_that_it_declares(world: MpsWorld) -> None:
    async with world.running():
        await world.share(0)
        memory = share_of(world) + 100
        world.put_pod("a", annotations=placed(world, "a", 0, memory))
        world.put_pod("other", annotations=placed(world, "other", 1, memory + 100))
        assert world.component is not None
        pods = world.component._pods
        await world.until(lambda: pods.running == 2)
        await world.share(0)  # as the agent does before each container starts
        world.start_client(0, "a", f"--memory={memory}M", limit=f"0={memory}M")
        greedy = world.start_client(0, "b", f"--memory={memory + 1}M", limit="", ready=False)
        assert await world.error_of(greedy) == 2
        world.api.delete(PODS, "a")
        await world.until(lambda: pods.running == 1)
        await world.share(0)
        greedy = world.start_client(0, "b", f"--memory={memory}M", limit="", ready=False)
        assert await world.error_of(greedy) == 2


def placed(world: MpsWorld, name: str, index: int, memory: int) -> dict[str, str]:
    """Return the annotations of a pod that has a share of a GPU and declares its memory in MiB."""
    gpus = {"main": [share_id(GpuUuid(world.uuids[index]), 0)]}
    chosen = {"v": 1, "uid": pod_uid(name), "node": NODE, "generation": 1, "containers": gpus}
    return {GPUS_ANNOTATION: json.dumps(chosen), SHARING_MEMORY_ANNOTATION: f"{memory}Mi"}


async def test_a_pod_whose_processes_exceed_its_memory_is_shown(world: MpsWorld) -> None:
    async with world.running():
        await world.share(0)
        most = share_of(world)
        first = world.start_client(0, "a", f"--memory={most}M", limit=f"0={most}M")
        world.start_client(0, "b", f"--memory={most}M", limit=f"0={most}M")
        await world.until_clients(0, ["a", "b"])
        value = world.metrics.registry.get_sample_value
        assert (await world.shared(0))["podsAboveMemory"] == []
        world.start_client(0, "a", "--memory=1M", limit="")

        async def exceeded() -> list[Document]:
            found: list[Document] = (await world.shared(0))["podsAboveMemory"]
            return found

        (found,) = await world.until(exceeded)
        assert found["podUID"] == pod_uid("a")
        assert found["usedBytes"] == (most + 1) * 2**20
        assert found["limitBytes"] // 2**20 == most
        await world.until(lambda: value("gputopo_mps_pods_above_memory") == 1)
        assert (await world.shared(0))["state"] == "Ready", "nothing ends it"
        first.kill()
        await world.until(lambda: value("gputopo_mps_pods_above_memory") == 0)


async def rejected(world: MpsWorld, uuid: str = "") -> str:
    status, document = await world.call("PUT", f"/gpus/{uuid or world.uuids[0]}")
    assert status == 409, document
    return str(document["reason"])


async def test_gpus_that_cannot_be_shared_are_rejected(world: MpsWorld) -> None:
    async with world.running():
        assert "NVML lists no such GPU" in await rejected(world, "GPU-0")
        assert "must be a UUID" in await rejected(world, "nvidia0")
        assert (await world.call("GET", "/gpus"))[1]["gpus"] == []
        process = world.occupy(0)
        assert "processes 4321 use it without MPS" in await rejected(world)
        process.remove()
        world.set_mode(0, "2")
        assert "compute mode is PROHIBITED" in await rejected(world)
        assert world.mode(0) == "2", "it stays as found"
        world.set_mode(0, "0")
        world.add_to_conf("mig 0")
        assert "MIG is enabled" in await rejected(world)
        assert (await world.shared(0))["state"] == "Failed"
        world.add_to_conf("compute-mode-fault 1 4")
        assert "NVML" in await rejected(world, world.uuids[1])
        assert (world.daemons(0), world.daemons(1)) == ([], [])


async def test_it_reports_why_the_daemon_does_not_start(
    world: MpsWorld, short_directory: Path
) -> None:
    program = short_directory / "nvidia-cuda-mps-control"
    world.configure(control_program=str(program))
    async with world.running():
        assert "No such file" in await rejected(world)
        program.write_text("#!/bin/sh\nexit 1\n")
        program.chmod(0o755)
        assert "ended at once: it wrote no log" in await rejected(world)
        program.write_text(
            "#!/bin/sh\necho no license > $CUDA_MPS_LOG_DIRECTORY/control.log; exit 1\n"
        )
        assert "ended at once: no license" in await rejected(world)
        assert world.mode(0) == "0"
        assert not world.folder(0).exists()


async def test_a_daemon_that_never_responds_is_ended(
    world: MpsWorld, short_directory: Path
) -> None:
    program = short_directory / "nvidia-cuda-mps-control"
    program.write_text(
        "#!/bin/sh\n"
        '[ "$1" = -f ] && while :; do sleep 0.1; done\n'
        "[ $# = 0 ] && exit 1\n"
        '"$0" -f >/dev/null 2>&1 &\n'
        "echo $! >$CUDA_MPS_PIPE_DIRECTORY/nvidia-cuda-mps-control.pid\n"
    )
    program.chmod(0o755)
    world.configure(control_program=str(program), start_seconds=0.3)
    async with world.running():
        assert "did not respond within 0.3 s" in await rejected(world)
        assert (world.mode(0), world.daemons(0)) == ("0", [])


async def test_the_compute_mode_is_kept(world: MpsWorld) -> None:
    async with world.running():
        await world.share(0)
        world.set_mode(0, "0")
        await world.until(lambda: world.mode(0) == "3")
        process = world.occupy(0)
        world.set_mode(0, "0")
        found = await world.until_state(0, "Fault")
        assert "without MPS" in found["reason"]
        process.remove()
        await world.until_state(0, "Ready")


async def test_one_user_id_needs_no_multiuser_server(world: MpsWorld) -> None:
    world.configure(client_user=0)
    async with world.running():
        await world.share(0)
        assert not any("multiuser" in command_of(pid) for pid in world.daemons(0))
        world.start_client(0, "a")
        await world.until_clients(0, ["a"])


async def test_a_hanging_nvml_is_reported(world: MpsWorld) -> None:
    world.configure(nvml_timeout_seconds=5)
    async with world.running():
        await world.share(0)
        world.add_to_conf("hang")
        found = await world.until_state(0, "Fault")
        assert "no response within 5 s" in found["reason"] or "has not ended" in found["reason"]
        assert "NVML" in await rejected(world, world.uuids[1])
        text = world.conf.read_text().removesuffix("hang\n")
        world.conf.write_text(text)
        await world.until_state(0, "Ready")


def command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()

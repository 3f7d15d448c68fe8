"""A pod that shares a GPU is root in its container. It harms no other GPU and no process.

The files, sockets and processes are real. The table in docs/operate/mps.md lists them.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from gputopo_mps.processes import cgroup_of
from support.mps.world import MpsWorld

PID_FILE = "nvidia-cuda-mps-control.pid"
RESPONSIVE_SECONDS = 30.0
"""Far longer than a request takes, and far shorter than a loop that blocks for ever."""


needs_mounts = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")


def fifo(path: Path) -> None:
    os.mkfifo(path)


def link_to_endless_file(path: Path) -> None:
    path.symlink_to("/dev/zero")


def link_to_itself(path: Path) -> None:
    path.symlink_to(path)


def folder(path: Path) -> None:
    (path / "a/b").mkdir(parents=True)
    (path / "a/b/c").symlink_to("/")


def large(path: Path) -> None:
    with path.open("w") as file:
        file.truncate(1 << 30)


def deep(path: Path) -> None:
    """Create folders in each other, more than Python can call functions in each other."""
    path.mkdir()
    folder = os.open(path, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("a", dir_fd=folder)
        inner = os.open("a", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)


def socket_file(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


ATTACKS: tuple[Callable[[Path], None], ...] = (
    *(fifo, link_to_endless_file, link_to_itself),
    *(folder, deep, large, socket_file),
)


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        subprocess.run(["rm", "-r", str(path)], check=True)
    path.unlink(missing_ok=True)


@contextmanager
def watched_loop() -> Iterator[None]:
    """End this process if the event loop blocks for ever, because no test could end it."""
    ended = threading.Event()

    def watch() -> None:
        if not ended.wait(6 * RESPONSIVE_SECONDS):
            os.write(2, b"the event loop is blocked\n")
            os._exit(70)

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        ended.set()


async def soon(work: "asyncio.Future[object] | object") -> object:
    return await asyncio.wait_for(work, RESPONSIVE_SECONDS)  # type: ignore[arg-type]


@pytest.fixture
def attacked(world: MpsWorld) -> Iterator[MpsWorld]:
    world.configure(response_seconds=5.0)
    with watched_loop():
        yield world


@pytest.mark.parametrize("attack", ATTACKS)
async def test_no_pid_file_stops_sharing(
    attacked: MpsWorld, attack: Callable[[Path], None]
) -> None:
    world = attacked
    async with world.running():
        await world.share(0)
        served = world.daemons(0)
        remove(world.folder(0) / "pipe" / PID_FILE)
        attack(world.folder(0) / "pipe" / PID_FILE)
        await soon(world.share(1))
        assert (await soon(world.shared(0)))["state"] == "Ready"  # type: ignore[index]
    async with world.running():
        assert world.daemons(0) == served
        await soon(world.until_state(0, "Ready"))
        await soon(world.call("DELETE", f"/gpus/{world.uuids[0]}"))
        assert (world.mode(0), world.daemons(0)) == ("0", [])
        assert not world.folder(0).exists()
        await soon(world.share(0))
        assert len(world.daemons(1)) == 2


@pytest.mark.parametrize("attack", ATTACKS)
async def test_a_replaced_control_socket_costs_only_the_daemon_of_this_gpu(
    attacked: MpsWorld, attack: Callable[[Path], None]
) -> None:
    world = attacked
    async with world.running():
        await asyncio.gather(world.share(0), world.share(1))
        former, other = world.daemons(0), world.daemons(1)
        control = world.folder(0) / "pipe/control"
        control.unlink()
        attack(control)
        await world.until(lambda: len({*world.daemons(0)} - {*former}) == 2)
        await world.until_state(0, "Ready")
        assert world.daemons(1) == other


async def test_a_control_socket_that_responds_without_an_end_is_replaced(
    attacked: MpsWorld,
) -> None:
    world = attacked
    async with world.running():
        await world.share(0)
        former = world.daemons(0)
        control = world.folder(0) / "pipe/control"
        control.unlink()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(control))
            listener.listen(64)
            threading.Thread(target=respond_for_ever, args=(listener,), daemon=True).start()
            await world.until(lambda: len({*world.daemons(0)} - {*former}) == 2)
        await world.until_state(0, "Ready")


def respond_for_ever(listener: socket.socket) -> None:
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                text = '{"status": 0, "text": "' + "7 " * (1 << 20)
                connection.sendall(text.encode())
                while True:
                    connection.sendall(b"7 " * (1 << 16))


@contextmanager
def responding(control: Path, text: str) -> Iterator[None]:
    """Replace a control socket by one with the same response to each command."""
    control.unlink()
    document = json.dumps({"status": 0, "text": text}).encode() + b"\n"

    def respond() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection, suppress(OSError):
                    connection.recv(1 << 16)
                    connection.sendall(document)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(control))
        listener.listen(64)
        thread = threading.Thread(target=respond, daemon=True)
        thread.start()
        yield
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize("text", ["²", "7" * 5000, f"PID SERVER\n{'8' * 5000} 1\n² ²\n"])
async def test_no_response_of_a_forged_control_socket_ends_the_component(
    attacked: MpsWorld, text: str
) -> None:
    world = attacked
    async with world.running():
        await asyncio.gather(world.share(0), world.share(1))
        other = world.daemons(1)
        with responding(world.folder(0) / "pipe/control", text):
            await asyncio.sleep(3 * world.settings.check_seconds)
            assert (await soon(world.shared(1)))["state"] == "Ready"  # type: ignore[index]
        await world.until_state(0, "Ready")
        assert world.daemons(1) == other


async def test_an_unexpected_error_of_one_gpu_does_not_end_the_component(
    attacked: MpsWorld,
) -> None:
    world = attacked
    async with world.running():
        await asyncio.gather(world.share(0), world.share(1))
        assert world.component is not None
        broken = world.component._gpus.all[0]

        async def fail() -> list[int]:
            raise RecursionError("too deep")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(broken.control, "servers", fail)
            index = world.uuids.index(broken.folders.uuid)
            found = await world.until_state(index, "Fault")
            assert found["reason"] == "too deep"
            assert (await soon(world.shared(1 - index)))["state"] == "Ready"  # type: ignore[index]
        await world.until_state(index, "Ready")


@needs_mounts
async def test_a_link_does_not_lead_the_component_to_the_daemon_of_another_gpu(
    attacked: MpsWorld,
) -> None:
    world = attacked
    async with world.running():
        await asyncio.gather(world.share(0), world.share(1))
        former, other = world.daemons(0), world.daemons(1)
        control = world.folder(0) / "pipe/control"
        control.unlink()
        control.symlink_to(world.folder(1) / "pipe/control")
        await world.until(lambda: len({*world.daemons(0)} - {*former}) == 2)
        await world.until_state(0, "Ready")
        control.unlink()
        control.symlink_to(world.folder(1) / "pipe/control")
        await soon(world.call("DELETE", f"/gpus/{world.uuids[0]}"))
        assert world.daemons(1) == other


async def test_a_pid_file_that_changes_all_the_time_is_not_used(attacked: MpsWorld) -> None:
    world = attacked
    async with world.running():
        await world.share(0)
        served = world.daemons(0)
        ended = threading.Event()
        path = world.folder(0) / "pipe" / PID_FILE

        def change() -> None:
            while not ended.is_set():
                for attack in (fifo, link_to_endless_file, folder):
                    remove(path)
                    attack(path)

        thread = threading.Thread(target=change)
        thread.start()
        try:
            for _ in range(5):
                await asyncio.sleep(world.settings.check_seconds)
                assert (await soon(world.shared(0)))["state"] == "Ready"  # type: ignore[index]
            assert world.daemons(0) == served
        finally:
            ended.set()
            thread.join()


@contextmanager
def forged(world: MpsWorld, name: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a process of a pod that pretends to be a process of MPS, with a PID file."""
    pipe = world.folder(0) / "pipe"
    command = [name, "-c", "import time; print('up', flush=True); time.sleep(600)", "-d"]
    environment = {**os.environ, "CUDA_MPS_PIPE_DIRECTORY": str(pipe)}
    process = subprocess.Popen(
        command, executable=sys.executable, env=environment, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        (pipe / PID_FILE).unlink(missing_ok=True)
        (pipe / PID_FILE).write_text(f"{process.pid}\n")
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("name", ["nvidia-cuda-mps-server", "nvidia-cuda-mps-control"])
async def test_a_process_that_pretends_to_be_of_mps_is_not_touched(
    attacked: MpsWorld, name: str
) -> None:
    world = attacked
    async with world.running():
        await world.share(0)
        real = world.daemons(0)
        with forged(world, name) as process:
            before = cgroup_of(process.pid)
            await asyncio.sleep(3 * world.settings.check_seconds)
            await soon(world.call("DELETE", f"/gpus/{world.uuids[0]}"))
            assert process.poll() is None
            assert cgroup_of(process.pid) == before
            assert not {*real} & {*world.daemons(0)}
            assert world.mode(0) == "0"


async def test_a_forged_process_does_not_hide_the_end_of_the_daemon(attacked: MpsWorld) -> None:
    world = attacked
    async with world.running():
        await world.share(0)
        former = world.daemons(0)
        with forged(world, "nvidia-cuda-mps-control") as process:
            for pid in former:
                os.kill(pid, 9)
            known = {*former, process.pid}
            await world.until(lambda: len({*world.daemons(0)} - known) == 2)
            await world.until_state(0, "Ready")
            assert process.poll() is None


def has_shared_memory(pid: int, folder: Path) -> bool:
    return Path(f"/proc/{pid}/root/dev/shm").samefile(folder)


@needs_mounts
async def test_gpus_have_shared_memory_of_their_own(attacked: MpsWorld) -> None:
    world = attacked
    async with world.running():
        first, second = [Path((await world.share(each))["shmDirectory"]) for each in (0, 1)]
        (first / "file").touch()
        assert os.listdir(second) == []  # noqa: PTH208
        for pid in world.daemons(0):
            assert has_shared_memory(pid, first)
        for pid in world.daemons(1):
            assert has_shared_memory(pid, second)
        assert not has_shared_memory(os.getpid(), first)
        await world.call("DELETE", f"/gpus/{world.uuids[0]}")
        assert not first.exists()
        assert os.listdir((await world.share(0))["shmDirectory"]) == []  # noqa: PTH208
        assert second.is_mount()


def create_files(folder: Path) -> None:
    for number in range(5000):
        (folder / str(number)).touch()


@needs_mounts
@pytest.mark.parametrize("place", ["shm", "pipe"])
async def test_a_pod_can_fill_only_the_folders_of_its_gpu(attacked: MpsWorld, place: str) -> None:
    world = attacked
    world.configure(shared_memory_size="1m", shared_memory_files=100)
    async with world.running():
        await asyncio.gather(world.share(0), world.share(1))
        with pytest.raises(OSError, match="No space"):
            (world.folder(0) / place / "large").write_bytes(b"x" * (8 << 20))
        (world.folder(0) / place / "large").unlink()
        with pytest.raises(OSError, match="No space"):
            create_files(world.folder(0) / place)
        (world.folder(1) / place / "file").write_bytes(b"x" * (1 << 19))
        (world.folder(0).parent / "file").write_bytes(b"x" * (1 << 19))
        status, _ = await world.call("DELETE", f"/gpus/{world.uuids[0]}")
        assert (status, world.mode(0), world.folder(0).exists()) == (200, "0", False)

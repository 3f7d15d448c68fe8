import os
import signal
import socket
import stat
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from gputopo_deviceplugin.measure import sockets as module
from gputopo_deviceplugin.measure.containers import ContainerKey
from gputopo_deviceplugin.measure.sockets import StepsSockets

KEY = ContainerKey("uid-a", "main")


@pytest.fixture
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="gt-") as name:
        yield Path(name) / "steps"


@pytest.fixture
def failures() -> list[str]:
    return []


@pytest.fixture
def sockets(directory: Path, failures: list[str]) -> Iterator[StepsSockets]:
    sockets = StepsSockets(directory, failures.append)
    yield sockets
    sockets.close()


def send(folder: Path, *datagrams: bytes) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        for datagram in datagrams:
            sender.sendto(datagram, str(folder / "socket"))


def received(sockets: StepsSockets) -> list[bytes | None]:
    return [datagram.data for datagram in sockets.receive()]


def opened(sockets: StepsSockets, key: ContainerKey = KEY) -> Path:
    folder = sockets.open(key)
    assert folder is not None
    return folder


def test_any_user_of_the_container_may_send_and_none_may_write(sockets: StepsSockets) -> None:
    folder = opened(sockets)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    assert stat.S_IMODE((folder / "socket").stat().st_mode) == 0o666
    send(folder, b"1", b"2")
    assert received(sockets) == [b"1", b"2"]
    assert received(sockets) == []


def test_a_container_that_is_admitted_again_keeps_its_socket(sockets: StepsSockets) -> None:
    send(opened(sockets), b"1")
    opened(sockets)
    assert received(sockets) == [b"1"]


def test_a_few_messages_of_each_container_are_read_at_a_time(
    sockets: StepsSockets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_DATAGRAMS", 2)
    other = ContainerKey("uid-b", "main")
    send(opened(sockets), b"1", b"2", b"3")
    send(opened(sockets, other), b"4")
    assert received(sockets) == [b"1", b"2", b"4"]
    assert received(sockets) == [b"3"]


def test_a_name_of_any_length_has_a_socket(sockets: StepsSockets) -> None:
    uid = "01234567-89ab-cdef-0123-456789abcdef"
    folder = opened(sockets, ContainerKey(uid, "c" * 63))
    assert len(str(folder)) > 107, "longer than the path of a Unix socket may be"
    assert (folder / "socket").is_socket()


def test_a_new_agent_opens_the_sockets_of_all_folders(
    sockets: StepsSockets, directory: Path, failures: list[str]
) -> None:
    folder = opened(sockets)
    sockets.close()
    (directory / "other").mkdir()
    following = StepsSockets(directory, failures.append)
    following.open_again()
    assert following.keys == {KEY}
    send(folder, b"1")
    assert received(following) == [b"1"]
    following.close()
    assert failures == []


def test_an_agent_without_folders_opens_nothing(sockets: StepsSockets, failures: list[str]) -> None:
    sockets.open_again()
    assert (sockets.keys, failures) == (frozenset(), [])


def test_a_socket_that_cannot_be_opened_is_counted(
    sockets: StepsSockets, directory: Path, failures: list[str]
) -> None:
    (directory / "uid-a_main/socket/in-the-way").mkdir(parents=True)
    before = len([*Path("/proc/self/fd").iterdir()])
    assert sockets.open(KEY) is None
    assert failures == ["socket"]
    assert len([*Path("/proc/self/fd").iterdir()]) == before


def test_a_link_instead_of_a_folder_is_not_used(
    sockets: StepsSockets, directory: Path, failures: list[str]
) -> None:
    elsewhere = directory.parent / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    directory.mkdir()
    (directory / "uid-a_main").symlink_to(elsewhere)
    assert sockets.open(KEY) is None
    assert failures == ["socket"]
    assert [*elsewhere.iterdir()] == []
    assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o700


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Interrupt a system call that blocks for longer, so that the test fails."""

    def interrupt(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def send_blocking_descriptor(folder: Path) -> socket.socket:
    """Send the descriptor of a TCP connection with unsent bytes, and return its other end.

    To close this descriptor takes 600 s, or until the other end is closed.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        end = socket.create_connection(server.getsockname())
        other_end, _ = server.accept()
    end.setblocking(False)
    with suppress(BlockingIOError):
        while True:
            end.send(bytes(65536))
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 600))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.connect(str(folder / "socket"))
        socket.send_fds(sender, [b"1"], [end.fileno()])
    end.close()
    return other_end


def test_closing_a_descriptor_in_a_message_does_not_block_the_agent(sockets: StepsSockets) -> None:
    other = ContainerKey("uid-b", "main")
    folder = opened(sockets)
    with limited(5), send_blocking_descriptor(folder):
        send(opened(sockets, other), b"2")
        assert received(sockets) == [b"2"]
        send(opened(sockets, other), b"3")
        assert received(sockets) == [b"3"]
        assert sockets.open(KEY) == folder
        sockets.remove(KEY)
    assert sockets.keys == {other}


def test_removing_a_socket_with_a_descriptor_does_not_block_the_agent(
    sockets: StepsSockets, directory: Path
) -> None:
    with limited(5), send_blocking_descriptor(opened(sockets)):
        sockets.remove(KEY)
    assert [*directory.iterdir()] == []


def test_an_agent_that_ends_closes_the_sockets_that_are_left(sockets: StepsSockets) -> None:
    with limited(5), send_blocking_descriptor(opened(sockets)):
        assert received(sockets) == []
        sockets.close()
    assert sockets.keys == frozenset()


def test_a_removed_socket_leaves_nothing(sockets: StepsSockets, directory: Path) -> None:
    opened(sockets)
    sockets.remove(KEY)
    assert [*directory.iterdir()] == []
    assert sockets.keys == frozenset()


def fifo(path: Path) -> None:
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def dangling(path: Path) -> None:
    path.symlink_to(path.parent / "nothing")


def large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**30)


def other_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        other.bind(str(path))


@pytest.mark.parametrize("place", [fifo, endless, dangling, large, other_socket])
def test_file_in_the_place_of_the_socket_is_replaced_without_being_opened(
    sockets: StepsSockets, directory: Path, failures: list[str], place: Callable[[Path], None]
) -> None:
    """A container with the right to mount could write the folder while no agent runs."""
    folder = directory / "uid-a_main"
    folder.mkdir(parents=True)
    place(folder / "socket")
    with limited(5):
        sockets.open_again()
    assert failures == []
    send(folder, b"1")
    assert received(sockets) == [b"1"]


@pytest.mark.parametrize("place", [fifo, endless, dangling, large])
def test_file_that_replaces_the_socket_while_it_is_made_keeps_its_mode(
    sockets: StepsSockets,
    directory: Path,
    failures: list[str],
    monkeypatch: pytest.MonkeyPatch,
    place: Callable[[Path], None],
) -> None:
    class Replaced(socket.socket):
        def bind(self, address: str) -> None:  # type: ignore[override]
            super().bind(address)
            path = Path(address).resolve()
            path.unlink()
            place(path)

    before = Path("/dev/zero").stat().st_mode, len([*Path("/proc/self/fd").iterdir()])
    monkeypatch.setattr(socket, "socket", Replaced)
    with limited(5):
        assert sockets.open(KEY) is None
    assert failures == ["socket"]
    replaced = (directory / "uid-a_main/socket").lstat().st_mode
    assert stat.S_ISLNK(replaced) or stat.S_IMODE(replaced) != 0o666
    assert (Path("/dev/zero").stat().st_mode, len([*Path("/proc/self/fd").iterdir()])) == before


def test_link_to_another_file_that_replaces_the_socket_does_not_change_that_file(
    sockets: StepsSockets, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory.mkdir()
    secret = directory.parent / "secret"
    secret.touch(mode=0o600)

    class Replaced(socket.socket):
        def bind(self, address: str) -> None:  # type: ignore[override]
            super().bind(address)
            path = Path(address).resolve()
            path.unlink()
            path.symlink_to(secret)

    monkeypatch.setattr(socket, "socket", Replaced)
    assert sockets.open(KEY) is None
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600


def test_messages_that_are_large_many_or_no_steps_are_bounded(sockets: StepsSockets) -> None:
    folder, sent = opened(sockets), 0
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                sender.sendto(bytes(60_000), str(folder / "socket"))
                sent += 1
    assert 0 < sent < 4096  # the kernel rejects more
    assert set(received(sockets)) == {None}
    with (
        pytest.raises(OSError, match="Message too long"),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender,
    ):
        sender.sendto(bytes(2**24), str(folder / "socket"))

"""What the agent takes for a daemon of MPS, in a folder that the pods of the GPU can write."""

import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.sharing.presence import MpsPresence

GPU = GpuUuid("GPU-a")


@pytest.fixture
def pipe() -> Iterator[Path]:
    """Return the pipe folder of a daemon, of which the component has written the state."""
    with tempfile.TemporaryDirectory(prefix="gt-") as name:
        found = Path(name) / "gpus" / GPU / "pipe"
        found.mkdir(parents=True)
        (found.parent / "state.json").touch()
        yield found


def found(pipe: Path) -> bool:
    presence = MpsPresence(pipe.parent.parent.parent / "component")
    return presence.daemon(GPU) is not None


def test_socket_that_a_process_has_open_is_a_daemon(pipe: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as daemon:
        daemon.bind(str(pipe / "control"))
        daemon.listen()
        assert found(pipe)
        (pipe.parent / "state.json").unlink()
        assert not found(pipe)
        (pipe.parent / "state.json").touch()
    assert not found(pipe)


def missing(control: Path) -> None:
    """Leave the place empty."""


def fifo(control: Path) -> None:
    os.mkfifo(control)


def link_to_a_socket(control: Path) -> None:
    """Link to a socket of the host, on which a process listens."""
    control.symlink_to(control.parents[3] / "other")


def link_to_an_endless_file(control: Path) -> None:
    control.symlink_to("/dev/zero")


def folder(control: Path) -> None:
    control.mkdir()


def large(control: Path) -> None:
    with control.open("wb") as file:
        file.truncate(2**30)


def folder_instead_of_the_pipe(control: Path) -> None:
    shutil.rmtree(control.parent)
    control.parent.touch()


@pytest.mark.parametrize(
    "place",
    [
        missing,
        fifo,
        link_to_a_socket,
        link_to_an_endless_file,
        folder,
        large,
        folder_instead_of_the_pipe,
    ],
)
def test_anything_else_is_no_daemon(pipe: Path, place: Callable[[Path], None]) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        other.bind(str(pipe.parents[2] / "other"))
        other.listen()
        place(pipe / "control")
        assert not found(pipe)

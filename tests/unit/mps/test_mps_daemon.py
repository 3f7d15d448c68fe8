"""Control program and daemon, when programs and processes behave badly."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gputopo_mps.cgroups import DaemonCgroup
from gputopo_mps.client_termination import ClientTermination
from gputopo_mps.clients import Clients
from gputopo_mps.control import ControlError, ControlProgram, NoResponseError
from gputopo_mps.daemon import DaemonError, MpsDaemon
from gputopo_mps.folders import GpuFolders
from gputopo_mps.metrics import MpsMetrics
from gputopo_mps.processes import Processes
from gputopo_mps.settings import MpsSettings

LIMIT = 1 << 30
TABLE = "PID SERVER\\n5 9\\n6 9\\n"


@pytest.fixture
def folders(tmp_path: Path) -> GpuFolders:
    found = GpuFolders("GPU-1", tmp_path / "GPU-1")
    found.create()
    return found


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], str]:
    """Write a control program that is a script of the shell."""

    def write(script: str) -> str:
        path = tmp_path / "nvidia-cuda-mps-control"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return str(path)

    return write


def daemon(folders: GpuFolders, program: str, **settings: float) -> MpsDaemon:
    configured = MpsSettings.model_validate(
        {"node": "n1", "control_program": program, "start_seconds": 0.2} | settings
    )
    control = ControlProgram(program, folders, 60)
    return MpsDaemon(folders, control, configured, DaemonCgroup(None, folders.root))


def runs(found: MpsDaemon) -> bool:
    return found.is_running


async def test_a_missing_program_is_named(folders: GpuFolders) -> None:
    with pytest.raises(ControlError, match="no-such-program: No such file"):
        await ControlProgram("no-such-program", folders, 60).servers()


async def test_a_program_that_hangs_is_ended(
    folders: GpuFolders, program: Callable[[str], str]
) -> None:
    control = ControlProgram(program("exec sleep 600"), folders, 0.3)
    with pytest.raises(NoResponseError, match=r"ps: no response within 0\.3 s"):
        await control.clients()


async def test_output_of_a_program_that_fails_is_in_the_error(
    folders: GpuFolders, program: Callable[[str], str]
) -> None:
    control = ControlProgram(program("echo no; echo daemon >&2; exit 3"), folders, 60)
    with pytest.raises(ControlError, match="get_server_list: no daemon"):
        await control.servers()


@pytest.fixture
def orphan(program: Callable[[str], str]) -> Iterator[subprocess.Popen[bytes]]:
    """Start a daemon that responds to nothing."""
    with subprocess.Popen([program("exec sleep 600"), "-d"]) as process:
        yield process
        process.kill()


async def test_processes_that_do_not_end_are_named(
    folders: GpuFolders, orphan: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = daemon(folders, "none", stop_seconds=0.1)
    assert found.processes.record(orphan.pid)
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda *_: None)  # it waits for the GPU
    assert runs(found)
    with pytest.raises(DaemonError, match=rf"processes {orphan.pid} of MPS do not end"):
        await found.kill()
    monkeypatch.undo()
    restarted = daemon(folders, "none")
    restarted.processes.restore()
    await restarted.kill()
    assert not runs(found)
    assert not folders.daemon.exists()


async def test_a_process_that_ends_before_the_signal_is_no_error(
    folders: GpuFolders, orphan: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = daemon(folders, "none")
    found.processes.record(orphan.pid)
    send = signal.pidfd_send_signal

    def send_too_late(descriptor: int, number: signal.Signals) -> None:
        send(descriptor, number)
        orphan.wait()
        raise ProcessLookupError

    monkeypatch.setattr(signal, "pidfd_send_signal", send_too_late)
    await found.kill()
    assert not runs(found)


async def test_a_control_program_that_does_not_end_is_killed(
    folders: GpuFolders, program: Callable[[str], str]
) -> None:
    with pytest.raises(DaemonError, match=r"MPS did not respond within 0\.2 s: it wrote no log"):
        await daemon(folders, program("exec sleep 600")).start(LIMIT)


async def test_an_empty_log_has_no_last_line(
    folders: GpuFolders, program: Callable[[str], str]
) -> None:
    (folders.log / "control.log").write_text("")
    with pytest.raises(DaemonError, match="ended at once: it wrote no log"):
        await daemon(folders, program("exit 1"), start_seconds=60).start(LIMIT)
    (folders.log / "server.log").write_text("[2026-11-26 15:00:01.000 Server 2] no memory\n")
    with pytest.raises(DaemonError, match="no memory"):
        await daemon(folders, program("exit 1"), start_seconds=60).start(LIMIT)


DAEMON = """
[ "$1" = -f ] && while :; do sleep 0.05; done
if [ "$1" = -d ]; then
    "$0" -f >/dev/null 2>&1 &
    echo $! > $0.pid
    exit 0
fi
read command
"""


async def test_a_daemon_that_ends_at_once_is_reported(
    folders: GpuFolders, program: Callable[[str], str]
) -> None:
    (folders.log / "control.log").write_text("[2026-11-26 15:00:00.000 Control 1] no license\n")
    script = DAEMON + "kill -9 $(cat $0.pid); exit 1"
    with pytest.raises(DaemonError, match=r"the control daemon ended at once: .* no license"):
        await daemon(folders, program(script), start_seconds=60).start(LIMIT)


async def test_a_server_that_ends_at_once_is_reported(
    folders: GpuFolders, program: Callable[[str], str]
) -> None:
    (folders.log / "control.log").write_text("[2026-11-26 15:00:00.000 Control 1] started\n")
    (folders.log / "server.log").write_text("[2026-11-26 15:00:01.000 Server 2] no memory\n")
    script = (
        DAEMON
        + """
    case $command in
    get_server_list) [ -e $0.asked ] || echo 7;;
    get_server_status*) touch $0.asked; exit 1;;
    esac
    """
    )
    found = daemon(folders, program(script), start_seconds=60)
    with pytest.raises(DaemonError, match=r"the MPS server ended at once: .* no memory"):
        await found.start(LIMIT)
    await found.kill()


async def test_a_launcher_that_cannot_start_is_reported(
    folders: GpuFolders, program: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(DaemonError, match="the launcher ended at once"):
        await daemon(folders, program("exit 0"), start_seconds=60).start(LIMIT)


async def test_a_response_without_an_end_is_rejected(
    folders: GpuFolders, program: Callable[[str], str]
) -> None:
    control = ControlProgram(program("exec cat /dev/zero"), folders, 60)
    with pytest.raises(ControlError, match="ps: a response of more than 1048576 bytes"):
        await control.clients()


async def test_a_program_that_reads_no_command_is_no_error(
    folders: GpuFolders, program: Callable[[str], str]
) -> None:
    control = ControlProgram(program("exec <&-; echo 7"), folders, 60)
    assert await control.servers() == [7]


async def terminate(folders: GpuFolders, program: str) -> tuple[float, float]:
    """Terminate the clients of a pod twice; return terminated clients and failures."""
    proc = folders.root / "proc"
    (proc / "5").mkdir(parents=True, exist_ok=True)
    pod = "0a1b2c3d-0a1b-2c3d-4e5f-0a1b2c3d4e5f"
    (proc / "5/cgroup").write_text(f"0::/kubepods/pod{pod}/c\n")
    metrics = MpsMetrics()
    control = ControlProgram(program, folders, 60)
    termination = ClientTermination(control, Clients(Processes(proc)), metrics)
    for _ in range(2):
        await termination.terminate({pod})
    value = metrics.registry.get_sample_value
    return (
        value("gputopo_mps_terminated_clients_total") or 0,
        value("gputopo_mps_failures_total", {"of": "terminate"}) or 0,
    )


async def test_a_client_is_terminated_once(
    folders: GpuFolders, program: Callable[[str], str]
) -> None:
    script = f"read command; case $command in ps) printf '{TABLE}';; *) echo 0;; esac"
    assert await terminate(folders, program(script)) == (1, 0)


async def test_terminations_that_fail_are_repeated(
    folders: GpuFolders, program: Callable[[str], str]
) -> None:
    script = f"read command; case $command in ps) printf '{TABLE}';; *) exit 1;; esac"
    assert await terminate(folders, program(script)) == (0, 2)
    assert await terminate(folders, program("exit 1")) == (0, 2)
    script = f"read command; case $command in ps) printf '{TABLE}';; *) echo 201;; esac"
    assert await terminate(folders, program(script)) == (0, 2), "the real program exits with 0"

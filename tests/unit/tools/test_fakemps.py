"""The stand-in for MPS behaves as the programs of driver 580 did on an H100."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pynvml
import pytest

from fakemps.build import install_programs
from fakemps.memory import GpuFiles
from fakemps.server import parse_limit
from fakemps.wire import parse_bytes
from fakenvml.build import build_library
from fakenvml.render import render
from gputopo.catalogue import named

TOPOLOGY = named("dgx1-v100", node="n1")
UUID = TOPOLOGY.gpus[0].uuid
CLIENT = Path(__file__).parents[3] / "tools/fakemps/client.py"


@dataclass(slots=True)
class Mps:
    """The programs, and the folders of one daemon."""

    control: Path
    environment: dict[str, str]
    clients: list["subprocess.Popen[str]"] = field(default_factory=list)

    def run(self, *words: str, command: str = "") -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [self.control, *words],
            input=command,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def command(self, command: str) -> str:
        done = self.run(command=command)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def client(self, *options: str, limit: str = "0=1G") -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-IS", CLIENT, "--step=0.02", *options],
            env={**self.environment, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": limit},
            stdout=subprocess.PIPE,
            text=True,
        )
        self.clients.append(process)
        return process

    def error(self, *options: str, limit: str = "0=1G") -> int:
        output, _ = self.client(*options, limit=limit).communicate()
        return int(output.splitlines()[-1])

    def ready_client(self) -> "subprocess.Popen[str]":
        process = self.client("--memory=1M")
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_programs(tmp_path_factory.mktemp("bin"), sys.executable)


@pytest.fixture
def mps(control: Path) -> Iterator[Mps]:
    with TemporaryDirectory(prefix="gt-") as name:
        folder = Path(name)
        for each in ("pipe", "log"):
            (folder / each).mkdir()
        (folder / "topology.conf").write_text(render(TOPOLOGY))
        (folder / "compute.d" / UUID).mkdir(parents=True)
        (folder / "compute.d" / UUID / "mode").write_text("3\n")
        environment = {
            "PATH": os.environ["PATH"],
            "CUDA_VISIBLE_DEVICES": UUID,
            "CUDA_MPS_PIPE_DIRECTORY": str(folder / "pipe"),
            "CUDA_MPS_LOG_DIRECTORY": str(folder / "log"),
            "FAKE_NVML_TOPOLOGY": str(folder / "topology.conf"),
        }
        found = Mps(control, environment)
        yield found
        for client in found.clients:
            client.kill()
            client.wait()
            assert client.stdout is not None
            client.stdout.close()
        found.run(command="quit -t 0")


@pytest.fixture
def running(mps: Mps) -> Mps:
    assert mps.run("-d", "-multiuser-server").returncode == 0
    return mps


def test_commands_need_a_daemon_and_there_is_one_for_each_folder(mps: Mps) -> None:
    done = mps.run(command="get_server_list")
    assert (done.returncode, done.stderr) == (1, "Cannot find MPS control daemon process\n")
    assert mps.run("-d").returncode == 0
    assert mps.command("get_server_list") == ""
    assert "already running" in mps.run("-f").stderr
    assert "unknown option" in mps.run("-x").stderr
    assert mps.command("frob") == 'Unknown command "frob"\n'
    assert mps.run(command="get_server_status 1").returncode == 1
    assert mps.command("ps") == ""


def test_a_server_starts_by_command_and_lists_its_clients(running: Mps) -> None:
    running.command("start_server -uid 0")
    running.command("set_default_active_thread_percentage 50")
    running.command("set_default_device_pinned_mem_limit 0 1G")
    server = running.command("get_server_list").strip()
    while (done := running.run(command=f"get_server_status {server}")).returncode:
        assert "Cannot send command" in done.stdout
    assert done.stdout == "ACTIVE\n"
    client = running.ready_client()
    assert running.command(f"get_client_list {server}") == f"{client.pid}\n"
    header, row = (line.split() for line in running.command("ps").splitlines())
    assert header == ["PID", "ID", "SERVER", "DEVICE", "NAMESPACE", "COMMAND"]
    namespace = Path("/proc/self/ns/pid").readlink().name.strip("pid:[]")
    assert row[:5] == [str(client.pid), "1", server, UUID[:17], namespace]
    assert running.command(f"terminate_client {server} 1") == "201\n"
    assert running.command(f"terminate_client {server} {client.pid}") == "0\n"
    output, _ = client.communicate()
    assert output.splitlines()[-1] == "810"
    assert running.command(f"get_client_list {server}") == ""


def test_clients_with_wrong_settings_are_rejected(running: Mps) -> None:
    assert running.error(limit="") == 1
    assert running.error(limit="1=1G") == 1
    assert running.error("--memory=2G") == 2
    folder = Path(running.environment["FAKE_NVML_TOPOLOGY"]).parent / "compute.d" / UUID
    (folder / "mode").write_text("0\n")
    assert running.error() == 1
    (folder / "mode").unlink()
    assert running.error() == 1


def test_a_client_without_a_daemon_fails(mps: Mps) -> None:
    assert mps.error() == 46


def test_a_fatal_fault_ends_all_clients_and_the_server_recovers(running: Mps) -> None:
    first = running.ready_client()
    assert running.error("--fault-after=0") == 700
    output, _ = first.communicate()
    assert output.splitlines()[-1] == "700"
    server = running.command("get_server_list").strip()
    while running.command(f"get_server_status {server}") != "ACTIVE\n":
        time.sleep(0.01)
    running.ready_client()


def test_quit_waits_for_clients_unless_it_has_a_time_limit(running: Mps) -> None:
    client = running.ready_client()
    waiting = subprocess.Popen(
        [running.control], stdin=subprocess.PIPE, env=running.environment, stderr=subprocess.DEVNULL
    )
    assert waiting.stdin is not None
    waiting.stdin.write(b"quit\n")
    waiting.stdin.close()
    client.send_signal(signal.SIGTERM)
    assert client.wait() == 0
    waiting.wait()
    assert not list(Path(running.environment["CUDA_MPS_PIPE_DIRECTORY"]).glob("control*"))


def test_nvml_shows_the_server_and_its_clients(
    running: Mps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = running.ready_client()
    server = int(running.command("get_server_list"))
    monkeypatch.setenv("FAKE_NVML_TOPOLOGY", running.environment["FAKE_NVML_TOPOLOGY"])
    ctypes.CDLL(str(build_library(tmp_path)), mode=ctypes.RTLD_GLOBAL)
    pynvml.nvmlInit()
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        assert pynvml.nvmlDeviceGetComputeMode(handle) == pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS
        pids = {each.pid for each in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)}
        assert pids == {server, client.pid}
        (found,) = pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3(handle)
        assert (found.pid, found.usedGpuMemory) == (client.pid, 1 << 20)
        client.kill()
        client.wait()
        while pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3(handle):
            time.sleep(0.01)
        pynvml.nvmlDeviceSetComputeMode(handle, pynvml.NVML_COMPUTEMODE_DEFAULT)
        assert pynvml.nvmlDeviceGetComputeMode(handle) == pynvml.NVML_COMPUTEMODE_DEFAULT
        with pytest.raises(pynvml.NVMLError):
            pynvml.nvmlDeviceSetComputeMode(handle, 9)
    finally:
        pynvml.nvmlShutdown()


def test_amounts_of_memory() -> None:
    assert [parse_bytes(text) for text in ("5", "1K", "2M", "3G", "3GB")] == [
        *(5, 1024, 2 << 20),
        *(3 << 30, 3 << 30),
    ]
    assert parse_limit("0=1M") == 1 << 20
    for text in ("", "1=1M", "0", "0=x"):
        with pytest.raises(ValueError, match=r".*"):
            parse_limit(text)


def test_a_process_that_has_ended_is_not_shown(tmp_path: Path) -> None:
    files = GpuFiles(tmp_path / "compute.d" / UUID)
    found = files.register(7, "C")
    assert found.path.exists()
    found.remove()
    assert not found.path.exists()

"""Whether the real MPS behaves as the component expects."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from gputopo_mps.exclusive import NotPossibleError
from gputopo_mps.nvml import DEFAULT, EXCLUSIVE
from hardwaretest.client import GpuProgram
from hardwaretest.node import SharedNode
from hardwaretest.report import Report

_GIB: Final = 1 << 30
_USER: Final = 1234
_OUT_OF_MEMORY: Final = 2
_TERMINATED: Final = 810
_SOON_SECONDS: Final = 15.0


class Behaviour:
    """Checks of one shared GPU. Each begins and ends without clients."""

    def __init__(self, node: SharedNode, report: Report) -> None:
        self._node = node
        self._report = report
        self._read_lines = 0

    async def run(self) -> None:
        """Run all checks. A check that fails with an exception does not end the others."""
        for check in (
            self._used_gpu,
            self._start,
            self._without_mps,
            self._clients,
            self._memory,
            self._users,
            self._terminate,
            self._kill,
            self._fault,
            self._logs,
            self._end_of_daemon,
            self._stop,
        ):
            try:
                await check()
            except Exception as error:  # noqa: BLE001 - the other checks run anyway
                self._report.check(check.__name__, holds=False, exception=repr(error))

    async def _used_gpu(self) -> None:
        program = await GpuProgram.start(self._node.alone())
        opened = await program.request("open")
        try:
            await self._node.gpus.start(self._node.uuid)
            reason = ""
        except NotPossibleError as error:
            reason = str(error)
        self._report.check(
            "a GPU that a process uses is not shared",
            holds="without MPS" in reason,
            reason=reason,
            opened=opened,
        )
        await program.end()

    async def _start(self) -> None:
        await self._node.wait_until_idle()
        began = time.monotonic()
        gpu = await self._node.gpus.start(self._node.uuid)
        seconds = time.monotonic() - began
        facts = await self._node.driver.read(self._node.uuid)
        self._report.check(
            "MPS starts",
            holds=facts.mode == EXCLUSIVE and gpu.state == "Ready",
            seconds=round(seconds, 3),
            mode=facts.mode,
            state=gpu.state,
            server=gpu.server,
            pipe=_listing(gpu.folders.pipe),
            shm=_listing(gpu.folders.shm),
        )
        await self._wait(lambda: gpu.server is not None)
        if gpu.server is not None:
            status = await gpu.control.status(gpu.server)
            self._report.show("server", pid=gpu.server, status=status, log=self._log())

    async def _without_mps(self) -> None:
        program = await GpuProgram.start(self._node.alone())
        reply = await program.request("open")
        self._report.check(
            "a program without MPS gets an error", holds="error" in reply, reply=reply
        )
        await program.end()

    async def _clients(self) -> None:
        pods = [await self._open(4 * _GIB) for _ in range(2)]
        await asyncio.gather(*(program.request("spin", seconds=1.0) for program, _ in pods))
        gpu = self._node.gpu
        await self._wait(lambda: len(gpu.clients.current) == len(pods))
        texts = {}
        for command in ("ps", "get_server_list", f"get_server_status {gpu.server}"):
            texts[command] = await gpu.control.run(command)
        facts = await self._node.driver.read(self._node.uuid)
        found = {each.pod for each in gpu.clients.current}
        memory = self._node.memory_by_process()
        self._report.check(
            "the clients and their pods are known",
            holds=found == {pod for _, pod in pods} and gpu.state == "Ready",
            outputs=texts,
            processes_of_nvml=sorted(facts.processes),
            memory=memory,
            log=self._log(),
            pids=[program.pid for program, _ in pods],
            state=gpu.state,
            reason=gpu.reason,
        )
        await _end(program for program, _ in pods)

    async def _memory(self) -> None:
        program, _ = await self._open(2 * _GIB)
        before = await program.request("memory")
        first = await program.request("allocate", bytes=_GIB)
        second = await program.request("allocate", bytes=_GIB)
        third = await program.request("allocate", bytes=4 * _GIB)
        self._report.check(
            "the memory limit of a client is enforced",
            holds="error" not in first and third.get("error") == _OUT_OF_MEMORY,
            limit=2 * _GIB,
            memory=before,
            replies=[first, second, third],
        )
        await program.end()

    async def _users(self) -> None:
        root, _ = await self._open(_GIB)
        other, _ = await self._node.start_pod(_GIB, user=_USER)
        reply = await other.request("open", 15.0)
        worked = await other.request("spin", seconds=0.5) if "seconds" in reply else {}
        self._report.check(
            "a program of another user shares the server",
            holds="kernels" in worked,
            replies=[reply, worked],
        )
        await _end((root, other))

    async def _terminate(self) -> None:
        for delay in (0.0, 1.0):
            await self._terminate_after(delay)

    async def _terminate_after(self, delay: float) -> None:
        (first, pod), (second, _) = [await self._open(_GIB) for _ in range(2)]
        gpu = self._node.gpu
        await self._wait(lambda: pod in gpu.clients.pods)
        await first.send("spin", seconds=20.0)
        await second.send("spin", seconds=6.0)
        await asyncio.sleep(delay)
        began = time.monotonic()
        await self._node.gpus.terminate({pod})
        took = time.monotonic() - began
        ended = await first.reply()
        until_error = time.monotonic() - began
        listed = await gpu.control.run("ps")
        again = await first.request("spin", seconds=0.1)
        other = await second.reply()
        self._report.check(
            f"a client that is terminated {delay:g} s after its start gets the error 810, and "
            "the other one goes on",
            holds=ended.get("error") == _TERMINATED and "kernels" in other,
            seconds_of_the_command=round(took, 3),
            seconds_until_the_error=round(until_error, 3),
            replies=[ended, again, other],
            listed_after=listed,
            after=await second.request("spin", seconds=0.2),
            log=self._log(),
        )
        await _end((first, second))

    async def _kill(self) -> None:
        (first, _), (second, _) = [await self._open(_GIB) for _ in range(2)]
        await first.send("spin", seconds=20.0)
        await second.send("spin", seconds=4.0)
        await asyncio.sleep(1.0)
        await first.kill()
        other = await second.reply()
        again = await second.request("spin", seconds=0.5)
        self._report.show(
            "a client that is killed with work on the GPU",
            the_other_client=[other, again],
            state=self._node.gpu.state,
            log=self._log(),
        )
        await _end((first, second))

    async def _fault(self) -> None:
        (first, cause), (second, hit) = [await self._open(_GIB) for _ in range(2)]
        gpu, before = self._node.gpu, len(self._node.faults.all())
        await self._wait(lambda: {cause, hit} <= gpu.clients.pods)
        await second.send("spin", seconds=20.0)
        await asyncio.sleep(0.5)
        began = time.monotonic()
        replies = [await first.request("fault"), await second.reply()]
        await self._wait(lambda: len(self._node.faults.all()) > before)
        recorded = round(time.monotonic() - began, 3)
        during = await self._node.gpu.control.run(f"get_server_status {gpu.server}")
        faults = self._node.faults.all()[before:]
        self._report.check(
            "a fatal fault is recorded with its cause and the pods that it hit",
            holds=[(each.cause_pod_uid, {*each.pod_uids}) for each in faults]
            == [(cause, {cause, hit})],
            replies=replies,
            seconds=recorded,
            status=during,
            cause=cause,
            hit=hit,
            pids=[first.pid, second.pid],
            faults=[each.model_dump(mode="json") for each in faults],
            log=self._log(),
        )
        began = time.monotonic()
        await _end((first, second))
        await self._wait(lambda: gpu.state == "Ready" and not gpu.clients.current)
        third, _ = await self._open(_GIB)
        self._report.check(
            "the server recovers after all clients have ended",
            holds="kernels" in await third.request("spin", seconds=0.2),
            seconds=round(time.monotonic() - began, 3),
            state=gpu.state,
            faults=len(self._node.faults.all()) - before,
            log=self._log(),
        )
        await third.end()

    async def _end_of_daemon(self) -> None:
        program, pod = await self._open(_GIB)
        gpu, before = self._node.gpu, len(self._node.faults.all())
        await self._wait(lambda: pod in gpu.clients.pods)
        daemon = int((gpu.folders.pipe / "nvidia-cuda-mps-control.pid").read_text())
        began = time.monotonic()
        os.kill(daemon, signal.SIGKILL)
        await self._wait(lambda: len(self._node.faults.all()) > before and gpu.state == "Ready")
        seconds = round(time.monotonic() - began, 3)
        reply = await program.request("spin", seconds=0.5)
        await program.end()
        after, _ = await self._open(_GIB)
        works = await after.request("spin", seconds=0.2)
        self._report.check(
            "a daemon that has ended is replaced",
            holds="kernels" in works and "error" in reply,
            seconds=seconds,
            replies=[reply, works],
            state=gpu.state,
        )
        await after.end()

    async def _logs(self) -> None:
        """Empty both logs while the daemon has them open."""
        folder = self._node.gpu.folders.log
        sizes = []
        for name in ("control.log", "server.log"):
            sizes.append((folder / name).stat().st_size)
            os.truncate(folder / name, 0)
        program, _ = await self._open(_GIB)
        await program.end()
        await asyncio.sleep(1.0)
        after = [(folder / name).stat() for name in ("control.log", "server.log")]
        self._report.check(
            "a log that was emptied grows from its start",
            holds=all(each.st_size < size for each, size in zip(after, sizes, strict=True)),
            before=sizes,
            after=[(each.st_size, each.st_blocks * 512) for each in after],
        )

    async def _stop(self) -> None:
        gpu = self._node.gpu
        await self._wait(lambda: not gpu.clients.current)
        path = gpu.folders.log / "control.log"
        log = path.read_text(errors="replace") if path.exists() else ""
        began = time.monotonic()
        await self._node.gpus.stop(self._node.uuid)
        seconds = round(time.monotonic() - began, 3)
        facts = await self._node.driver.read(self._node.uuid)
        program = await GpuProgram.start(self._node.alone())
        reply = await program.request("open")
        await program.end()
        self._report.check(
            "MPS ends, and the GPU is as before",
            holds=facts.mode == DEFAULT and "seconds" in reply,
            seconds=seconds,
            mode=facts.mode,
            processes=sorted(facts.processes),
            reply=reply,
            control_log=log.splitlines()[-60:],
        )

    async def _open(self, memory_bytes: int) -> tuple[GpuProgram, str]:
        program, pod = await self._node.start_pod(memory_bytes)
        reply = await program.request("open")
        if "seconds" not in reply:
            self._report.show("a client does not start", reply=reply, log=self._log())
        return program, pod

    async def _wait(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _SOON_SECONDS
        while not condition() and time.monotonic() < deadline:  # noqa: ASYNC110 - of another program
            await asyncio.sleep(0.05)

    def _log(self) -> list[str]:
        """Return the lines that the server has written since the last call."""
        path = self._node.gpu.folders.log / "server.log"
        lines = path.read_text(errors="replace").splitlines() if path.exists() else []
        new, self._read_lines = lines[self._read_lines :], len(lines)
        return new


async def _end(programs: Iterable[GpuProgram]) -> None:
    await asyncio.gather(*(program.end() for program in programs))


def _listing(folder: Path) -> list[str]:
    return [f"{path.stat().st_mode:o} {path.name}" for path in sorted(folder.iterdir())]

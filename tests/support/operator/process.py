"""Run the installed operator as a process, with the fake API server in the test's process."""

import os
import signal
import subprocess
import sys
import time
import urllib.error
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import TypeVar

from support.api.kubeconfig import write_kubeconfig
from support.api.server import ApiServer
from support.api.store import Document
from support.ports import free_port
from support.web.fetch import fetch

T = TypeVar("T")

QUIET_SECONDS = 2.0
"""An operator that has not written for so long is idle."""

LOOKS = 6000
"""At least two minutes. Beside other load, a process may need half a minute to start."""


def eventually(what: str, look: Callable[[], T | None]) -> T:
    """Call ``look`` until its result is not None or False, and return the result."""
    for _ in range(LOOKS):
        if found := look():
            return found
        time.sleep(0.02)
    raise AssertionError(f"not in {LOOKS} looks: {what}")


class Operator:
    """The process, and the objects that a user sees."""

    def __init__(
        self,
        api: ApiServer,
        folder: Path,
        resync_seconds: float = 300.0,
        arguments: Sequence[str] = (),
    ) -> None:
        self.api = api
        metrics_port, health_port = free_port(), free_port()
        self.metrics_url = f"http://127.0.0.1:{metrics_port}/metrics"
        self.health_url = f"http://127.0.0.1:{health_port}/healthz"
        self._log = folder / "operator.log"
        self._argv = [
            *(sys.executable, "-W", "error", "-m", "gputopo_operator"),
            *("--probes-host", "127.0.0.1", "--resync-seconds", str(resync_seconds)),
            *("--health-port", str(health_port), "--metrics-port", str(metrics_port)),
            *("--log-level", "debug", "--profile-delay-seconds", "0.2"),
            *arguments,
        ]
        kubeconfig = write_kubeconfig(folder / "kubeconfig", api.url, {"token": "secret"})
        self._environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._argv, env=self._environment, stdout=log, stderr=log
            )

    def wait_ready(self) -> None:
        """Wait until it responds to probes. Before, SIGTERM ends it without its exit status."""

        def responds() -> bool:
            try:
                return fetch(self.health_url)[0] == HTTPStatus.OK
            except (urllib.error.URLError, ConnectionError):
                return False

        eventually("the operator is ready", responds)

    def kill(self) -> None:
        """Send SIGKILL, as in a power failure."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """Terminate it; return its exit status."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(120)

    @property
    def log(self) -> str:
        return self._log.read_text()

    def condition(self, name: str, type_: str) -> Document:
        """Return a condition of a GPUJob, empty while it does not exist."""
        job = self.api.get("gpujobs", name) or {}
        conditions = job.get("status", {}).get("conditions", [])
        found: list[Document] = [each for each in conditions if each["type"] == type_]
        return found[0] if found else {}

    def wait_condition(self, name: str, type_: str, reason: str) -> Document:
        """Wait until a condition of a GPUJob has this reason."""

        def look() -> Document | None:
            condition = self.condition(name, type_)
            return condition if condition.get("reason") == reason else None

        return eventually(f"{name}: {type_} because of {reason}", look)

    def wait_phase(self, name: str, phase: str) -> Document:
        """Wait until a GPUJob is in this phase; return it."""

        def look() -> Document | None:
            job = self.api.get("gpujobs", name) or {}
            return job if job.get("status", {}).get("phase") == phase else None

        return eventually(f"{name} is {phase}", look)

    def wait_child(self, name: str) -> Document:
        """Wait for the child Job of a GPUJob."""
        return eventually(f"Job {name}", lambda: self.api.get("jobs", name))

    def events(self, name: str) -> list[tuple[str, str]]:
        """Return reason and note of the events of a GPUJob."""
        return [
            (event["reason"], event["note"])
            for event in self.api.all("events")
            if event["regarding"]["name"] == name
        ]

    def wait_event(self, name: str, reason: str, count: int = 1) -> list[str]:
        """Wait for ``count`` events with this reason; return their notes."""

        def look() -> list[str] | None:
            notes = [note for each, note in self.events(name) if each == reason]
            return notes if len(notes) >= count else None

        return eventually(f"{count} events {reason}", look)

    def wait_until_idle(self) -> None:
        """Wait until the operator writes no more."""
        before = -1
        while before != len(self.api.writes):
            before = len(self.api.writes)
            time.sleep(QUIET_SECONDS)


@contextmanager
def running(operator: Operator) -> Iterator[Operator]:
    """Run an operator until the end of the block; it must end without an error."""
    operator.start()
    try:
        yield operator
    finally:
        status = operator.stop()
    assert status == 0, operator.log
    # An error of the API server is a line in the log; a stack trace is a fault of the operator.
    assert "Traceback" not in operator.log, operator.log

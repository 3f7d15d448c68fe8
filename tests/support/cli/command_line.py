"""Run ``gputopo`` as users do, and return its output and exit status."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from gputopo_cli.__main__ import run


@dataclass(frozen=True, slots=True)
class Done:
    """Exit status and output of a command line."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The JSON that it wrote."""
        return json.loads(self.out)


Command = Callable[..., Done]


def command_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Return a function that runs one line in this process, without the machine's kubeconfig."""
    monkeypatch.setenv("KUBECONFIG", "/nonexistent/kubeconfig")

    def gputopo(line: str, *more: str, stdin: bytes = b"", program: str = "gputopo") -> Done:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        status = run([*line.split(), *more], program)
        out, err = capsys.readouterr()
        return Done(status, out, err)

    return gputopo


def process(
    *arguments: str, program: str = "gputopo", stdin: bytes = b"", **environment: str
) -> Done:
    """Run the installed program."""
    done = subprocess.run(
        [os.path.join(os.path.dirname(sys.executable), program), *arguments],  # noqa: PTH118, PTH120
        input=stdin,
        capture_output=True,
        check=False,
        env={**os.environ, "KUBECONFIG": "/nonexistent/kubeconfig", **environment},
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

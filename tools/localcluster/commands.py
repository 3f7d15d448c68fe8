"""Run other programs; errors name the program and have its output."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO

from localcluster.errors import ClusterError

_SHOWN_LINES = 25
_TIED = ("setpriv", "--pdeathsig", "KILL")
_CONTAINING = (
    *("unshare", "--mount", "--propagation=private", "--pid", "--fork", "--kill-child"),
    "--mount-proc",
)


def run(
    argv: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: str | None = None,
    input_file: Path | None = None,
) -> str:
    """Run a program to its end.

    Args:
        argv: the program and its arguments.
        env: its environment, in which the program is also searched.
        cwd: its working directory.
        stdin: its input.
        input_file: file with its input, in place of `stdin`.

    Returns:
        Its standard output.

    Raises:
        ClusterError: it is not installed, or it failed; the text holds the end of its output.
    """
    words = [str(word) for word in argv]
    program = _inner(words)[0]
    if shutil.which(program, path=(env or os.environ).get("PATH")) is None:
        raise ClusterError(f"{program}: not installed; run tools/setup first")
    with _opened(input_file) as file:
        done = subprocess.run(
            words,
            env=env,
            cwd=cwd,
            input=stdin,
            stdin=file,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode != 0:
        raise ClusterError(failure_text(words, done.returncode, done.stderr or done.stdout))
    return done.stdout


def succeeds(argv: Sequence[str | Path], *, env: Mapping[str, str] | None = None) -> bool:
    """Run a program for its exit status alone."""
    words = [str(word) for word in argv]
    return subprocess.run(words, env=env, capture_output=True, check=False).returncode == 0


def tied_to_this(argv: Sequence[str | Path]) -> list[str | Path]:
    """The command line of a program that is killed when the calling thread ends.

    So it does not continue after SIGKILL of this process.
    """
    return [*_TIED, *argv]


def contained(argv: Sequence[str | Path]) -> list[str | Path]:
    """The same for a program with child processes and mounts, which end with it; needs root."""
    return [*_TIED, *_CONTAINING, *argv]


def _inner(words: Sequence[str]) -> Sequence[str]:
    """The program that a user knows, without those that end or contain it."""
    for prefix in (_TIED, _CONTAINING):
        if tuple(words[: len(prefix)]) == prefix:
            words = words[len(prefix) :]
    return words


def _opened(file: Path | None) -> AbstractContextManager[IO[bytes] | None]:
    return nullcontext() if file is None else file.open("rb")


def failure_text(words: Sequence[str], status: int, output: str) -> str:
    """The message about a failed program: its name, its status and the end of its output."""
    tail = "\n".join(f"    {line}" for line in output.strip().splitlines()[-_SHOWN_LINES:])
    return f"`{' '.join(_inner(words)[:6])}` failed with status {status}\n{tail}".rstrip()

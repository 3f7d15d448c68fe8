"""Run other programs; errors name the program and have its output."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from localcluster.errors import ClusterError

_SHOWN_LINES = 25


def run(
    argv: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: str | None = None,
) -> str:
    """Run a program to its end.

    Returns:
        Its standard output.

    Raises:
        ClusterError: it is not installed, or it failed; the text holds the end of its output.
    """
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(
            words, env=env, cwd=cwd, input=stdin, capture_output=True, text=True, check=False
        )
    except FileNotFoundError as error:
        raise ClusterError(f"{words[0]}: not installed; run tools/setup first") from error
    if done.returncode != 0:
        raise ClusterError(failure_text(words, done.returncode, done.stderr or done.stdout))
    return done.stdout


def succeeds(argv: Sequence[str | Path]) -> bool:
    """Run a program for its exit status alone."""
    words = [str(word) for word in argv]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def failure_text(words: Sequence[str], status: int, output: str) -> str:
    """The message about a failed program: its name, its status and the end of its output."""
    tail = "\n".join(f"    {line}" for line in output.strip().splitlines()[-_SHOWN_LINES:])
    return f"`{' '.join(words[:6])}` failed with status {status}\n{tail}".rstrip()

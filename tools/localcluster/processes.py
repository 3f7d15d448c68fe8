"""Start and end long-running processes, and identify them safely later."""

import json
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from localcluster.errors import ClusterError

_PROC = Path("/proc")
_FORK_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process; its start time distinguishes it from a later one with the same number.

    Attributes:
        pid: the number in this pid namespace.
        start_ticks: clock ticks after boot at which it started, field 22 of /proc/PID/stat.
        boot_id: which boot of the machine that was.
    """

    pid: int
    start_ticks: int
    boot_id: str


def parse_stat(text: str) -> tuple[str, int]:
    """State letter and start time in clock ticks from the text of /proc/PID/stat.

    The name, in brackets, may itself hold spaces and brackets; so count from the last bracket.
    """
    fields = text[text.rindex(")") + 1 :].split()
    return fields[0], int(fields[19])


def identify(pid: int) -> ProcessIdentity | None:
    """Identity of the process with this number; None if there is none or it is a zombie."""
    try:
        state, start_ticks = parse_stat((_PROC / str(pid) / "stat").read_text())
    except (FileNotFoundError, ProcessLookupError):
        return None
    if state in "ZX":
        return None
    boot_id = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    return ProcessIdentity(pid, start_ticks, boot_id)


def is_running(identity: ProcessIdentity) -> bool:
    """Whether exactly this process still runs."""
    return identify(identity.pid) == identity


def start(argv: Sequence[str | Path], log: Path, env: Mapping[str, str]) -> ProcessIdentity:
    """Start a process in a new session, with both outputs appended to `log`."""
    words = [str(word) for word in argv]
    outputs = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    pid = os.posix_spawnp(
        words[0],
        words,
        dict(env),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), outputs, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        # Python ignores this signal; its children are not to inherit that.
        setsigdef=[signal.SIGPIPE],
    )
    identity = identify(pid)
    if identity is None:
        raise ClusterError(f"{words[0]} ended at once; see {log}")
    return identity


def start_namespace(
    unshare: Sequence[str], program: Sequence[str | Path], log: Path, env: Mapping[str, str]
) -> ProcessIdentity:
    """Start a program as first process of a pid namespace, and identify it.

    When it ends, the kernel ends every process of the namespace.

    Args:
        unshare: options of the program unshare for more namespaces.
        program: the program and its arguments.
        log: file of its outputs.
        env: its environment.

    Raises:
        ClusterError: it ended at once; the text has the end of its output.
    """
    own = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    outer = start([*own, *unshare, *program], log, env)
    deadline = time.monotonic() + _FORK_SECONDS
    while is_running(outer) and time.monotonic() < deadline:
        child = first_child(outer.pid)
        identity = identify(child) if child is not None else None
        if identity is not None:
            return identity
        time.sleep(0.01)
    raise ClusterError(f"{program[0]} did not start:\n{end_of(log)}")


def end(identity: ProcessIdentity, patience_seconds: float) -> None:
    """Send SIGTERM, and SIGKILL after the given time; wait until the process has ended."""
    if patience_seconds > 0:
        _signal(identity, signal.SIGTERM)
        if _gone_within(identity, patience_seconds):
            return
    _signal(identity, signal.SIGKILL)
    if not _gone_within(identity, 30.0):
        raise ClusterError(f"process {identity.pid} does not end, not even by SIGKILL")


def end_of(log: Path) -> str:
    """The last lines of a process's output, for an error."""
    return "\n".join(f"    {line}" for line in log.read_text().splitlines()[-15:])


def first_child(pid: int) -> int | None:
    """Number of the first child of a process, if there is one."""
    try:
        children = (_PROC / str(pid) / "task" / str(pid) / "children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(children[0]) if children else None


class ProcessFiles:
    """The processes of one cluster, each in a small file named after its part."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, name: str) -> Path:
        """The file of the process of this name."""
        return self._folder / f"{name}.json"

    def remember(self, name: str, identity: ProcessIdentity) -> None:
        """Store the identity under this name."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self.path(name).write_text(json.dumps(asdict(identity)))

    def recall(self, name: str) -> ProcessIdentity | None:
        """The process of this name if it runs; None if never started, ended, or replaced."""
        try:
            identity = ProcessIdentity(**json.loads(self.path(name).read_text()))
        except FileNotFoundError:
            return None
        return identity if is_running(identity) else None

    def end(self, name: str, patience_seconds: float) -> None:
        """End the process of this name, if it runs, and forget it."""
        identity = self.recall(name)
        if identity is not None:
            end(identity, patience_seconds)
        self.path(name).unlink(missing_ok=True)


def _signal(identity: ProcessIdentity, number: signal.Signals) -> None:
    # A pidfd names one process for good: between the check and the signal no other can take its
    # number.
    try:
        handle = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return
    try:
        if is_running(identity):
            signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return
    finally:
        os.close(handle)


def _gone_within(identity: ProcessIdentity, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while is_running(identity):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True

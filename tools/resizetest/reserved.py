"""Lets one program at a time use a node of the local cluster."""

import fcntl
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def reserved(
    node: str | None, say: Callable[[str], None], folder: Path | None = None
) -> Iterator[None]:
    """Reserve a node inside the block; wait as long as another program has it.

    Jobs of another experiment would use the CPUs of the node, and would end the samples of the
    agent. The kernel releases the node when the program ends.

    Args:
        node: None for no node.
        say: gets a text if it has to wait.
        folder: of the files that are locked; by default that for temporary files.
    """
    if node is None:
        yield
        return
    path = (folder or Path(tempfile.gettempdir())) / f"gputopo-resize-{node}.lock"
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting: another experiment uses the node {node} ({path} is locked)")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield

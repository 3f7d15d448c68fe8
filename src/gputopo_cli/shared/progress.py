"""Show the progress of simulations."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress

from gputopo_simulate.progress import ProgressCallback


@contextmanager
def progress_bar() -> Iterator[ProgressCallback | None]:
    """Show a bar on standard error. If standard error is not a terminal, yield None."""
    if not sys.stderr.isatty():
        yield None
        return
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("jobs", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)

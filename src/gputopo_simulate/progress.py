"""How the simulators report progress to the command line."""

from collections.abc import Callable
from typing import TypeAlias

ProgressCallback: TypeAlias = Callable[[int, int], None]
"""Called after jobs have finished: with the number of finished jobs and of all jobs."""

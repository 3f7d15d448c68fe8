"""Callback type by which the simulators report progress to the command line."""

from collections.abc import Callable
from typing import TypeAlias

ProgressCallback: TypeAlias = Callable[[int, int], None]
"""Called after jobs finish. The arguments are the number of finished jobs and of all jobs."""

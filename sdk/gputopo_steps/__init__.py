"""Reports the steps of a training program to gputopo, which chooses GPUs for the program.

``step`` and ``report`` never block and never raise. Without the environment variable
``GPUTOPO_STEPS_SOCKET``, which gputopo sets in containers with GPUs, they do nothing.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys

from gputopo_steps.reporter import Reporter

__all__ = ["report", "step"]

_reporter = Reporter(os.environ, sys.modules)


def step(samples: int | None = None) -> None:
    """Count one optimizer step, and send the count at most once a second.

    Several threads may call this function; the steps of all threads count.

    Args:
        samples: number of training samples of this step in all ranks, as an ``int``. After a step
            without this number, gputopo no longer counts samples. A tensor is treated as missing,
            because reading its value could block until the GPU is ready.
    """
    _reporter.step(samples)


def report(steps: int, samples: int | None = None) -> None:
    """Report the steps that the program itself counts; use either this function or ``step``.

    Args:
        steps: optimizer steps since the start of training, as an ``int``. A smaller number than
            before begins a new run. Negative numbers and other types are ignored.
        samples: training samples of all these steps in all ranks.
    """
    _reporter.report(steps, samples)


atexit.register(_reporter.flush)
with contextlib.suppress(AttributeError):  # Windows has no fork
    os.register_at_fork(after_in_child=_reporter.restart)

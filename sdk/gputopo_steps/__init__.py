"""Reports the steps of a training program to gputopo, which chooses its GPUs.

``step`` and ``report`` never block and never raise. Without the environment variable
``GPUTOPO_STEPS_SOCKET``, which gputopo sets in its containers, they do nothing.
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

    Threads may call this: all their steps count.

    Args:
        samples: number of samples of this step in all ranks. Samples are reported only if every
            step has a number. Tensors are ignored, because to read one can wait for the GPU.
    """
    _reporter.step(samples)


def report(steps: int, samples: int | None = None) -> None:
    """Report a count that the caller keeps; use either this or ``step``.

    Args:
        steps: optimizer steps since the start of training, as an ``int``. A smaller number than
            before begins a new run. Negative numbers and other types are ignored.
        samples: samples of all these steps in all ranks.
    """
    _reporter.report(steps, samples)


atexit.register(_reporter.flush)
with contextlib.suppress(AttributeError):  # Windows has no fork
    os.register_at_fork(after_in_child=_reporter.restart)

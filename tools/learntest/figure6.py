"""Slowdowns of three jobs beside each other, as SC '17 measured them (section 3, figure 6). Pure.

The figures are those of the authors' tables for AlexNet with two GPUs. A job with a small batch
communicates much. So it slows other jobs down, and is slowed down. A job with a big batch is hardly
slowed down, but it slows others down. As in figure 6, a slowdown is the time beside the other job
divided by the time alone on one socket. The tool gives these slowdowns to the training jobs only.
"""

from collections.abc import Mapping
from importlib.resources import files
from itertools import product
from typing import Final

from gputopo_simulate.sc17.profiles import JobKind, Sockets, parse_profiles

GPUS: Final = 2

JOBS: Final[Mapping[str, JobKind]] = {
    "noisy-a": JobKind("bvlc_alexnet", 1, GPUS),
    "noisy-b": JobKind("bvlc_alexnet", 4, GPUS),
    "quiet": JobKind("bvlc_alexnet", 128, GPUS),
}
"""Workloads of the experiment: AlexNet with the batch sizes 1, 4 and 128."""


def percents() -> dict[str, dict[str, float]]:
    """Return how much longer each workload runs beside each other workload, in percent.

    A job that was measured a little faster beside another job has 0 %.
    """
    data = files("gputopo_simulate.sc17") / "data"
    measured = parse_profiles(
        *((data / name).read_text() for name in ("sc17_solo.csv", "sc17_collocation.csv"))
    )
    found: dict[str, dict[str, float]] = {own: {} for own in JOBS}
    for own, other in product(JOBS, JOBS):
        alone = measured.alone[JOBS[own], Sockets.ONE]
        ratio = measured.beside[JOBS[own], JOBS[other]] / alone
        found[own][other] = round(max(0.0, 100 * (ratio - 1)), 1)
    return found

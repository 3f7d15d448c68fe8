"""The mixes of jobs whose throughput is compared with that of GPU-proportional CPUs. Pure.

The node has 1,200m CPU for the jobs and 8 GPUs, so a job with 2 GPUs has a share of 300m. An image
needs about 0.33 ms of a CPU. With its share:

- ``images`` makes 9 steps per second of 96 images, and could make 50;
- ``language`` decodes nothing, and makes 10 steps per second with any CPUs.

In the mix ``gain``, the two language jobs need 50m each, their floor. The others get 550m each in
place of 300m, so the predicted gain is (2 * 550 / 300 + 2) / 4 = 1.42.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from learntest import laws

CAPACITY_MILLI_CPU: Final = 1200
"""CPUs that the node has for the jobs. A pod without work requests the others."""

NODE_GPUS: Final = 8
GPUS: Final = 2
"""GPUs of each job."""

FLOOR_MILLI_CPU: Final = 50
"""CPUs with which each job starts."""

PORT: Final = 9090


@dataclass(frozen=True, slots=True)
class Workload:
    """A training program, and how gputopo measures it.

    Attributes:
        law: see ``tools/images/trainer``.
        milli_cpu: CPUs of the run that is measured; gputopo measures up to twice as many.
    """

    name: str
    law: Mapping[str, Any]
    milli_cpu: int


@dataclass(frozen=True, slots=True)
class Mix:
    """Jobs that run together on one node.

    Attributes:
        workloads: one for each job.
        least_gain: the least sum of normalised throughput, for each job.
    """

    name: str
    workloads: Sequence[Workload]
    least_gain: float


_PORT: Final = {"port": PORT}
IMAGES: Final = Workload(
    "images", laws.cpu_law(1, seconds=0.02, workers=2, images=96) | _PORT, milli_cpu=400
)
LANGUAGE: Final = Workload("language", laws.plain_law(2) | _PORT, milli_cpu=200)
WORKLOADS: Final = (IMAGES, LANGUAGE)

MIXES: Final = (
    Mix("gain", (IMAGES, IMAGES, LANGUAGE, LANGUAGE), 1.3),
    Mix("equal", (IMAGES, IMAGES, IMAGES, IMAGES), 0.98),
    Mix("gpu-bound", (LANGUAGE, LANGUAGE, LANGUAGE, LANGUAGE), 0.98),
)


def measured_together(
    workloads: Sequence[Workload] = WORKLOADS, milli_cpu: int = CAPACITY_MILLI_CPU
) -> list[list[Workload]]:
    """Return groups of workloads that can be measured at the same time on a node.

    The node has CPUs for twice the limits of all workloads of a group.
    """
    groups: list[list[Workload]] = []
    for one in workloads:
        for group in groups:
            if 2 * (one.milli_cpu + sum(each.milli_cpu for each in group)) <= milli_cpu:
                group.append(one)
                break
        else:
            groups.append([one])
    return groups

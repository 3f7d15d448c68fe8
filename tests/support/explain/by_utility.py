"""A pod that the extender's own code has placed by utility, beside three jobs."""

from gputopo.catalogue import named
from gputopo.utility.interference import RunningNeighbour, SlowdownTable, WorkloadKind
from gputopo.utility.surroundings import job_surroundings
from gputopo_scheduling.surroundings import NodeSurroundings
from support.builders.objects import Document
from support.builders.topologies import gpus
from support.explain.placed import DGX1, placed_pod

OWN, NOISY = WorkloadKind("default/own"), WorkloadKind("default/noisy")
UNKNOWN, FAR = WorkloadKind(""), WorkloadKind("default/far")
SLOWDOWNS = SlowdownTable(
    {(OWN, NOISY): 1.24, (NOISY, OWN): 1.1, (OWN, FAR): 1.0, (NOISY, NOISY): 1.6},
    {(OWN, FAR): 1.03, (FAR, OWN): 1.0},
)
"""Pairs with an unknown workload have the median of all: 17 %."""

BUSY = (0, 1, 2, 4, 5)
"""GPUs 0 to 3 are on one socket, and 4 to 7 on the other."""


def pod_by_utility(*, minimum: str | None = "50", name: str = "train") -> Document:
    """Return a pod of one GPU. It gets GPU 6, beside a noisy and an unknown job."""
    annotations = {"gputopo.io/policy": "Utility"}
    if minimum is not None:
        annotations["gputopo.io/min-utility-percent"] = minimum
    running = (
        RunningNeighbour(FAR, gpus(0, 1, 2, 3)),
        RunningNeighbour(NOISY, gpus(4)),
        RunningNeighbour(UNKNOWN, gpus(5)),
    )
    return placed_pod(
        2,
        name=name,
        topology=DGX1,
        busy=BUSY,
        annotations=annotations,
        surroundings=job_surroundings(OWN, SLOWDOWNS, [DGX1, named("pcie-8gpu")]),
        running=NodeSurroundings(running),
    )

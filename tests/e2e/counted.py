"""The first run of a training job whose traffic hardware counters show.

It takes minutes until enough is known about it. Meanwhile tests that leave its node alone run, see
the fixture ``beside_counters``.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from gputopo.api.measuring import MeasuringRequest
from learning import Learning, learning_in
from learntest import laws
from learntest.manifests import Run
from localcluster.access import NodeAccess
from localcluster.settings import DRIVER
from showcase.install import Installed

GPUS = 3
PROFILE = "counted"
MB_PER_S = 510
"""What each end of an edge sends: 2 % of an NVLink, and 1 % of two. Less is taken for silence."""

_FOLDER = str(DRIVER / "lib/counters.d")


@dataclass(slots=True)
class Counted:
    """A namespace with the job.

    Attributes:
        runs: the first run, which is started, and the second one.
        stack: removes the namespace.
    """

    learning: Learning
    runs: tuple[Run, Run]
    stack: ExitStack

    def remove(self) -> None:
        """Remove the namespace; its node is idle afterwards."""
        self.stack.close()


@contextmanager
def counted_on(installed: Installed, nodes: NodeAccess, node: str) -> Iterator[Counted]:
    """Start the first run on a node with NVLinks, and remove it at the end at the latest."""
    topology_conf = nodes.run(node, "cat", str(DRIVER / "lib/topology.conf"))
    with ExitStack() as stack:
        learning = stack.enter_context(learning_in(installed, "counters"))
        runs = _run(1, node, topology_conf), _run(2, node, topology_conf)
        learning.start(runs[0])
        yield Counted(learning, runs, stack)


def _run(number: int, node: str, topology_conf: str) -> Run:
    traffic = laws.traffic_law(topology_conf, MB_PER_S, _FOLDER)
    law = laws.plain_law(number, traffic=traffic)
    request = MeasuringRequest(profile=PROFILE)
    return Run(f"{PROFILE}-{number}", law, node, gpus=GPUS, measuring=request, folder=_FOLDER)

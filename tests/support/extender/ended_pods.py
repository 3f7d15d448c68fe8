"""A ledger of one node whose pods end, and whose agent reports what it has seen."""

from collections.abc import Mapping

from gputopo.api.annotations import GpusAnnotation
from gputopo.api.names import GPUS_ANNOTATION
from gputopo.catalogue import named
from gputopo_cluster.topologies import parse_gpu_node
from gputopo_cluster.usage import NodeUsage
from gputopo_extender.fencing.decide import decide
from gputopo_extender.state.decision import Decision
from gputopo_extender.state.ledger import Ledger
from gputopo_kube.pods import PodView
from gputopo_scheduling.evaluation import Evaluation, Misfit, evaluation
from gputopo_scheduling.node_fits import evaluate_states, match_on
from support.builders.objects import Document, at_version, container_states, pod, topology_object
from support.builders.requests import pod_view, request_in, request_of

DGX = named("dgx1-v100", node="n1")
BOUND, DELETED, LATER = 10, 20, 30


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class World:
    """A ledger of one node, whose agent reports the pods' version unless expected otherwise."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.ledger = Ledger(self.clock)
        self.report(BOUND)

    def report(
        self, version: int | None, held: Mapping[int, str] | None = None, *, deleted: bool = False
    ) -> None:
        """Let the agent report the users of GPUs and the version of the pods that it has seen."""
        marked = held if deleted and held else ()
        document = topology_object("n1", DGX, used_by=held, deleted=marked, pods_version=version)
        self.ledger.put_topology(parse_gpu_node(document))

    def put(self, document: Document, version: int = BOUND) -> None:
        """Show a pod by the watch."""
        self.ledger.put_pod(pod_view(at_version(document, version)))

    def delete(self, document: Document, version: int = DELETED) -> None:
        """Show the deletion of a pod by the watch."""
        last = pod_view(at_version(document, version))
        self.ledger.drop_pod(last.uid, last)

    @property
    def usage(self) -> NodeUsage:
        """Usage of the node."""
        found = self.ledger.usage("n1")
        assert isinstance(found, NodeUsage)
        return found

    def requested(self, gpus: int) -> Evaluation:
        """Evaluate a pod with this number of GPUs."""
        states = [self.ledger.states().get("n1")]
        return evaluation(["n1"], states, evaluate_states(states, request_of(gpus)))


def bound(name: str = "old", *gpus: int, phase: str = "Running", states: str = "") -> Document:
    uuids = [DGX.gpus[index].uuid for index in gpus or (0, 1)]
    annotation = GpusAnnotation(
        uid=f"uid-{name}", node="n1", generation=1, containers={"main": uuids}
    )
    document = pod(
        name,
        len(uuids),
        node="n1",
        phase=phase,
        annotations={GPUS_ANNOTATION: annotation.dump()},
    )
    document["status"]["containerStatuses"] = container_states(*states.split())
    return document


RUNNING = bound(states="running")
ENDED = bound(phase="Succeeded", states="terminated")


def reserve(world: World, document: Document) -> Decision:
    """Reserve GPUs of the node for a pod, as bind does."""
    request = request_in(pod_view(document))
    match = match_on(world.usage.state, request)
    assert not isinstance(match, Misfit)
    decision = decide(
        pod_view(document),
        request,
        match,
        node="n1",
        usage=world.usage,
        compared=None,
    )
    world.ledger.reservations.reserve(decision)
    return decision


def list_pods(world: World, version: int, *pods: PodView) -> None:
    """Replace the pods by a list of this version."""
    world.ledger.replace_pods(pods, epoch=world.ledger.begin_pod_list(), version=version)

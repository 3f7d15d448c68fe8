"""Ledgers of a node n1 with pods, and decisions about its GPUs."""

from gputopo.api.annotations import GpusAnnotation
from gputopo.api.names import GPUS_ANNOTATION
from gputopo.catalogue import named
from gputopo_cluster.claims import Claim
from gputopo_cluster.topologies import parse_gpu_node
from gputopo_cluster.usage import NodeUsage
from gputopo_extender.fencing.decide import decide
from gputopo_extender.state.decision import Decision
from gputopo_extender.state.ledger import Ledger
from gputopo_scheduling.evaluation import Evaluation, Misfit, evaluation
from gputopo_scheduling.node_fits import evaluate_states, match_on
from support.builders.objects import Document, pod, topology_object
from support.builders.requests import pod_view, request_in

DGX = named("dgx1-v100", node="n1")
UUIDS = [gpu.uuid for gpu in DGX.gpus]


def ledger_with(*pods: Document, **topology: object) -> Ledger:
    """Return a ledger with the node n1 and these pods."""
    ledger = Ledger()
    ledger.put_topology(parse_gpu_node(topology_object("n1", DGX, **topology)))  # type: ignore[arg-type]
    for each in pods:
        ledger.put_pod(pod_view(each))
    return ledger


def usage(ledger: Ledger) -> NodeUsage:
    """Return the usage of n1."""
    found = ledger.usage("n1")
    assert isinstance(found, NodeUsage)
    return found


def decision_for(document: Document, ledger: Ledger) -> Decision:
    """Return a decision that gives GPUs of n1 to the pod."""
    request, here = request_in(pod_view(document)), usage(ledger)
    match = match_on(here.state, request)
    assert not isinstance(match, Misfit)
    return decide(
        pod_view(document),
        request,
        match,
        node="n1",
        usage=here,
        compared=None,
    )


def requested(nodes: list[str], ledger: Ledger, document: Document) -> Evaluation:
    """Evaluate the pod on these nodes."""
    states = [ledger.states().get(name) for name in nodes]
    return evaluation(nodes, states, evaluate_states(states, request_in(pod_view(document))))


def bound(name: str, *gpus: int, uid: str = "", node: str = "n1") -> Document:
    """Return a pod bound to n1; its annotation may be another pod's or another node's."""
    annotation = GpusAnnotation(
        uid=uid or f"uid-{name}",
        node=node,
        generation=1,
        containers={"main": [UUIDS[gpu] for gpu in gpus]},
    )
    return pod(name, len(gpus), node="n1", annotations={GPUS_ANNOTATION: annotation.dump()})


def claim(name: str, *gpus: int) -> Claim:
    """Return a claim of these GPUs of n1 for a pod."""
    return Claim(f"uid-{name}", "default", name, "1", "n1", tuple(UUIDS[gpu] for gpu in gpus))

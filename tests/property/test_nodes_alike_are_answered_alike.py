"""Asking once for all nodes alike gives what asking each node for itself would give."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.verbs import verbs_on
from builders import DOUBLE, SINGLE, node
from gputopo.api.annotations import GpusAnnotation
from gputopo.api.names import GPUS_ANNOTATION, RESOURCE
from gputopo.placement.model import Match, NoFit, PlacementRequest, PolicyName
from gputopo.placement.place import place
from gputopo.placement.score import Candidate, score_nodes
from gputopo.topology.model import GpuMask, NodeTopology, indices_of
from gputopo_extender.protocol import ExtenderArgs
from gputopo_extender.state.ledger import Ledger
from gputopo_extender.state.topologies import UnreadableTopology, parse_node
from gputopo_extender.state.usage import NodeUsage
from gputopo_extender.verbs.metrics import Metrics
from gputopo_extender.verbs.request import placement_request
from gputopo_kube.pods import PodView, parse_gpu_pod
from objects import Document, pod, topology_object

STRUCTURES = (
    node(0, 1, 2, 3, links={(0, 1): DOUBLE, (2, 3): SINGLE}),
    node(0, 1, 2, 5, links={(0, 5): DOUBLE}),
    node(0, 1),
)
ANNOTATIONS: tuple[dict[str, str], ...] = (
    {},
    {"gputopo.io/bandwidth-sensitivity": "Insensitive"},
    {"gputopo.io/pattern": "AllToAll", "gputopo.io/policy": "Greedy"},
    {"gputopo.io/policy": "Baseline"},
)


@dataclass(frozen=True)
class Machine:
    """A node, and what happened to it."""

    structure: int
    sick: int
    used: int
    foreign: int
    unreadable: bool
    torn: bool


machines = st.builds(
    Machine,
    structure=st.integers(0, len(STRUCTURES) - 1),
    sick=st.sampled_from([0, 0, 0, 1, 3]),
    used=st.integers(0, 15),
    foreign=st.sampled_from([0, 0, 0, 1, 2]),
    unreadable=st.sampled_from([False] * 7 + [True]),
    torn=st.sampled_from([False] * 7 + [True]),
)


def trimmed(document: Document) -> PodView:
    found = parse_gpu_pod(document, RESOURCE)
    assert found is not None
    return found


def tell(ledger: Ledger, name: str, machine: Machine) -> None:
    """Tell the ledger of a node and its pods, all of them known by their node's name."""
    if machine.unreadable:
        ledger.put_topology(UnreadableTopology(name, "links[]: (0, 1) is missing"))
        return
    topology = STRUCTURES[machine.structure]
    sick = [index for index in indices_of(topology.mask) if machine.sick >> index & 1]
    ledger.put_topology(parse_node(topology_object(name, topology, unhealthy=sick)))
    for uid in (f"uid-{name}-foreign", f"uid-{name}-torn", f"uid-{name}-holder"):
        ledger.drop_pod(uid)
    if machine.foreign:
        ledger.put_pod(trimmed(pod(f"{name}-foreign", machine.foreign, node=name)))
    if machine.torn:
        torn = {GPUS_ANNOTATION: "{"}
        ledger.put_pod(trimmed(pod(f"{name}-torn", 1, node=name, annotations=torn)))
    if used := indices_of(GpuMask(machine.used & topology.mask)):
        ledger.put_pod(trimmed(holder(name, topology, used)))


def holder(name: str, topology: NodeTopology, used: Sequence[int]) -> Document:
    annotation = GpusAnnotation(
        uid=f"uid-{name}-holder",
        node=name,
        generation=1,
        containers={"main": [gpu.uuid for gpu in topology.gpus if gpu.index in used]},
    )
    return pod(
        f"{name}-holder", len(used), node=name, annotations={GPUS_ANNOTATION: annotation.dump()}
    )


def plain(ledger: Ledger, name: str, request: PlacementRequest) -> Match | str:
    """Return the answer of one node by its book, or why it does not fit."""
    book = ledger.usage(name)
    size = request.size
    if book is None:
        return "no GPUTopology"
    if isinstance(book, UnreadableTopology):
        return f"unreadable GPUTopology: {book.reason}"
    short = (
        (book.blocked is not None, str(book.blocked)),
        (len(book.topology.gpus) < size, "too few GPUs"),
        (book.healthy.bit_count() < size, "too few healthy GPUs"),
        (book.free.bit_count() < size, "too few free GPUs"),
        (
            book.free.bit_count() - book.unknown < size,
            "GPUs held by pods of other schedulers, unobserved",
        ),
    )
    for holds, reason in short:
        if holds:
            return reason
    match = place(book.topology, book.free, request)
    assert not isinstance(match, NoFit)
    return match


def lost(book: NodeUsage, match: Match) -> int:
    free = sum(
        link.bandwidth_mb_per_s
        for link in book.topology.links
        if book.free >> link.a & 1 and book.free >> link.b & 1
    )
    return free - match.preserved_mb_per_s


@given(
    before=st.lists(machines, min_size=1, max_size=8),
    after=st.lists(machines, min_size=1, max_size=8),
    gpus=st.integers(1, 4),
    annotations=st.sampled_from(ANNOTATIONS),
)
def test_filter_and_prioritize_equal_an_evaluation_of_each_node(
    before: list[Machine], after: list[Machine], gpus: int, annotations: dict[str, str]
) -> None:
    """Also for answers kept from before the nodes changed."""
    ledger = Ledger()
    verbs = verbs_on(ledger, Metrics(ledger, []))
    document = pod("a", gpus, annotations=annotations)
    # For other pods filter answers with an error where nodes are busy that kube-scheduler sent.
    document["spec"]["schedulingGroup"] = {"podGroupName": "group"}
    request = placement_request(
        trimmed(document), resource=RESOURCE, default_policy=PolicyName.PRESERVE
    )
    assert isinstance(request, PlacementRequest)
    for state in (before, after):
        for number, machine in enumerate(state):
            tell(ledger, f"n{number}", machine)
        names = [f"n{number}" for number in reversed(range(9))]
        args = ExtenderArgs(Pod=document, NodeNames=names)
        filtered = asyncio.run(verbs.filter(args))
        wanted = {name: plain(ledger, name, request) for name in names}
        reasons = {name: it for name, it in wanted.items() if isinstance(it, str)}
        assert filtered["NodeNames"] == [name for name in names if name not in reasons]
        assert filtered["FailedNodes"] | filtered["FailedAndUnresolvableNodes"] == reasons
        assert not filtered["FailedNodes"].keys() & filtered["FailedAndUnresolvableNodes"].keys()
        assert asyncio.run(verbs.prioritize(args)) == [
            {"Host": name, "Score": score} for name, score in plain_scores(ledger, wanted, request)
        ]


def plain_scores(
    ledger: Ledger, wanted: dict[str, Match | str], request: PlacementRequest
) -> list[tuple[str, int]]:
    candidates: dict[str, Candidate] = {}
    for name, match in wanted.items():
        book = ledger.usage(name)
        if isinstance(match, Match) and isinstance(book, NodeUsage):
            candidates[name] = Candidate(match, lost(book, match))
    scores = score_nodes(candidates, sensitive=request.sensitive)
    return [(name, scores.get(name, 0)) for name in wanted]

"""The shared evaluation of equal nodes equals an evaluation of each node."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.verbs import verbs_on
from gputopo.api.annotations import GpusAnnotation
from gputopo.api.names import GPUS_ANNOTATION, RESOURCE
from gputopo.placement.model import Match, NoFit, PlacementRequest, PolicyName
from gputopo.placement.place import place
from gputopo.placement.score import Candidate, score_nodes
from gputopo.topology.model import GpuMask, NodeTopology, indices_of
from gputopo_cluster.topologies import UnreadableTopology, parse_gpu_node
from gputopo_cluster.usage import NodeUsage
from gputopo_extender.protocol import ExtenderArgs
from gputopo_extender.state.ledger import Ledger
from gputopo_extender.verbs.metrics import Metrics
from gputopo_kube.pods import PodView, parse_gpu_pod
from gputopo_scheduling.request import placement_request
from support.builders.objects import Document, pod, topology_object
from support.builders.topologies import DOUBLE, SINGLE, node

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
    """State of one node."""

    structure: int
    unhealthy: int
    used: int
    unmanaged: int
    unreadable: bool
    invalid: bool


machines = st.builds(
    Machine,
    structure=st.integers(0, len(STRUCTURES) - 1),
    unhealthy=st.sampled_from([0, 0, 0, 1, 3]),
    used=st.integers(0, 15),
    unmanaged=st.sampled_from([0, 0, 0, 1, 2]),
    unreadable=st.sampled_from([False] * 7 + [True]),
    invalid=st.sampled_from([False] * 7 + [True]),
)


def trimmed(document: Document) -> PodView:
    found = parse_gpu_pod(document, RESOURCE)
    assert found is not None
    return found


def put_node(ledger: Ledger, name: str, machine: Machine) -> None:
    """Put a node and its pods into the ledger; names of pods begin with that of the node."""
    if machine.unreadable:
        ledger.put_topology(UnreadableTopology(name, "links[]: (0, 1) is missing"))
        return
    topology = STRUCTURES[machine.structure]
    unhealthy = [index for index in indices_of(topology.mask) if machine.unhealthy >> index & 1]
    ledger.put_topology(parse_gpu_node(topology_object(name, topology, unhealthy=unhealthy)))
    for uid in (f"uid-{name}-unmanaged", f"uid-{name}-invalid", f"uid-{name}-gpu_user"):
        ledger.drop_pod(uid)
    if machine.unmanaged:
        ledger.put_pod(trimmed(pod(f"{name}-unmanaged", machine.unmanaged, node=name)))
    if machine.invalid:
        invalid = {GPUS_ANNOTATION: "{"}
        ledger.put_pod(trimmed(pod(f"{name}-invalid", 1, node=name, annotations=invalid)))
    if used := indices_of(GpuMask(machine.used & topology.mask)):
        ledger.put_pod(trimmed(gpu_user(name, topology, used)))


def gpu_user(name: str, topology: NodeTopology, used: Sequence[int]) -> Document:
    annotation = GpusAnnotation(
        uid=f"uid-{name}-gpu_user",
        node=name,
        generation=1,
        containers={"main": [gpu.uuid for gpu in topology.gpus if gpu.index in used]},
    )
    return pod(
        f"{name}-gpu_user", len(used), node=name, annotations={GPUS_ANNOTATION: annotation.dump()}
    )


def plain(ledger: Ledger, name: str, request: PlacementRequest) -> Match | str:
    """Return the match on one node by its usage, or the reason why the pod does not fit."""
    usage = ledger.usage(name)
    size = request.size
    if usage is None:
        return "no GPUTopology"
    if isinstance(usage, UnreadableTopology):
        return f"unreadable GPUTopology: {usage.reason}"
    short = (
        (usage.blocked is not None, str(usage.blocked)),
        (len(usage.topology.gpus) < size, "too few GPUs"),
        (usage.healthy.bit_count() < size, "too few healthy GPUs"),
        (usage.free.bit_count() < size, "too few free GPUs"),
        (
            usage.free.bit_count() - usage.unknown < size,
            "the agent does not yet report which GPUs other schedulers' pods use",
        ),
    )
    for holds, reason in short:
        if holds:
            return reason
    match = place(usage.topology, usage.free, request)
    assert not isinstance(match, NoFit)
    return match


def lost(usage: NodeUsage, match: Match) -> int:
    free = sum(
        link.bandwidth_mb_per_s
        for link in usage.topology.links
        if usage.free >> link.a & 1 and usage.free >> link.b & 1
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
    """The cached evaluations of earlier node states must not be used."""
    ledger = Ledger()
    verbs = verbs_on(ledger, Metrics(ledger, []))
    document = pod("a", gpus, annotations=annotations)
    # For pods of no group, filter returns an error if busy nodes were offered.
    document["spec"]["schedulingGroup"] = {"podGroupName": "group"}
    request = placement_request(
        trimmed(document), resource=RESOURCE, default_policy=PolicyName.PRESERVE
    )
    assert isinstance(request, PlacementRequest)
    for state in (before, after):
        for number, machine in enumerate(state):
            put_node(ledger, f"n{number}", machine)
        names = [f"n{number}" for number in reversed(range(9))]
        args = ExtenderArgs(Pod=document, NodeNames=names)
        filtered = asyncio.run(verbs.filter(args))
        expected = {name: plain(ledger, name, request) for name in names}
        reasons = {name: it for name, it in expected.items() if isinstance(it, str)}
        assert filtered["NodeNames"] == [name for name in names if name not in reasons]
        assert filtered["FailedNodes"] | filtered["FailedAndUnresolvableNodes"] == reasons
        assert not filtered["FailedNodes"].keys() & filtered["FailedAndUnresolvableNodes"].keys()
        assert asyncio.run(verbs.prioritize(args)) == [
            {"Host": name, "Score": score}
            for name, score in plain_scores(ledger, expected, request)
        ]


def plain_scores(
    ledger: Ledger, expected: dict[str, Match | str], request: PlacementRequest
) -> list[tuple[str, int]]:
    candidates: dict[str, Candidate] = {}
    for name, match in expected.items():
        usage = ledger.usage(name)
        if isinstance(match, Match) and isinstance(usage, NodeUsage):
            candidates[name] = Candidate(match, lost(usage, match))
    scores = score_nodes(candidates, sensitive=request.sensitive)
    return [(name, scores.get(name, 0)) for name in expected]

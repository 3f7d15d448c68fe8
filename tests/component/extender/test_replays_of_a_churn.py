"""Pods come and go on many kinds of nodes; each decision can be repeated from its annotation.

A replay gets only the annotations of the pod and the GPUTopology of its node.
"""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

from gputopo.api.known_facts import FactsAnnotation, KnownSlowdown
from gputopo.api.names import FACTS_ANNOTATION, GPUS_ANNOTATION
from gputopo.catalogue import named
from gputopo.patterns.model import PatternEdge, PatternKind, build
from gputopo.placement.model import Match, PlacementRequest, PolicyName
from gputopo.placement.place import place
from gputopo.sensitivity.resolve import Sensitivity
from gputopo.topology.model import GpuIndex, mask_of
from gputopo_cluster.topologies import GpuNode, parse_gpu_node
from gputopo_explain.placed.recorded import recorded_placement
from gputopo_explain.placed.replay import Replay, ReplayVerdict, replay
from gputopo_kube.pods import parse_pod
from support.api.server import ApiServer
from support.api.store import PODS, TOPOLOGIES
from support.builders.objects import Document, container_states, pod, topology_object
from support.explain.placed import altered, figures_of
from support.extender.service import Start

SEED: Final = 15
PLACEMENTS: Final = 200
NAMES: Final = (
    *("dgx1-v100", "dgx1-p100", "summit", "torus-2d-16", "power8-minsky", "dgx-a100"),
    *("pcie-8gpu", "g4dn.metal", "rtx-a6000-2gpu"),
)
MOST_GPUS: Final = 5
_KINDS: Final = [kind for kind in PatternKind if kind is not PatternKind.CUSTOM]


class Churn:
    """Random pods; each placed pod stays for a random number of steps."""

    def __init__(self, api: ApiServer) -> None:
        self.random = random.Random(SEED)  # noqa: S311 - repeatable, not secret
        self.api = api
        self.live: list[str] = []
        self.placed: list[Document] = []

    def new_pod(self, number: int) -> Document:
        """Return a pod with a random request."""
        gpus = self.random.randint(1, MOST_GPUS)
        annotations: dict[str, str] = {}
        if self.random.random() < 0.7:
            annotations["gputopo.io/pattern"] = self.random.choice(_KINDS)
        if gpus > 1 and self.random.random() < 0.3:
            annotations["gputopo.io/pattern"] = "Custom"
            annotations["gputopo.io/edges"] = json.dumps([*self._edges(gpus)])
        if self.random.random() < 0.5:
            annotations["gputopo.io/policy"] = self.random.choice([*PolicyName])
        if self.random.random() < 0.4:
            annotations["gputopo.io/bandwidth-sensitivity"] = self.random.choice([*Sensitivity])
        if self.random.random() < 0.4:
            low = self.random.choice([2, 12])
            fact = KnownSlowdown(percent=low + 2, low=low, high=low + 4, samples=6)
            facts = FactsAnnotation(profile="bert", source="Measured", links={0: fact})
            annotations[FACTS_ANNOTATION] = facts.dump()
        return pod(f"p{number}", gpus, annotations=annotations)

    def _edges(self, gpus: int) -> Iterator[dict[str, int]]:
        for _ in range(self.random.randint(1, 6)):
            a, b = self.random.sample(range(gpus), 2)
            yield {"from": a, "to": b, "weight": self.random.randint(1, 9)}

    def end_some(self) -> None:
        """End about as many pods as fill the cluster."""
        while len(self.live) > 12 or (self.live and self.random.random() < 0.3):
            name = self.live.pop(self.random.randrange(len(self.live)))
            self.api.change(PODS, name, _end)


def _end(document: Document) -> None:
    document["status"] = {
        "phase": "Succeeded",
        "containerStatuses": container_states("terminated"),
    }


async def churned(start: Start, api: ApiServer) -> list[Document]:
    """Return at least ``PLACEMENTS`` pods that the extender has placed."""
    for name in NAMES:
        api.put(TOPOLOGIES, topology_object(name, named(name, node=name)))
    churn, nodes = Churn(api), [*NAMES, "n1", "n2", "bare"]
    async with start() as extender:
        scheduler = extender.scheduler()
        number = 0
        while len(churn.placed) < PLACEMENTS:
            number += 1
            assert number < 3 * PLACEMENTS, "too few pods fit"
            document = churn.new_pod(number)
            api.put(PODS, document)
            offered = churn.random.sample(nodes, churn.random.randint(1, len(nodes)))
            if await scheduler.schedule(document, offered):
                churn.placed.append(api.pod(document["metadata"]["name"]))
                churn.live.append(document["metadata"]["name"])
            churn.end_some()
    return churn.placed


def node_of(api: ApiServer, document: Document) -> GpuNode:
    found = api.get(TOPOLOGIES, document["spec"]["nodeName"], "")
    assert found is not None
    node = parse_gpu_node(json.loads(json.dumps(found)))
    assert isinstance(node, GpuNode)
    return node


def replayed(document: Document, node: GpuNode) -> Replay:
    recorded = recorded_placement(parse_pod(json.loads(json.dumps(document))))
    return replay(recorded, node)


def choice(document: Document, node: GpuNode) -> tuple[int, ...] | None:
    """Return the GPUs that the core chooses with the input; None without a valid choice."""
    figures = figures_of(document)
    record = figures["replay"]
    try:
        edges = [PatternEdge(*edge) for edge in record.get("edges", [])]
        request = PlacementRequest(
            build(PatternKind(figures["pattern"]), record["size"], edges),
            figures["sensitive"],
            PolicyName(figures["policy"]),
        )
        found = place(node.topology, mask_of(map(GpuIndex, record["free"])), request)
    except ValueError:
        return None
    return found.gpus if isinstance(found, Match) else None


Alteration = Callable[[Document], Document]


def _without_a_chosen_gpu(document: Document) -> Document:
    record = figures_of(document)["replay"]
    return altered(document, replay={"free": sorted({*record["free"]} - {record["gpus"][0]})})


def _with_all_gpus_below_six_free(document: Document) -> Document:
    return altered(document, replay={"free": [0, 1, 2, 3, 4, 5]})


def _one_gpu_more(document: Document) -> Document:
    return altered(document, replay={"size": figures_of(document)["replay"]["size"] + 1})


def _as(**figures: Any) -> Alteration:
    return lambda document: altered(document, **figures)


def _other_edges(document: Document) -> Document:
    edges = figures_of(document)["replay"].get("edges", [])
    turned = [[a, b, 10 - min(9, weight)] for a, b, weight in edges]
    return altered(document, replay={"edges": turned} if edges else {})


def _other_sensitivity(document: Document) -> Document:
    return altered(document, sensitive=not figures_of(document)["sensitive"])


ALTERATIONS: Final[dict[str, Alteration]] = {
    "a chosen GPU was not free": _without_a_chosen_gpu,
    "other GPUs were free": _with_all_gpus_below_six_free,
    "one GPU more": _one_gpu_more,
    "pattern Star": _as(pattern="Star"),
    "pattern Chain": _as(pattern="Chain"),
    "policy Weakest": _as(policy="Weakest"),
    "policy Baseline": _as(policy="Baseline"),
    "policy Preserve": _as(policy="Preserve"),
    "other weights": _other_edges,
    "other sensitivity": _other_sensitivity,
}


def _with_other_uuids(document: Document) -> Document:
    """Exchange the first two GPUs of the annotation that the agent allocates by."""
    annotations = document["metadata"]["annotations"]
    gpus = json.loads(annotations[GPUS_ANNOTATION])
    gpus["containers"] = {name: [*reversed(uuids)] for name, uuids in gpus["containers"].items()}
    metadata = document["metadata"] | {
        "annotations": annotations | {GPUS_ANNOTATION: json.dumps(gpus)}
    }
    return document | {"metadata": metadata}


async def test_replay_gives_the_same_choice_for_200_placements_and_reports_altered_input(
    start: Start, api: ApiServer
) -> None:
    placed = await churned(start, api)
    assert len(placed) >= PLACEMENTS
    verdicts = Counter(replayed(each, node_of(api, each)).verdict for each in placed)
    assert verdicts == {ReplayVerdict.SAME: len(placed)}

    changed = Counter[str]()
    for document in placed:
        node = node_of(api, document)
        before = choice(document, node)
        for name, alteration in ALTERATIONS.items():
            other = alteration(document)
            if choice(other, node) != before:
                changed[name] += 1
                assert replayed(other, node).verdict is ReplayVerdict.DIFFERENT, name
        if figures_of(document)["replay"]["size"] > 1:
            changed["other UUIDs"] += 1
            assert replayed(_with_other_uuids(document), node).verdict is ReplayVerdict.DIFFERENT
    assert set(changed) == {*ALTERATIONS, "other UUIDs"}
    assert min(changed.values()) >= 3, changed

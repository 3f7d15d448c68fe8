"""Pods with random rules are placed and end in any order: no rule is broken in either direction."""

import json
from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from gputopo.api.names import AVOID_ANNOTATION
from gputopo.catalogue import named
from gputopo.placement.model import Match
from gputopo_cluster.topologies import parse_gpu_node
from gputopo_cluster.usage import NodeState, NodeUsage
from gputopo_extender.fencing.decide import decide
from gputopo_extender.state.decision import Decision
from gputopo_extender.state.ledger import Ledger
from gputopo_kube.pods import PodView
from gputopo_scheduling.node_fits import match_on
from gputopo_scheduling.restrictions import AvoidingPod, restricted_state
from support.builders.objects import Document, at_version, pod, topology_object
from support.builders.requests import pod_view, request_in

NODES = {"n1": "dgx1-v100", "n2": "pcie-8gpu", "n3": "dgx1-v100"}
TOPOLOGIES = {name: named(kind, node=name) for name, kind in NODES.items()}
SOCKET: dict[str, tuple[str, int | None]] = {
    gpu.uuid: (node, gpu.numa_node) for node, each in TOPOLOGIES.items() for gpu in each.gpus
}
APPS, TEAMS = ("a", "b", "c"), ("x", "y")
PODS = 200

Placed: TypeAlias = tuple[Document, list[str]]
"""A pod, and the UUIDs of its GPUs."""


def random_pod(chance: Random, number: int) -> Document:
    """Return a pod with random labels; half of the pods have rules."""
    labels = {"app": chance.choice(APPS), "team": chance.choice(TEAMS)}
    rules = [
        {"matchLabels": chance.choice(({"app": "a"}, {"app": "b", "team": "x"}, {"team": "y"}))}
        | ({"level": "Node"} if chance.random() < 0.2 else {})
        for _ in range(chance.choice((0, 0, 1, 2)))
    ]
    annotations = {AVOID_ANNOTATION: json.dumps(rules)} if rules else {}
    namespace = chance.choice(("one", "one", "two"))
    document = pod(
        f"p{number}",
        chance.choice((1, 1, 2, 4)),
        namespace=namespace,
        annotations=annotations,
        labels=labels,
    )
    return at_version(document, number + 1)


def place(ledger: Ledger, view: PodView, chance: Random) -> list[str] | None:
    """Reserve GPUs on a random node that fits, as bind does; return their UUIDs."""
    nodes = chance.sample([*NODES], len(NODES))
    for node, state in zip(nodes, ledger.states_for(view, nodes), strict=True):
        assert isinstance(state, NodeState)
        usage = ledger.usage(node)
        assert isinstance(usage, NodeUsage)
        assert state.key == restricted_state(usage, AvoidingPod.of(view)).key
        match = match_on(state, request_in(view))
        if isinstance(match, Match):
            decision = decide(view, request_in(view), match, node=node, usage=usage, compared=None)
            ledger.reservations.reserve(decision)
            if chance.random() < 0.5:
                ledger.put_pod(bound(view, decision))
            return [*decision.claim.gpus]
    return None


def bound(view: PodView, decision: Decision) -> PodView:
    """Return the pod after its Binding."""
    annotations = {**view.annotations, **decision.annotations}
    return replace(view, node=decision.claim.node, annotations=annotations, started=True)


def end(ledger: Ledger, uid: str) -> None:
    """Let a pod end without a process left, whether it was bound or not."""
    view = ledger.pods.get(uid)
    assert view is not None
    ledger.put_pod(replace(view, phase="Succeeded", stopped=True))
    ledger.drop_pod(uid)


def broken(pods: Iterable[tuple[Placed, Placed]]) -> list[str]:
    """Return the names of the first pods of pairs beside whose second pod they do not want to run.

    The namespace and the rules are those of the first pod, the labels those of the second.
    """
    found = []
    for (one, own), (other, theirs) in pods:
        rules = json.loads(one["metadata"]["annotations"].get(AVOID_ANNOTATION, "[]"))
        if one["metadata"]["namespace"] != other["metadata"]["namespace"]:
            continue
        for rule in rules:
            part = slice(1) if rule.get("level") == "Node" else slice(2)
            near = {SOCKET[each][part] for each in own} & {SOCKET[each][part] for each in theirs}
            labels = other["metadata"]["labels"].items()
            if near and rule["matchLabels"].items() <= labels:
                found.append(one["metadata"]["name"])
    return found


@given(seed=st.integers(0, 2**32 - 1))
def test_no_rule_is_broken(seed: int) -> None:
    chance, ledger = Random(seed), Ledger()  # noqa: S311 - not a secret
    for name, topology in TOPOLOGIES.items():
        ledger.put_topology(parse_gpu_node(topology_object(name, topology)))
    running: list[Placed] = []
    placed: list[list[str]] = []
    for number in range(PODS):
        document = random_pod(chance, number)
        view = pod_view(document)
        ledger.put_pod(view)
        uuids = place(ledger, view, chance)
        if uuids is not None:
            new = document, uuids
            # Rules and GPUs of a pod never change, so only the new pod can break a rule.
            assert broken((new, each) for each in running) == []
            assert broken((each, new) for each in running) == []
            running.append(new)
            placed.append(uuids)
        while running and chance.random() < 0.45:
            ended, _ = running.pop(chance.randrange(len(running)))
            end(ledger, ended["metadata"]["uid"])
    assert len(placed) > PODS // 4

"""Computes which GPUs an ensemble can use: those that are free, and those of its own members."""

import json
from collections.abc import Collection, Mapping
from hashlib import sha256

from gputopo.api.ensemble import GPUEnsembleSpec
from gputopo.ensemble.model import NodeGpuCount
from gputopo.runtime.messages import shortened
from gputopo_kube.node_match import is_permitted, pod_rules
from gputopo_operator.model.ensembles import ClusterGpus, Ensemble, MemberJob

LONGEST_TEXT = 4096
_MOST_NODES = 5


def usable_nodes(
    found: ClusterGpus, spec: GPUEnsembleSpec, own_pods: Collection[str]
) -> tuple[NodeGpuCount, ...]:
    """Return the nodes that all members may use, each with the GPUs that the ensemble can use.

    A pod uses GPUs from its Binding until the agent reports that its GPUs are free. A GPU that
    several pods share counts once. GPUs that are planned for members of other ensembles count as
    used.

    Args:
        found: the GPUs and pods of all nodes.
        spec: spec of the ensemble; node selectors, node affinities and tolerations of its members
            decide which nodes they may use.
        own_pods: UIDs of the pods of the members that keep their GPUs.
    """
    usages = found.cluster.without_pods(own_pods).usages
    return tuple(
        NodeGpuCount(name, max(0, usages[name].offered - found.reserved.get(name, 0)))
        for name in _permitted(found, spec)
    )


def own_pods(ensemble: Ensemble, jobs: Mapping[str, MemberJob]) -> frozenset[str]:
    """Return the UIDs of the pods whose GPUs the ensemble can use.

    These are the pods of its members, also those that have just ended or failed: the agent reports
    their GPUs as free a few seconds later. A pod that is being deleted with its GPUJob is not among
    them, because this can take any time.
    """
    owned = {name: job for name, job in jobs.items() if job.owner_uid == ensemble.uid}
    live = {job.pod.uid for job in owned.values() if job.pod and not job.deleting}
    ended = {
        each.pod_uid
        for each in ensemble.status.members
        if each.pod_uid and (job := owned.get(each.name)) and not job.deleting
    }
    return frozenset(live | ended)


def _permitted(found: ClusterGpus, spec: GPUEnsembleSpec) -> list[str]:
    """Return the names of the nodes that all members may use, sorted."""
    rules = []
    for member in spec.members:
        pod = (member.job_template.spec.get("template") or {}).get("spec")
        wanted = pod_rules(pod if isinstance(pod, dict) else {})
        if wanted not in rules:
            rules.append(wanted)
    return [
        name
        for name in sorted(found.cluster.nodes)
        if name in found.rules and all(is_permitted(each, found.rules[name]) for each in rules)
    ]


def nodes_text(nodes: Collection[NodeGpuCount]) -> str:
    """Return the GPUs of the nodes as text for people.

    >>> nodes_text([NodeGpuCount("n1", 8), NodeGpuCount("n2", 0)])
    'n1: 8, n2: 0'
    """
    text = ", ".join(f"{node.name}: {node.gpus}" for node in nodes)
    return shortened(text, LONGEST_TEXT)


def nodes_hash(nodes: Collection[NodeGpuCount]) -> str:
    """Return a hash of the GPUs of the nodes, for comparison: the text may be cut.

    Nodes without usable GPUs do not count, because a node that is lost is no longer listed.
    """
    found = json.dumps([(node.name, node.gpus) for node in nodes if node.gpus])
    return sha256(found.encode()).hexdigest()[:16]


def changed_nodes_text(before: str, nodes: Collection[NodeGpuCount]) -> str:
    """Return which nodes have other GPUs than in a former text, at most five of them.

    >>> changed_nodes_text("n1: 8, n2: 0", [NodeGpuCount("n1", 8), NodeGpuCount("n2", 4)])
    'n2: 4, before 0'
    """
    whole = before.rpartition(", ")[0] if before.endswith("...") else before
    old = dict(part.split(": ") for part in whole.split(", ") if part)
    new = {node.name: str(node.gpus) for node in nodes}
    last = max(old, default="") if before.endswith("...") else max([*old, *new], default="")
    changed = [
        f"{name}: {new.get(name, '0')}, before {old.get(name, '0')}"
        for name in sorted({*old, *new})
        if name <= last and new.get(name, "0") != old.get(name, "0")
    ]
    more = f" and {len(changed) - _MOST_NODES} more" if len(changed) > _MOST_NODES else ""
    return "; ".join(changed[:_MOST_NODES]) + more or "of nodes that are not listed"

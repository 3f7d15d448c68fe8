"""The nodes that the pod of a job may not use, and how to keep it off more nodes."""

import copy
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from gputopo_kube.document import Document
from gputopo_kube.node_match import is_permitted
from gputopo_operator.queued import QueuedJob

_NODE_NAME_FIELD: Final = "metadata.name"


def avoided_nodes(
    jobs: Iterable[QueuedJob], nodes: Collection[str], rules: Mapping[str, Document]
) -> tuple[frozenset[str], ...]:
    """Return for each job the nodes that its pod may not use.

    Most jobs have the same few rules, so each set is computed once and shared by many jobs.

    Args:
        jobs: the jobs.
        nodes: names of the nodes that report GPUs.
        rules: name, labels and taints of each Node. No job may use a node without a Node object.
    """
    known: dict[str, frozenset[str]] = {}

    def avoided(wanted: Document) -> frozenset[str]:
        key = json.dumps(wanted, sort_keys=True)
        if key not in known:
            known[key] = frozenset(
                node for node in nodes if node not in rules or not is_permitted(wanted, rules[node])
            )
        return known[key]

    return tuple(avoided(job.pod_rules) for job in jobs)


def without_nodes(affinity: Document | None, nodes: Sequence[str]) -> Document:
    """Return a node affinity that also excludes these nodes by name.

    A pod fits on a node if one term matches it, so each term gets the names. The API server accepts
    one name for each requirement.
    """
    changed = copy.deepcopy(affinity or {})
    node_affinity = changed.get("nodeAffinity") or {}
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    fields = [{"key": _NODE_NAME_FIELD, "operator": "NotIn", "values": [name]} for name in nodes]
    terms: list[Document] = required.get("nodeSelectorTerms") or [{}]
    for term in terms:
        term["matchFields"] = [*(term.get("matchFields") or ()), *fields]
    required = {"nodeSelectorTerms": terms}
    node_affinity["requiredDuringSchedulingIgnoredDuringExecution"] = required
    return {**changed, "nodeAffinity": node_affinity}

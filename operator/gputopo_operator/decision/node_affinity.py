"""Finds the nodes that a job's pod may not use, and excludes more nodes by a node affinity."""

import copy
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from gputopo_kube.document import Document
from gputopo_kube.node_match import is_permitted
from gputopo_operator.model.queued import QueuedJob

_NODE_NAME_FIELD: Final = "metadata.name"


def avoided_nodes(
    jobs: Iterable[QueuedJob], nodes: Collection[str], rules: Mapping[str, Document]
) -> tuple[frozenset[str], ...]:
    """Return for each job the nodes that its pod may not use.

    Many jobs have equal pod rules, so the function computes each set of nodes only once.

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

    Kubernetes lets a pod use a node that matches any one term, so each term must exclude the nodes.
    The API server accepts only one name in each requirement, so each node has its own requirement.
    A term without requirements matches no node, so it must not get any.
    """
    fields = [{"key": _NODE_NAME_FIELD, "operator": "NotIn", "values": [name]} for name in nodes]
    return _required(affinity, fields)


def only_node(affinity: Document | None, node: str) -> Document:
    """Return a node affinity that permits only this node, and that only if it did so before."""
    return _required(affinity, [{"key": _NODE_NAME_FIELD, "operator": "In", "values": [node]}])


def _required(affinity: Document | None, fields: Sequence[Document]) -> Document:
    changed = copy.deepcopy(affinity or {})
    node_affinity = changed.get("nodeAffinity") or {}
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = [_with_fields(term, fields) for term in required.get("nodeSelectorTerms") or ()]
    node_affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {
        "nodeSelectorTerms": terms or [{"matchFields": fields}]
    }
    return {**changed, "nodeAffinity": node_affinity}


def _with_fields(term: Document, fields: Sequence[Document]) -> Document:
    own = term.get("matchFields") or ()
    if not own and not term.get("matchExpressions"):
        return term
    return {**term, "matchFields": [*own, *fields]}

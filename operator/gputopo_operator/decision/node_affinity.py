"""Keeps the pod of a job off some nodes."""

import copy
from collections.abc import Sequence

from gputopo_kube.document import Document
from gputopo_operator.parse_queue import NODE_NAME_FIELD


def without_nodes(affinity: Document | None, nodes: Sequence[str]) -> Document:
    """Return a node affinity that also excludes these nodes by name.

    A pod fits on a node if one term matches it, so each term gets the names. The API server accepts
    one name for each requirement.
    """
    changed = copy.deepcopy(affinity or {})
    node_affinity = changed.get("nodeAffinity") or {}
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    fields = [{"key": NODE_NAME_FIELD, "operator": "NotIn", "values": [name]} for name in nodes]
    terms: list[Document] = required.get("nodeSelectorTerms") or [{}]
    for term in terms:
        term["matchFields"] = [*(term.get("matchFields") or ()), *fields]
    required = {"nodeSelectorTerms": terms}
    node_affinity["requiredDuringSchedulingIgnoredDuringExecution"] = required
    return {**changed, "nodeAffinity": node_affinity}

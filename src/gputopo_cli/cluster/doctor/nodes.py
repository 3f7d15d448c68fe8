"""Read the readiness and the resources of nodes."""

from gputopo_kube.document import Document, true_condition


def is_ready(document: Document) -> bool:
    """Return whether a node or pod has the condition Ready."""
    return true_condition(document, "Ready") is not None


def resource_amount(node: Document, part: str, resource: str) -> str:
    """Return the amount of a resource in a part of the status: capacity or allocatable."""
    return str(((node.get("status") or {}).get(part) or {}).get(resource, "0"))


def offers(node: Document, resource: str) -> bool:
    """Return whether the allocatable amount of a resource on a node is not 0."""
    return resource_amount(node, "allocatable", resource) != "0"

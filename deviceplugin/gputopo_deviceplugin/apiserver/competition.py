"""Finds other device plugins and DRA drivers for the GPUs of this node. Pure functions.

Two independent allocators could give the same GPU to two containers.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from gputopo.api.resource_names import matches_any

Document = Mapping[str, Any]


def find_competitor(
    document: Document,
    slices: Iterable[Document],
    *,
    node: str,
    resources: Collection[str],
    own_resource: str,
    drivers: Collection[str],
) -> str | None:
    """Return a message about another allocator of this node's GPUs, or None if there is none.

    Args:
        document: the Node object.
        slices: ResourceSlices.
        node: name of this node.
        resources: extended resources of other allocators; a trailing ``*`` matches any text.
        own_resource: the resource that this agent serves.
        drivers: names of DRA drivers of other allocators.
    """
    found = [
        *_resources(document, resources, own_resource),
        *_drivers(slices, drivers, node),
    ]
    if not found:
        return None
    return f"{'; '.join(found)}: another allocator serves the same GPUs; remove it from this node"


def _resources(document: Document, patterns: Collection[str], own_resource: str) -> Iterator[str]:
    allocatable = (document.get("status") or {}).get("allocatable") or {}
    for name, amount in sorted(allocatable.items()):
        if name != own_resource and str(amount) != "0" and matches_any(name, patterns):
            yield f"the node offers {amount} {name}"


def _drivers(slices: Iterable[Document], drivers: Collection[str], node: str) -> Iterator[str]:
    specs = [each.get("spec") or {} for each in slices]
    for driver in sorted(drivers):
        count = sum(
            len(spec.get("devices") or ())
            for spec in specs
            if spec.get("driver") == driver and spec.get("nodeName") == node
        )
        if count:
            yield f"ResourceSlices of DRA driver {driver} publish {count} devices of the node"

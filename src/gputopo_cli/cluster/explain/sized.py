"""CPU and memory in the explanation of a pod that gputopo sizes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from gputopo.api.names import TUNED_LABEL
from gputopo_cli.cluster.sizes.read import read_node_sizes
from gputopo_cli.cluster.sizes.report import pod_document
from gputopo_cli.shared import output
from gputopo_explain.sizes.node_sizes import NodeSizes, PodSizes
from gputopo_explain.sizes.pod_size import size_of, size_parts
from gputopo_explain.text import one_line
from gputopo_kube.document import Document
from gputopo_kube.errors import ApiError
from gputopo_kube.sync import SyncApi


@dataclass(frozen=True, slots=True)
class PodSizing:
    """CPU and memory of a pod that gputopo sizes.

    Attributes:
        sizes: the pod, with the division of its node; None if unknown.
        unknown: why the sizes are unknown; empty if they are known.
    """

    sizes: tuple[NodeSizes, PodSizes] | None = None
    unknown: str = ""


def read_sizing(
    cluster: SyncApi, pod: Document, node: str, topology: Document | None
) -> PodSizing | None:
    """Return CPU and memory of the pod; None if gputopo does not size the pod."""
    if not is_sized(pod):
        return None
    try:
        found = read_node_sizes(cluster, node, topology)
    except ApiError as error:
        return PodSizing(unknown=f"the objects of the node cannot be read: {error}")
    sizes = size_of(found, pod["metadata"]["uid"])
    if found is None or sizes is None:
        return PodSizing(
            unknown="the pod has ended, or the operator does not size pods of its kind"
        )
    return PodSizing((found, sizes))


def is_sized(pod: Mapping[str, Any]) -> bool:
    """Return whether the pod has the label of sized pods."""
    labels = pod["metadata"].get("labels") or {}
    return bool(labels.get(TUNED_LABEL) == "true")


def sizing_lines(sizing: PodSizing) -> Iterator[RenderableType]:
    """Yield the lines about CPU and memory."""
    yield Text()
    if sizing.sizes is None:
        yield Text(f"CPU and memory: unknown: {one_line(sizing.unknown)}")
        return
    parts = size_parts(*sizing.sizes)
    rows = ((part.name, part.value, one_line(part.why)) for part in parts)
    yield output.table("CPU AND MEMORY", "", "WHY", rows=rows)


def sizing_document(sizing: PodSizing | None) -> dict[str, object] | None:
    """Return CPU and memory as JSON: the keys of ``gputopo sizes``, and what was recomputed."""
    if sizing is None or sizing.sizes is None:
        return {"unknown": sizing.unknown} if sizing else None
    node, pod = sizing.sizes
    return {
        **pod_document(pod),
        "parts": [
            {"name": part.name, "value": part.value, "why": part.why}
            for part in size_parts(node, pod)
        ],
        "recomputedAgrees": pod.as_planned,
    }

"""One pod: what it requests, which GPUs it has, and the figures of its placement."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from gputopo.api.annotations import (
    AnnotationError,
    PlacementAnnotation,
    SharingFigures,
    parse_placement,
)
from gputopo.api.request import parse_request
from gputopo.api.shares import gpu_of
from gputopo.api.utility import as_number
from gputopo.patterns.declared import DeclaredPattern, resolve_pattern
from gputopo.patterns.model import PatternError, PatternKind, build
from gputopo.topology.model import GpuIndex, NodeTopology
from gputopo_explain.placed_pods import PlacedPod
from gputopo_explain.text import format_gb_per_s


@dataclass(frozen=True, slots=True)
class PodGpus:
    """The GPUs of a pod on its node, in rank order, and the pairs of them that communicate."""

    chosen: tuple[GpuIndex, ...]
    edges: tuple[tuple[GpuIndex, GpuIndex], ...]


def pod_gpus(pod: PlacedPod, topology: NodeTopology) -> PodGpus:
    """Return the GPUs of a pod; GPUs that its node does not have are left out.

    If the pattern of the pod is not valid for its GPUs, each pair may communicate.
    """
    known = topology.index_of
    uuids = (gpu_of(uuid) for uuids in pod.gpus.values() for uuid in uuids)
    chosen = tuple(known[uuid] for uuid in uuids if uuid in known)
    try:
        request = parse_request(pod.view.annotations)
        pattern = build(_kind(pod, request.pattern), len(chosen), request.edges)
    except (AnnotationError, PatternError, ValueError):
        return PodGpus(chosen, tuple(combinations(chosen, 2)))
    return PodGpus(chosen, tuple((chosen[edge.a], chosen[edge.b]) for edge in pattern.edges))


def _kind(pod: PlacedPod, declared: DeclaredPattern) -> PatternKind:
    """Return the pattern for which the GPUs were chosen, if the pod declares none.

    Raises:
        AnnotationError: if the record of the placement cannot be parsed.
        ValueError: if the pattern is unknown to this version.
    """
    placement = parse_placement(pod.view.annotations)
    if declared is DeclaredPattern.AUTO and placement is not None:
        return PatternKind(placement.pattern)
    return resolve_pattern(declared).kind


def describe_placement(placement: PlacementAnnotation) -> Iterator[tuple[str, str]]:
    """Yield the figures of a placement as pairs of label and text."""
    yield "Pattern", placement.pattern
    if placement.pattern_fact:
        yield "Pattern because of", placement.pattern_fact
    yield "Policy", placement.policy
    sensitive = "yes" if placement.sensitive else "no"
    yield "Sensitive to bandwidth", f"{sensitive} ({placement.reason})"
    if placement.fact:
        yield "Because of", placement.fact
    if placement.effective_mb_per_s is not None:
        model = f", model {placement.model}" if placement.model else ""
        yield "Effective bandwidth", f"{_gb(placement.effective_mb_per_s)}{model}"
    if placement.physical_mb_per_s is not None:
        worst, best = _gb(placement.physical_worst_mb_per_s), _gb(placement.physical_best_mb_per_s)
        text = f"{_gb(placement.physical_mb_per_s)} (model physical); worst {worst}, best {best}"
        yield "Of all GPU sets of the idle node", text
    bound = placement.aggregate_bound_mb_per_s
    limit = f", at most {_gb(bound)} is possible" if bound is not None else ""
    yield "Aggregate bandwidth", f"{_gb(placement.aggregate_mb_per_s)}{limit}"
    yield "Preserved for later jobs", _gb(placement.preserved_mb_per_s)
    if placement.utility is not None:
        yield "Utility", str(placement.utility)
        yield "Utility for the job", as_number(placement.utility.job_utility)
    if placement.sharing is not None:
        yield from _describe_share(placement.sharing)


def _describe_share(sharing: SharingFigures) -> Iterator[tuple[str, str]]:
    yield "Share", sharing.share
    yield "Beside", ", ".join(sharing.beside) or "no other pod: the GPU was idle"
    if sharing.reason:
        yield "Shared because of", sharing.reason
    if sharing.slowdown_percents:
        percents = ", ".join(f"{percent} %" for percent in sharing.slowdown_percents)
        yield "Predicted slowdowns", f"{percents} (the last is of this pod)"


def _gb(mb_per_s: int | None) -> str:
    return "unknown" if mb_per_s is None else f"{format_gb_per_s(mb_per_s)} GB/s"

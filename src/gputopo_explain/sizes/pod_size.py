"""Explains the CPUs and memory of one sized pod: what it has, its bounds, and what it would get."""

from collections.abc import Iterator
from dataclasses import dataclass

from gputopo.api.quantity import format_bytes
from gputopo.api.tuning import Amounts
from gputopo_explain.sizes.node_sizes import NodeSizes, PodSizes
from gputopo_explain.sizes.size_state import STATE_WORDS
from gputopo_explain.text import counted, format_number


@dataclass(frozen=True, slots=True)
class SizePart:
    """One line of the explanation: an amount, and what decided it."""

    name: str
    value: str
    why: str


def size_of(node: NodeSizes | None, uid: str) -> PodSizes | None:
    """Return the sizes of a pod; None if gputopo does not size the pod."""
    pods = node.pods if node else ()
    return next((pod for pod in pods if pod.view.uid == uid), None)


def size_parts(node: NodeSizes, pod: PodSizes) -> tuple[SizePart, ...]:
    """Return the explanation of a pod's amounts, from what it has to why."""
    return tuple(_parts(node, pod))


def _parts(node: NodeSizes, pod: PodSizes) -> Iterator[SizePart]:
    yield SizePart("now", _text(pod.now), "limits that kubelet has applied")
    if pod.target:
        yield SizePart("target", _text(pod.target), "newest resize, not applied yet")
    yield SizePart("floor", _text(pod.floor), "the pod was created with it and never gets less")
    if pod.share:
        gpus = counted(pod.tuned.gpus, "GPU")
        per_gpu = format_number(node.share_per_gpu.milli_cpu / 1000)
        yield SizePart(
            "share",
            _text(pod.share),
            f"{gpus} x {per_gpu} CPUs, the share of a GPU of {node.name}, within floor and maximum",
        )
    if pod.most:
        yield SizePart("maximum", _text(pod.most), _why_most(node, pod))
    if pod.curve:
        points = ", ".join(
            f"{_cpus(each.milli_cpu)}: {format_number(each.rate)}" for each in pod.curve
        )
        yield SizePart("curve", points, "measured steps/s by CPUs, from the pod's GPUProfile")
    yield SizePart("recomputed", _text(pod.planned), _why_planned(pod))
    yield SizePart("Sized", pod.state.name, _why_state(pod))


def _why_most(node: NodeSizes, pod: PodSizes) -> str:
    if pod.tuned.most_milli_cpu == (pod.most.milli_cpu if pod.most else None):
        return "requested with gputopo.io/resources-max or resources.max"
    if pod.most and pod.most.milli_cpu == node.allocatable.milli_cpu:
        return "what the node has"
    return "the most that an earlier resize has permitted"


def _why_planned(pod: PodSizes) -> str:
    agrees = "the spec has these amounts" if pod.as_planned else "DIFFERS from the spec"
    return f"{agrees}: {pod.planned_reason}"


def _why_state(pod: PodSizes) -> str:
    words = STATE_WORDS.get(pod.state.name, "")
    parts = (words, pod.state.reason, pod.state.problem)
    return "; ".join(part for part in dict.fromkeys(parts) if part)


def _text(amounts: Amounts) -> str:
    """Write amounts; memory is left out if it has no limit.

    >>> _text(Amounts(2500, 4 * 2**30)), _text(Amounts(1000, 0))
    ('2.5 CPUs, 4Gi', '1 CPU')
    """
    count = _cpus(amounts.milli_cpu)
    cpus = f"{count} CPU" if count == "1" else f"{count} CPUs"
    return f"{cpus}, {format_bytes(amounts.memory)}" if amounts.memory else cpus


def _cpus(milli_cpu: int) -> str:
    return format_number(milli_cpu / 1000)

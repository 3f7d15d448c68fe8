"""Computes with how many CPUs of its node a pod may be measured."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from gputopo.tuning.model import TunedNode, TunedPod
from gputopo.tuning.pods import held_by
from gputopo.tuning.sized import kept_for_measured


class CpusToMeasure(NamedTuple):
    """CPUs of a node for one pod that is measured, in thousandths.

    Attributes:
        share: what the node guarantees to the pod; 0 if gputopo does not size the pod.
        kept: what the node keeps for other measured pods, beyond their requests.
    """

    share: int
    kept: int


def cpus_to_measure(node: TunedNode, uid: str) -> CpusToMeasure:
    """Return the CPUs of the node for the pod with this UID, which is or will be measured.

    Example: a node has 8 CPUs and 4 GPUs. Two pods with one GPU and a request of 500m CPU each are
    measured, and the share of each pod is 2 CPUs. While the first pod is measured, the node keeps 2
    CPUs for the second pod: the requested 0.5 CPUs, and 1.5 more. So the first pod can have 6 CPUs.
    """
    node = replace(node, pods=_measuring(node.pods, uid))
    kept = kept_for_measured(node)
    others = [pod for pod in node.pods if pod.uid in kept and pod.uid != uid]
    return CpusToMeasure(
        share=kept[uid].milli_cpu if uid in kept else 0,
        kept=sum(max(0, kept[pod.uid].milli_cpu - held_by(pod).milli_cpu) for pod in others),
    )


def _measuring(pods: Sequence[TunedPod], uid: str) -> list[TunedPod]:
    """Mark the pod as measured; before the first resize, its annotations may not show this yet."""
    return [replace(pod, measuring=True) if pod.uid == uid else pod for pod in pods]

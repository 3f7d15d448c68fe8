"""Divides the storage bandwidth of a node among the pods that read data sets.

Synergy divides this bandwidth like CPUs and memory. gputopo cannot limit the bandwidth of a pod. It
assumes that each pod gets a part in proportion to its GPUs.
"""

from collections.abc import Sequence

from gputopo.tuning.model import TunedPod


def storage_part(pod: TunedPod, pods: Sequence[TunedPod]) -> float:
    """Return the part of the storage bandwidth, up to 1, that the pod gets.

    ``pods`` are all sized pods of the node. Only pods with a data set count. Example: of two pods
    with data sets, the first has 1 GPU and the second has 3. The first pod gets a quarter.
    """
    gpus = sum(each.gpus for each in pods if each.dataset is not None)
    return min(1.0, pod.gpus / gpus) if gpus else 1.0

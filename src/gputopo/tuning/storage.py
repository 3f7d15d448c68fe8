"""Divides the storage bandwidth of a node among the pods that read data sets.

Synergy divides it like CPUs and memory. It cannot be set for a running pod, so it is only assumed
that a pod gets the part of its GPUs.
"""

from collections.abc import Sequence

from gputopo.tuning.model import TunedPod


def storage_part(pod: TunedPod, pods: Sequence[TunedPod]) -> float:
    """Return the part of the storage bandwidth, up to 1, that the pod gets.

    ``pods`` are all pods of the node. Pods without a data set read nothing that counts. Example: of
    two pods with data sets, one has 1 GPU and one has 3. The first one gets a quarter.
    """
    gpus = sum(each.gpus for each in pods if each.dataset is not None)
    return min(1.0, pod.gpus / gpus) if gpus else 1.0

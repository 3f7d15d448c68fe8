"""Computes requests and limits so that a resize never changes the QoS class of a pod.

The API server rejects a resize that changes the class. A pod is Guaranteed if the CPU and the
memory of every container have request = limit; otherwise, with a request, it is Burstable. So each
resource whose request equals its limit keeps them equal, and each other resource keeps a distance.

================  ==============  ============  ================================================
CPU before        memory before   resized to    CPU and memory afterwards (request/limit)
================  ==============  ============  ================================================
2000m/2000m       8Gi/8Gi         4000m, 16Gi   4000m/4000m, 16Gi/16Gi: still Guaranteed
2000m/8000m       8Gi/8Gi         4000m, 16Gi   3999m/4000m, 16Gi/16Gi: still Burstable
2000m/2000m       8Gi/10Gi        4000m, 16Gi   4000m/4000m, 16Gi/18Gi: still Burstable
2000m/2000m       8Gi/no limit    4000m, 8Gi    4000m/4000m, 8Gi/no limit: memory is not tuned
================  ==============  ============  ================================================
"""

from typing import Final

from gputopo.api.tuning import Amounts
from gputopo.tuning.model import ContainerAmounts

_LEAST_DISTANCE_MILLI_CPU: Final = 1


def resized_spec(spec: ContainerAmounts, amounts: Amounts) -> ContainerAmounts:
    """Return ``spec`` with new amounts, in the same QoS class.

    The new CPU limit is ``amounts.milli_cpu``, because the throughput depends on the limit. A
    memory limit changes by as much as the request, so memory that does not change keeps its limit.
    """
    distance = _LEAST_DISTANCE_MILLI_CPU if spec.request.milli_cpu != spec.limit_milli_cpu else 0
    raised = amounts.memory - spec.request.memory
    return ContainerAmounts(
        request=Amounts(amounts.milli_cpu - distance, amounts.memory),
        limit_milli_cpu=amounts.milli_cpu,
        limit_memory=None if spec.limit_memory is None else spec.limit_memory + raised,
    )


def has_own_limit(spec: ContainerAmounts) -> bool:
    """Return whether the CPU limit is one that :func:`resized_spec` writes for this request."""
    if spec.limit_milli_cpu is None:
        return False
    distance = spec.limit_milli_cpu - spec.request.milli_cpu
    return 0 <= distance <= _LEAST_DISTANCE_MILLI_CPU

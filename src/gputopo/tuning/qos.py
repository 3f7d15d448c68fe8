"""Computes requests and limits so that a resize never changes the QoS class of a pod.

The API server rejects a resize that changes the class. A pod is Guaranteed if for CPU and memory of
every container the request equals the limit. A pod with other requests is Burstable. So a request
that equals its limit must stay equal, and a request below its limit must stay below it.

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
    """Return whether :func:`resized_spec` could have written this CPU limit for this request."""
    if spec.limit_milli_cpu is None:
        return False
    distance = spec.limit_milli_cpu - spec.request.milli_cpu
    return 0 <= distance <= _LEAST_DISTANCE_MILLI_CPU

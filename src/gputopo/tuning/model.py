"""Types of the input and the results of sizing the running pods of one node.

All CPU amounts are thousandths of a CPU (``milli_cpu``), all amounts of memory are bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal, NamedTuple

from gputopo.api.profile import WorkloadFacts
from gputopo.api.tuning import Amounts, ResourcesMode, TunedRecord


class ContainerAmounts(NamedTuple):
    """Requests and limits of one container; a limit is None if the container has none."""

    request: Amounts
    limit_milli_cpu: int | None
    limit_memory: int | None


@dataclass(frozen=True, slots=True)
class Dataset:
    """``GPUProfile.spec.dataset`` and ``memoryFloor``, for the memory axis of the matrix.

    Attributes:
        size: bytes of the data set.
        storage_mb_per_s: read bandwidth of the storage for this workload, if it is the only one of
            the node that reads a data set.
        memory_floor: bytes that the processes need without any cached data.
        bytes_per_step: bytes that one GPU of the job reads for one training step.
    """

    size: int
    storage_mb_per_s: int
    memory_floor: int
    bytes_per_step: int


@dataclass(frozen=True, slots=True)
class ResizeState:
    """What kubelet reports about the newest resize of a pod.

    Attributes:
        allocated: requests that kubelet counts for the pod on its node; None if not reported.
        applied: requests that are in effect in the container; None if not reported.
        problem: ``Deferred``, ``Infeasible`` or ``Error``; None if there is no problem.
        message: kubelet's text of the problem.
    """

    allocated: Amounts | None = None
    applied: Amounts | None = None
    problem: Literal["Deferred", "Infeasible", "Error"] | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class TunedPod:
    """A running pod whose container with GPUs gets its CPUs and memory from gputopo.

    Attributes:
        uid: UID of the pod.
        mode: ``Proportional`` or ``Auto``.
        gpus: number of GPUs of the container.
        spec: amounts in the spec of the pod.
        record: the pod's annotation ``gputopo.io/resources``; None if it has none, or if it cannot
            be parsed.
        unreadable: why the annotation cannot be parsed; empty if it can be parsed.
        most: upper bounds that the user has set; None without a bound.
        facts: facts of the pod's GPUProfile; None if there are none.
        dataset: None if the GPUProfile does not describe a data set: memory is then not tuned.
        measured_micro_steps_per_second: steady rate with the current CPU limit; 0 if unknown.
        profiled_micro_steps_per_second: rate with the current CPU limit, from the measurement with
            several CPU limits; 0 if this limit was not measured.
        measuring: whether the pod is being measured with several CPU limits, or has not started.
            gputopo must not resize the pod then.
        own_milli_cpu: CPU request that the pod gets back after this measurement; 0 if unknown. It
            is only shown: the pod can write it, so it does not count against other pods.
        obstacle: why the pod cannot be resized, with the remedy; empty if it can.
        rejection: the API server's message if it has rejected the newest resize, else empty.
        out_of_memory_at: memory limit at which the container was last killed for memory; 0 if it
            was not.
    """

    uid: str
    name: str
    mode: ResourcesMode
    gpus: int
    spec: ContainerAmounts
    state: ResizeState = ResizeState()
    record: TunedRecord | None = None
    unreadable: str = ""
    most_milli_cpu: int | None = None
    most_memory: int | None = None
    facts: WorkloadFacts | None = None
    dataset: Dataset | None = None
    measured_micro_steps_per_second: int = 0
    profiled_micro_steps_per_second: int = 0
    measuring: bool = False
    own_milli_cpu: int = 0
    obstacle: str = ""
    rejection: str = ""
    out_of_memory_at: int = 0


@dataclass(frozen=True, slots=True)
class PendingPod:
    """A pending pod that would fit on this node if the node had more free CPU or memory.

    Attributes:
        requests: what the pod requests.
        gpus: GPUs that the pod requests; 0 for pods without GPUs.
    """

    uid: str
    requests: Amounts
    gpus: int = 0


@dataclass(frozen=True, slots=True)
class TunedNode:
    """All that the decision about one node depends on.

    Attributes:
        now: time in UTC.
        gpus: healthy GPUs of the node, minus those of pods that are not tuned.
        allocatable: CPUs and memory that kubelet offers to pods.
        others: sum of the requests of all other pods and containers, as kube-scheduler counts them.
        pods: the tuned pods of the node.
        pending: pods for which capacity should be made available, most important first.
    """

    now: datetime
    name: str
    gpus: int
    allocatable: Amounts
    others: Amounts
    pods: Sequence[TunedPod]
    pending: Sequence[PendingPod] = ()


class Target(NamedTuple):
    """Amounts that one pod shall have, and the reason in words.

    Attributes:
        value: predicted throughput relative to that with the proportional share.
    """

    amounts: Amounts
    reason: str
    value: float = 1.0


class TuningEvent(StrEnum):
    """Reasons of the events that the operator records for a pod."""

    RESIZED = "Resized"
    RESIZE_REJECTED = "ResizeRejected"
    RESIZED_BY_OTHER = "ResizedByOther"
    MEMORY_GIVEN_BACK = "MemoryGivenBack"
    RECORD_REPLACED = "RecordReplaced"


@dataclass(frozen=True, slots=True)
class RecordUpdate:
    """Write ``record`` into the pod's annotation, and leave the pod's amounts unchanged.

    Attributes:
        event: event to record for the pod after the write; None for no event.
        message: text of the event.
    """

    uid: str
    record: TunedRecord
    event: TuningEvent | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class PodResize:
    """Write the annotation and the event as :class:`RecordUpdate`, then set the pod to ``spec``."""

    uid: str
    record: TunedRecord
    spec: ContainerAmounts
    event: TuningEvent | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class NodePlan:
    """What the operator does about one node now, in this order.

    Attributes:
        steps: raises come before cuts: the scheduler then counts the raised amounts at once, so no
            other pod takes what the cuts free. Kubelet defers each raise until the cuts are in
            effect.
        check_after_seconds: time of the next decision if no event comes earlier; None if nothing
            is in progress.
    """

    steps: tuple[PodResize | RecordUpdate, ...] = ()
    check_after_seconds: float | None = None

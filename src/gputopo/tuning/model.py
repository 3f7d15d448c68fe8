"""Types of the input and the results of sizing the running pods of one node.

All CPU amounts are thousandths of a CPU (``milli_cpu``), all amounts of memory are bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal, NamedTuple

from gputopo.api.profile import WorkloadFacts


class ResourcesMode(StrEnum):
    """``resources.mode`` of a pod: who decides about its CPUs and memory."""

    FIXED = "Fixed"
    PROPORTIONAL = "Proportional"
    AUTO = "Auto"


class Amounts(NamedTuple):
    """CPUs and memory of one container."""

    milli_cpu: int
    memory: int


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
        storage_mb_per_s: read bandwidth of the storage for this workload.
        memory_floor: bytes that the processes need without any cached data.
    """

    size: int
    storage_mb_per_s: int
    memory_floor: int


@dataclass(frozen=True, slots=True)
class ResizeState:
    """What kubelet reports about the newest resize of a pod.

    Attributes:
        allocated: amounts for which kubelet has reserved room on the node; None if not reported.
        applied: amounts that are in effect in the container; None if not reported.
        problem: ``Deferred``, ``Infeasible`` or ``Error``; None if there is no problem.
    """

    allocated: Amounts | None = None
    applied: Amounts | None = None
    problem: Literal["Deferred", "Infeasible", "Error"] | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class TunedRecord:
    """The annotation ``gputopo.io/resources``, which the operator writes before each resize.

    Attributes:
        floor: amounts with which the pod was created; it never gets less.
        last: amounts before the newest resize.
        target: amounts of the newest resize.
        since: time of the newest resize.
        reason: why the pod has these amounts, in words.
        before_micro_steps_per_second: measured rate before the newest resize; 0 if unknown.
        pinned: another client has resized the pod; the operator leaves the pod alone.
        least_memory: memory below which the pod ran out of memory or rejected a cut; 0 if none.
        most_milli_cpu: CPUs above which a raise was infeasible; None if none was.
    """

    floor: Amounts
    last: Amounts
    target: Amounts
    since: datetime
    reason: str = ""
    before_micro_steps_per_second: int = 0
    pinned: bool = False
    least_memory: int = 0
    most_milli_cpu: int | None = None


@dataclass(frozen=True, slots=True)
class TunedPod:
    """A running pod whose container with GPUs gets its CPUs and memory from gputopo.

    Attributes:
        uid: UID of the pod.
        mode: ``Proportional`` or ``Auto``.
        gpus: number of GPUs of the container.
        spec: amounts in the spec of the pod.
        most: upper bounds that the user has set; None without a bound.
        facts: facts of the pod's GPUProfile; None if there are none.
        dataset: None if the GPUProfile does not describe a data set: memory is then not tuned.
        measured_micro_steps_per_second: the pod's current steady rate; 0 if unknown.
        measuring: the operator measures the pod with several CPU limits now; leave it alone.
        obstacle: why the pod cannot be resized, with the remedy; empty if it can.
        out_of_memory_at: memory limit at which a container of the pod was last killed for memory.
    """

    uid: str
    name: str
    mode: ResourcesMode
    gpus: int
    spec: ContainerAmounts
    state: ResizeState = ResizeState()
    record: TunedRecord | None = None
    most_milli_cpu: int | None = None
    most_memory: int | None = None
    facts: WorkloadFacts | None = None
    dataset: Dataset | None = None
    measured_micro_steps_per_second: int = 0
    measuring: bool = False
    obstacle: str = ""
    out_of_memory_at: int = 0


@dataclass(frozen=True, slots=True)
class PendingPod:
    """A pod without a node that would fit on this node but for CPU or memory.

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
        others: sum of what all other pods on the node hold: the larger of spec and allocated.
        pods: the tuned pods of the node.
        pending: pods for which room should be made, most important first.
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


@dataclass(frozen=True, slots=True)
class Resize:
    """Write ``record`` into the pod's annotation, then set the pod's amounts to ``spec``."""

    uid: str
    record: TunedRecord
    spec: ContainerAmounts


@dataclass(frozen=True, slots=True)
class Note:
    """Write ``record`` into the pod's annotation, and leave its amounts unchanged."""

    uid: str
    record: TunedRecord
    event: str
    message: str


@dataclass(frozen=True, slots=True)
class NodePlan:
    """What the operator does about one node now, in this order.

    Attributes:
        steps: raises come first: the scheduler then counts the raised amounts at once, so no other
            pod takes what the cuts free. Kubelet defers each raise until the cuts are in effect.
        check_after_seconds: time of the next decision if no event comes earlier; None if nothing
            is in progress.
    """

    steps: tuple[Resize | Note, ...] = ()
    check_after_seconds: float | None = None

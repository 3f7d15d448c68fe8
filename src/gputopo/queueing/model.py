"""The input and the result of a decision about the queue. All times are in seconds since 1970."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

UNPLACED_SECONDS: Final = 180.0
"""For how long GPUs are kept for a job that could have them, but does not take them.

It is longer than the extender pauses a node whose kubelet has rejected a pod.
"""


@dataclass(frozen=True, slots=True)
class Offer:
    """For how long a job without a node could have had GPUs that it did not take.

    Attributes:
        seconds: the sum over all its pods.
        at: time of the decision, if the scheduler had rejected its pod although its GPUs were free;
            None otherwise.
        since: time of the first decision in which the job had no node.
    """

    tenant: str
    since: float
    seconds: float = 0.0
    at: float | None = None

    @property
    def declined(self) -> bool:
        """Whether nothing is kept for the job any more."""
        return self.seconds >= UNPLACED_SECONDS


class QueueOrder(StrEnum):
    """The orders of the queue; ``gputopo.sizing.orders`` defines them."""

    FIFO = "FIFO"
    SRTF = "SRTF"
    LAS = "LAS"
    FTF = "FTF"


@dataclass(frozen=True, slots=True)
class QueueRules:
    """The settings of the queue.

    Attributes:
        max_skip_seconds: a job that has waited longer than this is overdue. Overdue jobs are the
            first in the queue, and a node is reserved for the first of them.
    """

    order: QueueOrder
    max_skip_seconds: float


class JoinableGpu(NamedTuple):
    """A GPU that several pods share, or could share; ``gpu`` identifies it on its node."""

    node: str
    gpu: str


@dataclass(frozen=True, slots=True)
class AdmittedJob:
    """A job that has started, or whose pod will start as soon as the scheduler has bound it.

    Attributes:
        node: the node of its pod; None until the pod is bound.
        since: time at which its pod started; the current time if the pod has not started.
        avoids: nodes that its pod may not use.
        shares: the GPU of ``node`` that it shares: all jobs with it need ``gpus`` together. None
            for whole GPUs.
        joins: if its pod is not bound, the shared GPUs that it may join now, on nodes that it may
            use.
        tenant: namespace of the job.
        rejected: whether the scheduler has found no node for its pod; None if it has not tried.
    """

    job: str
    gpus: int
    node: str | None
    since: float
    avoids: frozenset[str] = frozenset()
    shares: str | None = None
    joins: frozenset[JoinableGpu] = frozenset()
    tenant: str = ""
    rejected: bool | None = False


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A job that waits in the queue.

    Attributes:
        created: time at which the job was created.
        waiting_since: time at which the job entered the queue. It may be long after ``created``, if
            the user had suspended the job.
        ran_seconds: for how long the job ran before it was suspended.
        expected_seconds: expected time that the job runs in total, more than 0; None if unknown.
        priority: value of the PriorityClass; jobs of a higher priority are first.
        avoids: nodes that its pod may not use, for example because of its node selector.
        can_avoid_nodes: whether its pod can be kept off more nodes.
        sharing: whether it may share its GPU with others.
        joins: the shared GPUs that it may join now, on nodes that it may use; reserved nodes
            included.
        failed_starts: how often in a row it was started without getting a pod.
        tenant: namespace of the job.
    """

    job: str
    gpus: int
    created: float
    waiting_since: float
    ran_seconds: float = 0.0
    expected_seconds: float | None = None
    priority: int = 0
    avoids: frozenset[str] = frozenset()
    can_avoid_nodes: bool = True
    sharing: bool = False
    joins: frozenset[JoinableGpu] = frozenset()
    failed_starts: int = 0
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class QueueState:
    """Everything that the decision uses.

    Attributes:
        capacities: by node, the GPUs that are free or used by jobs of ``admitted``. GPUs that are
            unhealthy or used by other pods do not count.
        rejected: waiting jobs that cannot be started now, with the reason.
        offers: ``offers`` of the decision before.
        probation: tenants whose jobs start one after the other: the next when the pod of the last
            one has a node, or nothing is kept for it any more.
    """

    capacities: Mapping[str, int]
    admitted: tuple[AdmittedJob, ...]
    waiting: tuple[WaitingJob, ...]
    now: float
    rejected: Mapping[str, str] = field(default_factory=dict)
    offers: Mapping[str, Offer] = field(default_factory=dict)
    probation: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class QueueStart:
    """A job to start now.

    Attributes:
        avoids: nodes that its pod may not use, because they are reserved for other jobs.
    """

    job: str
    avoids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """A job that keeps waiting.

    Attributes:
        position: place in the queue, from 1.
        reason: why the job does not start now, as text for users.
        node: the node whose GPUs are kept free for the job; None if no node is reserved for it.
    """

    job: str
    position: int
    reason: str
    node: str | None = None


@dataclass(frozen=True, slots=True)
class QueueDecision:
    """The jobs to start now, and the jobs that keep waiting, both in the order of the queue.

    Attributes:
        offers: the GPUs that admitted jobs without a node did not take, by job.
        failing: tenants with a job for which nothing is kept any more since this decision, or that
            has left the queue before.
    """

    admitted: tuple[QueueStart, ...]
    waiting: tuple[QueuePlace, ...]
    offers: Mapping[str, Offer] = field(default_factory=dict)
    failing: frozenset[str] = frozenset()

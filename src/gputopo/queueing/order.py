"""Sorts the waiting jobs by the order of the queue."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from gputopo.queueing.model import QueueOrder, QueueRules, WaitingJob
from gputopo.sizing.orders import JobProgress, OrderKey, fifo, ftf, las, srtf

_KEYS: Final[Mapping[QueueOrder, OrderKey]] = MappingProxyType(
    {QueueOrder.FIFO: fifo, QueueOrder.SRTF: srtf, QueueOrder.LAS: las, QueueOrder.FTF: ftf}
)

_BY_DURATION: Final = frozenset({QueueOrder.SRTF, QueueOrder.FTF})
"""Orders that need the expected duration of each job."""


MOST_FAILED_STARTS: Final = 2
"""A job that was started more often without getting a pod is never overdue: no node is reserved for
it. Fewer failures can have a short cause, such as a webhook that was down."""


def is_overdue(job: WaitingJob, rules: QueueRules, now: float) -> bool:
    """Return whether a job has waited so long that it comes first in the queue."""
    waited = now - job.waiting_since >= rules.max_skip_seconds
    return waited and job.failed_starts <= MOST_FAILED_STARTS


def sort_waiting(jobs: Iterable[WaitingJob], rules: QueueRules, now: float) -> list[WaitingJob]:
    """Return the jobs in queue order.

    Overdue jobs come first; the job that has waited longest is the first of them. The others follow
    by priority and then by ``rules.order``. If this order needs the expected duration, jobs without
    it are the last of their priority. The last criteria are creation time and name. Jobs whose last
    start has given them no pod are behind all jobs that are not overdue.
    """

    def key(job: WaitingJob) -> tuple[float, ...]:
        if is_overdue(job, rules, now):
            return (0, job.waiting_since)
        unknown = rules.order in _BY_DURATION and job.expected_seconds is None
        order = 0 if unknown else _order_key(job, rules.order, now)
        return (1, job.failed_starts > 0, -job.priority, unknown, order)

    return sorted(jobs, key=lambda job: (key(job), job.created, job.job))


def _order_key(job: WaitingJob, order: QueueOrder, now: float) -> float:
    expected_seconds = job.expected_seconds or 1.0  # not used if the expectation is unknown
    progress = JobProgress(
        job=job.job,
        arrival_seconds=job.created,
        attained_gpu_seconds=job.ran_seconds * job.gpus,
        remaining_seconds=max(0.0, expected_seconds - job.ran_seconds),
        alone_seconds=expected_seconds,
    )
    return _KEYS[order](progress, now)

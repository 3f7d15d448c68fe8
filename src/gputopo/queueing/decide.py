"""Decides which waiting jobs start now: the runnable set of Synergy (section 3.2), with backfill.

The jobs are tried in queue order. A job starts if one node has all its GPUs free. A later job may
start while an earlier one waits for more GPUs. Starvation is bounded: a node is reserved for the
overdue job with the longest wait, and no other job may take GPUs of this node. A second node is
reserved only for an overdue job that may not use the first one, because the free GPUs of a reserved
node are idle (so does the backfill of EASY). Running jobs are never ended.

If no job runs longer than L, the overdue job with the longest wait starts at the latest L after its
reservation began, provided that some node can offer so many GPUs.
"""

from gputopo.queueing.free_gpus import FreeGpus
from gputopo.queueing.model import (
    AdmittedJob,
    QueueDecision,
    QueuePlace,
    QueueRules,
    QueueStart,
    QueueState,
    WaitingJob,
)
from gputopo.queueing.order import is_overdue, sort_waiting


def decide_queue(state: QueueState, rules: QueueRules) -> QueueDecision:
    """Return the jobs to start now, and the place of each job that keeps waiting."""
    free = _free_gpus(state)
    admitted: list[QueueStart] = []
    waiting: list[QueuePlace] = []
    reserved = set[str]()
    for job in sort_waiting(state.waiting, rules, state.now):
        overdue, position = is_overdue(job, rules, state.now), len(waiting) + 1
        if (error := state.rejected.get(job.job)) is not None:
            waiting.append(QueuePlace(job.job, position, error))
        elif not free.fits(job):
            node = free.reserve(job) if overdue and reserved <= job.avoids else None
            if node is not None:
                reserved.add(node)
            waiting.append(QueuePlace(job.job, position, _reason(job, free, node), node))
        elif exposed := _exposed(job, free):
            waiting.append(QueuePlace(job.job, position, exposed))
        else:
            admitted.append(_admission(job, free, state.now, overdue=overdue))
    return QueueDecision(tuple(admitted), tuple(waiting))


def _free_gpus(state: QueueState) -> FreeGpus:
    """Return the GPUs that are free when all admitted jobs have theirs.

    A job that was admitted, but fits on no node now, has the first right to a node: its pod already
    waits in the scheduler, so later jobs would take its GPUs.
    """
    free = FreeGpus(state.capacities, state.admitted)
    unbound = [job for job in state.admitted if job.node is None]
    for job in sorted(unbound, key=lambda job: (-job.gpus, job.job)):
        if not free.place(job):
            free.reserve(job)
    return free


def _exposed(job: WaitingJob, free: FreeGpus) -> str:
    """Return why the job might take GPUs of a reserved node, or an empty text if it cannot."""
    node = None if job.can_avoid_nodes else free.reserved_with(job)
    if node is None:
        return ""
    return (
        f"node {node} is reserved for {free.reserved[node]}; this job has run before, so it cannot "
        "be kept off that node"
    )


def _admission(job: WaitingJob, free: FreeGpus, now: float, *, overdue: bool) -> QueueStart:
    """Take GPUs for a job. Keep its pod off the nodes of which other jobs need the free GPUs.

    The pods of all jobs that start now are bound in any order and to any nodes. So a job that
    starts with an overdue job may not use the node of that job, unless both fit there.
    """
    node = free.place(AdmittedJob(job.job, job.gpus, None, now, job.avoids))
    kept = (free.reserved.keys() | free.expected) - {node} - job.avoids
    if overdue and node is not None:
        free.expected.add(node)
    return QueueStart(job.job, tuple(sorted(kept)) if job.can_avoid_nodes else ())


def _reason(job: WaitingJob, free: FreeGpus, reserved: str | None) -> str:
    waits = f"waiting for {job.gpus} free GPUs on one node"
    if job.gpus == 1:
        waits = "waiting for a free GPU"
    permitted, nodes = free.permitted(job)
    if permitted < nodes:
        waits += f"; node selector, affinity and taints permit {permitted} of {nodes} nodes"
    if reserved is not None:
        return f"{waits}; node {reserved} is reserved for this job"
    if not free.is_possible(job):
        return f"{waits}; without the GPUs of other pods, no node has so many healthy GPUs"
    exposed = free.reserved_with(job)
    if exposed is not None:
        return f"{waits}; node {exposed} is reserved for {free.reserved[exposed]}"
    return waits

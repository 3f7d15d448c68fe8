"""Decides which waiting jobs start now: the runnable set of Synergy (section 3.2), with backfill.

The jobs are tried in queue order. A job starts if one node has all its GPUs free, or if it may join
a GPU that others share (:mod:`gputopo.queueing.joins`). A later job may start while an earlier job
waits for more GPUs. Starvation is bounded: a node is reserved for the overdue job with the longest
wait, and no other job may take or join GPUs of this node. The free GPUs of a reserved node are
idle. So, as in EASY backfilling, there is normally only one reserved node: a second node is
reserved only for an overdue job that may not use the first node. The queue never ends running jobs.

If no job runs longer than L, and one node has enough healthy GPUs, the overdue job with the longest
wait starts at most L after its reservation began.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from gputopo.queueing.free_gpus import FreeGpus
from gputopo.queueing.model import (
    UNPLACED_SECONDS,
    AdmittedJob,
    Offer,
    QueueDecision,
    QueuePlace,
    QueueRules,
    QueueStart,
    QueueState,
    WaitingJob,
)
from gputopo.queueing.order import is_overdue, sort_waiting

_MOST_EXPECTED: Final = 20
"""Nodes off which new pods are kept: they keep this affinity as long as they exist."""

_TURN: Final = (
    "waiting for the pod of another job of namespace {}: a pod of this namespace could not be "
    "created in the last minutes, so its jobs start one after the other"
)


class _Started(NamedTuple):
    """A job that starts.

    Attributes:
        node: the node whose GPUs were taken for it; None if it joins a shared GPU.
        avoids: nodes that its pod must avoid.
        others: if later jobs must avoid ``node``, the other nodes where its pod could get GPUs.
    """

    job: str
    node: str | None
    avoids: frozenset[str]
    others: frozenset[str]


def decide_queue(state: QueueState, rules: QueueRules) -> QueueDecision:
    """Return the jobs to start now, and the place of each job that keeps waiting."""
    free, offers = _free_gpus(state)
    admitted: list[_Started] = []
    waiting: list[QueuePlace] = []
    reserved, turns = set[str](), {*state.busy_turns}
    for job in sort_waiting(state.waiting, rules, state.now):
        overdue, position = is_overdue(job, rules, state.now), len(waiting) + 1
        if (error := state.rejected.get(job.job)) is not None:
            waiting.append(QueuePlace(job.job, position, error))
        elif not free.fits(job) and not free.can_join(job):
            node = free.reserve(job) if overdue and reserved <= job.avoids else None
            if node is not None:
                reserved.add(node)
            waiting.append(QueuePlace(job.job, position, _reason(job, free, node), node))
        elif job.turn and job.turn in turns:
            waiting.append(QueuePlace(job.job, position, _TURN.format(job.turn)))
        elif exposed := _exposed(job, free):
            waiting.append(QueuePlace(job.job, position, exposed))
        else:
            admitted.append(_admission(job, free, state.now, overdue=overdue))
            turns.add(job.turn)
    starts = tuple(_start(each, admitted) for each in admitted)
    return QueueDecision(starts, tuple(waiting), offers, _declined(state.offers, offers))


def _free_gpus(state: QueueState) -> tuple[FreeGpus, dict[str, Offer]]:
    """Return the GPUs that are still free when all admitted jobs have their GPUs.

    If an admitted job fits on no node now, reserve a node for this job. Its pod already waits in
    the scheduler, and a job that starts now could take its GPUs. Pods that start now are kept off
    the node of a pod that the scheduler has rejected, because it tries new pods first.

    A job that takes no GPUs for a minute, although they are free, lacks something else, for example
    10,000 CPUs. From then on nothing is kept for it, so that one job cannot keep all GPUs idle.

    Returns:
        The GPUs, and ``offers`` of the decision.
    """
    free, offers = FreeGpus(state.capacities, state.admitted), dict[str, Offer]()
    unbound = [job for job in state.admitted if job.node is None]
    for job in sorted(unbound, key=lambda job: (-job.gpus, job.job)):
        seconds = state.offers.get(job.uid, Offer()).now(state.now)
        kept = seconds < UNPLACED_SECONDS and _keep(job, free)
        offers[job.uid] = Offer(seconds, state.now if kept and job.rejected else None)
    return free, offers


def _declined(before: Mapping[str, Offer], after: Mapping[str, Offer]) -> frozenset[str]:
    return frozenset(
        uid
        for uid, offer in after.items()
        if offer.seconds >= UNPLACED_SECONDS and before.get(uid, Offer()).seconds < UNPLACED_SECONDS
    )


def _keep(job: AdmittedJob, free: FreeGpus) -> bool:
    """Keep GPUs, or else a node, for an admitted job; return whether it has GPUs now."""
    gpus, node = free.shareable(job), free.place(job)
    if node is None and not gpus:
        free.reserve(job)
        return False
    free.joins.add(gpus if node is None else job.joins, needed=node is None)
    if node is not None and job.rejected and len(free.expected) < _MOST_EXPECTED:
        free.expected.add(node)
    return True


def _exposed(job: WaitingJob, free: FreeGpus) -> str:
    """Return why the job might take GPUs that another job needs, or an empty text if it cannot."""
    if free.fits(job) and not free.joins.permits(job.joins, needed=False):
        return "waiting until the pods of other sharing jobs, which have started, are bound"
    node = None if job.can_avoid_nodes else free.reserved_with(job)
    if node is None:
        return ""
    return (
        f"node {node} is reserved for {free.reserved[node]}; this job has run before, so it cannot "
        "be kept off that node"
    )


def _admission(job: WaitingJob, free: FreeGpus, now: float, *, overdue: bool) -> _Started:
    """Take GPUs for a job; its pod must avoid the nodes whose free GPUs other jobs need.

    The scheduler binds the pods of all jobs that start now, in any order and to any nodes. So a job
    that starts together with an overdue job may not use the node on which the overdue job is
    placed, unless this function has placed both jobs on that node. :func:`_start` keeps the overdue
    job off the nodes that are left to the others.
    """
    gpus, idle = free.shareable(job), free.idle_nodes(job)
    node = free.place(AdmittedJob(job.job, job.gpus, None, now, job.avoids))
    kept = (free.reserved.keys() | free.expected) - {node} - job.avoids
    if node is None:  # it joins a shared GPU
        kept |= idle
    free.joins.add(gpus if node is None else job.joins, needed=node is None)
    avoids = frozenset(kept) if job.can_avoid_nodes else frozenset[str]()
    others = free.other_nodes(job, node) - avoids
    # A job that cannot be kept off other nodes would not use its node reliably.
    if not overdue or node is None or (others and not job.can_avoid_nodes):
        return _Started(job.job, node, avoids, frozenset())
    free.expected.add(node)
    return _Started(job.job, node, avoids, others)


def _start(start: _Started, admitted: Iterable[_Started]) -> QueueStart:
    """Return the start of a job, with all nodes that its pod must avoid.

    For example, an overdue job is placed on n1, and then another job on n2, which must avoid n1. If
    the first job got n2, the other one would have no node. So the first one must avoid n2.
    """
    left = {other.node for other in admitted if start.node in other.avoids}
    return QueueStart(start.job, tuple(sorted(start.avoids | start.others & left)))


def _reason(job: WaitingJob, free: FreeGpus, reserved: str | None) -> str:
    waits = f"waiting for {job.gpus} free GPUs on one node"
    if job.gpus == 1:
        waits = "waiting for a free GPU" + (", or one that it may share" if job.sharing else "")
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

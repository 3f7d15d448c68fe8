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
from dataclasses import replace
from typing import Final, NamedTuple

from gputopo.queueing.free_gpus import FreeGpus
from gputopo.queueing.model import (
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

CREDIT_SECONDS: Final = 20.0
"""The most that counts between two decisions: what happened for longer is unknown."""

_MOST_EXPECTED: Final = 20
"""Nodes off which new pods are kept: they keep this affinity as long as they exist."""

_UNTRIED_SECONDS: Final = 300.0
"""The scheduler fails over to its other replica in less time."""

_TURN: Final = (
    "waiting for the pod of another job of namespace {}: a pod of this namespace was not created "
    "or not placed in the last minutes, so its jobs start one after the other"
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
    failing = _failing(state, offers)
    one_by_one = state.probation | failing
    busy = {offer.tenant for offer in offers.values() if not offer.declined}
    admitted: list[_Started] = []
    waiting: list[QueuePlace] = []
    reserved = set[str]()
    for job in sort_waiting(state.waiting, rules, state.now):
        overdue, position = is_overdue(job, rules, state.now), len(waiting) + 1
        fits = free.fits(job) or free.can_join(job)
        if (error := state.rejected.get(job.job)) is not None:
            waiting.append(QueuePlace(job.job, position, error))
        elif not fits or job.tenant in one_by_one & busy:
            node = free.reserve(job) if overdue and reserved <= job.avoids else None
            if node is not None:
                reserved.add(node)
            reason = _TURN.format(job.tenant) if fits else _reason(job, free, node)
            waiting.append(QueuePlace(job.job, position, reason, node))
        elif exposed := _exposed(job, free):
            waiting.append(QueuePlace(job.job, position, exposed))
        else:
            admitted.append(_admission(job, free, state.now, overdue=overdue))
            busy.add(job.tenant)
    starts = tuple(_start(each, admitted) for each in admitted)
    return QueueDecision(starts, tuple(waiting), offers, failing)


def _free_gpus(state: QueueState) -> tuple[FreeGpus, dict[str, Offer]]:
    """Return the GPUs that are still free when all admitted jobs have their GPUs.

    If an admitted job fits on no node now, reserve a node for this job. Its pod already waits in
    the scheduler, and a job that starts now could take its GPUs. Pods that start now are kept off
    the node of a pod that the scheduler has rejected, because it tries new pods first.

    A job that takes no GPUs for three minutes, although they are free, lacks something else, for
    example 10,000 CPUs. From then on nothing is kept for it, so that one job cannot keep all GPUs
    idle.

    Returns:
        The GPUs, and ``offers`` of the decision.
    """
    free, offers = FreeGpus(state.capacities, state.admitted), dict[str, Offer]()
    unbound = [job for job in state.admitted if job.node is None]
    draining = set[str]()
    for job in sorted(unbound, key=lambda job: (-job.gpus, job.job)):
        offer = _credited(state.offers.get(job.job) or Offer(job.tenant, state.now), state.now)
        untried = job.rejected is None and state.now - offer.since >= _UNTRIED_SECONDS
        rejected = bool(job.rejected) or untried
        kept = not offer.declined and _keep(job, free, draining, rejected=rejected)
        offers[job.job] = replace(offer, at=state.now) if kept and rejected else offer
    return free, offers


def _credited(offer: Offer, now: float) -> Offer:
    """Return an offer with the time since the decision before, as far as this was observed."""
    if offer.at is None:
        return offer
    elapsed = min(CREDIT_SECONDS, max(0.0, now - offer.at))
    return replace(offer, seconds=offer.seconds + elapsed, at=None)


def _keep(job: AdmittedJob, free: FreeGpus, draining: set[str], *, rejected: bool) -> bool:
    """Keep GPUs, or else a node, for an admitted job; return whether it has GPUs now.

    Of the rejected jobs of a tenant, only one has a reserved node; ``draining`` has these tenants.
    """
    gpus, node = free.shareable(job), free.place(job)
    if node is None and not gpus:
        if not (rejected and job.tenant in draining):
            free.reserve(job)
            draining.add(job.tenant)
        return False
    free.joins.add(gpus if node is None else job.joins, needed=node is None)
    if node is not None and rejected and len(free.expected) < _MOST_EXPECTED:
        free.expected.add(node)
    return True


def _failing(state: QueueState, offers: Mapping[str, Offer]) -> frozenset[str]:
    """Return the tenants of jobs that are declined now, or that have left the queue just before."""
    bound = {job.job for job in state.admitted if job.node is not None}
    left, declined = set[str](), set[str]()
    for job, offer in state.offers.items():
        if offer.seconds and job not in offers and job not in bound:
            left.add(offer.tenant)
    for job, offer in offers.items():
        before = state.offers.get(job)
        if offer.declined and not (before and before.declined):
            declined.add(offer.tenant)
    return frozenset(left | declined)


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

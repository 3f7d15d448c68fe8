"""The free GPUs of the nodes during one decision, and the nodes that are reserved for jobs."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from gputopo.queueing.joins import ExpectedJoins
from gputopo.queueing.model import AdmittedJob, JoinableGpu, WaitingJob


class FreeGpus:
    """Free GPUs by node. A job takes GPUs of one node; a reserved node is closed to other jobs.

    Attributes:
        reserved: by node, the job for which the node is reserved.
        expected: nodes that this decision has chosen for overdue jobs that start now, and for
            started jobs whose pods the scheduler has rejected.
        joins: the sharing jobs whose pods are not bound yet.
    """

    def __init__(self, capacities: Mapping[str, int], admitted: Collection[AdmittedJob]) -> None:
        """Subtract the GPUs of jobs whose pods are bound from the free GPUs of their nodes."""
        self._capacities = capacities
        self._free = dict(capacities)
        self._jobs: dict[str, list[AdmittedJob]] = {node: [] for node in capacities}
        self.reserved: dict[str, str] = {}
        self.expected: set[str] = set()
        self.joins = ExpectedJoins()
        for job in _by_gpu(admitted):
            if job.node in self._free:
                self._take(job, job.node)
        self._idle = dict(self._free)

    def fits(self, job: WaitingJob) -> bool:
        """Return whether a node that is not reserved has enough free GPUs for a job."""
        return self._best_fit(job) is not None

    def place(self, job: AdmittedJob) -> str | None:
        """Take GPUs for a job whose pod is not bound yet; return their node, or None if none fits.

        The scheduler chooses the node later. This method assumes the fitting node with the fewest
        free GPUs, so that larger groups of free GPUs stay whole for larger jobs.
        """
        node = self._best_fit(job)
        if node is not None:
            self._take(job, node)
        return node

    def reserve(self, job: AdmittedJob | WaitingJob) -> str | None:
        """Reserve the node that will have enough free GPUs first; None if all nodes are too small.

        How long other jobs run is unknown, so this method assumes that jobs end in the order of
        their start. For each node, let s be the start of the last job that must end before the new
        job fits. The method reserves the node with the lowest s. If no job runs longer than L, this
        node has enough free GPUs at s + L. No other job starts on a reserved node, so its s never
        rises.

        For example, a job needs 4 GPUs. n1 has 1 free GPU and jobs with 1 and 2 GPUs, which started
        at 50 and 60: s = 60. n2 has 2 free GPUs and a job with 2 GPUs, which started at 90: s = 90.
        So n1 is reserved, although it has fewer free GPUs.
        """
        dates = {
            node: date
            for node in self._permitted(job)
            if node not in self.reserved and (date := self._last_start(node, job.gpus)) is not None
        }
        if not dates:
            return None
        node = min(dates, key=lambda node: (dates[node], node))
        self.reserved[node] = job.job
        return node

    def idle_nodes(self, job: AdmittedJob | WaitingJob) -> set[str]:
        """Return the nodes with idle GPUs that a job may use, also if other jobs get these GPUs."""
        return {node for node in self._permitted(job) if self._idle[node]}

    def other_nodes(self, job: WaitingJob, node: str | None) -> frozenset[str]:
        """Return the nodes except ``node`` that had enough free GPUs before jobs started."""
        nodes = (each for each in self._permitted(job) if self._idle[each] >= job.gpus)
        return frozenset(nodes) - {node}

    def shareable(self, job: AdmittedJob | WaitingJob) -> frozenset[JoinableGpu]:
        """Return the shared GPUs that a job can join, on nodes where it cannot get an idle GPU.

        A job that gets no idle GPU is kept off the other nodes: there it could take the GPU of a
        job whose pod is not bound yet.
        """
        closed = {*self.reserved, *self.expected, *self.idle_nodes(job)}
        nodes = set(self._permitted(job)) - closed
        return frozenset(each for each in job.joins if each.node in nodes)

    def can_join(self, job: WaitingJob) -> bool:
        """Return whether a job gets a part of a shared GPU, whatever the scheduler chooses."""
        kept_off = job.can_avoid_nodes or not self.idle_nodes(job)
        return kept_off and self.joins.permits(self.shareable(job), needed=True)

    def permitted(self, job: WaitingJob) -> tuple[int, int]:
        """Return how many nodes a job may use, and the number of all nodes."""
        return sum(1 for _ in self._permitted(job)), len(self._capacities)

    def is_possible(self, job: WaitingJob) -> bool:
        """Return whether a permitted node has enough GPUs, also counting those of admitted jobs."""
        return any(self._capacities[node] >= job.gpus for node in self._permitted(job))

    def reserved_with(self, job: WaitingJob) -> str | None:
        """Return a reserved node that a job may use and on which it finds GPUs, or None."""
        shared = {each.node for each in job.joins}
        found = (
            node
            for node in self._permitted(job)
            if node in self.reserved and (self._free[node] >= job.gpus or node in shared)
        )
        return min(found, default=None)

    def _best_fit(self, job: AdmittedJob | WaitingJob) -> str | None:
        fitting = (
            node
            for node in self._permitted(job)
            if self._free[node] >= job.gpus and node not in self.reserved
        )
        return min(fitting, key=lambda node: (self._free[node], node), default=None)

    def _permitted(self, job: AdmittedJob | WaitingJob) -> Iterator[str]:
        return (node for node in self._capacities if node not in job.avoids)

    def _take(self, job: AdmittedJob, node: str) -> None:
        self._free[node] = max(0, self._free[node] - job.gpus)
        self._jobs[node].append(job)

    def _last_start(self, node: str, gpus: int) -> float | None:
        """Return when the last job that must end has started; None if the node is too small."""
        if self._capacities[node] < gpus:
            return None
        free, date = self._free[node], float("-inf")
        for job in sorted(self._jobs[node], key=lambda job: job.since):
            if free >= gpus:
                break
            free, date = free + job.gpus, job.since
        return date


def _by_gpu(jobs: Iterable[AdmittedJob]) -> list[AdmittedJob]:
    """Return the jobs; those that share a GPU are one job, which began with the last of them."""
    found: list[AdmittedJob] = []
    shared: dict[tuple[str | None, str], AdmittedJob] = {}
    for job in jobs:
        if job.shares is None:
            found.append(job)
        else:
            known = shared.get((job.node, job.shares), job)
            since, gpus = max(known.since, job.since), max(known.gpus, job.gpus)
            shared[job.node, job.shares] = replace(known, since=since, gpus=gpus)
    return [*found, *shared.values()]

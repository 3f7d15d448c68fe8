"""The free GPUs of the nodes during one decision, and the nodes that are reserved for jobs."""

from collections.abc import Collection, Mapping

from gputopo.queueing.model import AdmittedJob


class FreeGpus:
    """Free GPUs by node. A job takes GPUs of one node; a reserved node is closed to other jobs.

    Attributes:
        reserved: by node, the job for which the node is reserved.
        expected: nodes to which the pods of overdue jobs will be bound that start now.
    """

    def __init__(self, capacities: Mapping[str, int], admitted: Collection[AdmittedJob]) -> None:
        """Take the GPUs of the bound jobs from their nodes."""
        self._capacities = capacities
        self._free = dict(capacities)
        self._jobs: dict[str, list[AdmittedJob]] = {node: [] for node in capacities}
        self.reserved: dict[str, str] = {}
        self.expected: set[str] = set()
        for job in admitted:
            if job.node in self._free:
                self._take(job, job.node)

    def fits(self, gpus: int, avoids: Collection[str] = ()) -> bool:
        """Return whether a node that is not reserved has this number of free GPUs."""
        return self._best_fit(gpus, avoids) is not None

    def place(self, job: AdmittedJob) -> str | None:
        """Take GPUs for a job whose pod is not bound yet; return their node, if one has enough.

        The scheduler chooses the node later. Until then this assumes the node with the fewest free
        GPUs that are enough, so that larger groups of free GPUs stay whole for larger jobs.
        """
        node = self._best_fit(job.gpus, job.avoids)
        if node is not None:
            self._take(job, node)
        return node

    def reserve(self, job: str, gpus: int) -> str | None:
        """Reserve for a job the node that will have enough free GPUs first; None without a node.

        How long other jobs run is unknown, so it is assumed that jobs end in the order of their
        start. For each node, let s be the start of the last job that has to end. The node with the
        lowest s is reserved. When no job runs longer than L, it has enough free GPUs at s + L. On a
        reserved node no job starts, so s never rises, even if another node is reserved later.

        For example, a job needs 4 GPUs. n1 has 1 free GPU and jobs with 1 and 2 GPUs, which started
        at 50 and 60: s = 60. n2 has 2 free GPUs and a job with 2 GPUs, which started at 90: s = 90.
        So n1 is reserved, although it has fewer free GPUs.
        """
        dates = {
            node: date
            for node in self._free
            if node not in self.reserved and (date := self._last_start(node, gpus)) is not None
        }
        if not dates:
            return None
        node = min(dates, key=lambda node: (dates[node], node))
        self.reserved[node] = job
        return node

    def is_possible(self, gpus: int) -> bool:
        """Return whether a node has enough GPUs that are free or used by jobs of the queue."""
        return any(capacity >= gpus for capacity in self._capacities.values())

    def reserved_with(self, gpus: int) -> str | None:
        """Return a reserved node with this number of free GPUs, or None."""
        found = (node for node in self.reserved if self._free[node] >= gpus)
        return min(found, default=None)

    def _best_fit(self, gpus: int, avoids: Collection[str]) -> str | None:
        fitting = (
            node
            for node, free in self._free.items()
            if free >= gpus and node not in self.reserved and node not in avoids
        )
        return min(fitting, key=lambda node: (self._free[node], node), default=None)

    def _take(self, job: AdmittedJob, node: str) -> None:
        self._free[node] = max(0, self._free[node] - job.gpus)
        self._jobs[node].append(job)

    def _last_start(self, node: str, gpus: int) -> float | None:
        """Return the start of the last job that has to end; None if the node is too small."""
        if self._capacities[node] < gpus:
            return None
        free, date = self._free[node], float("-inf")
        for job in sorted(self._jobs[node], key=lambda job: job.since):
            if free >= gpus:
                break
            free, date = free + job.gpus, job.since
        return date

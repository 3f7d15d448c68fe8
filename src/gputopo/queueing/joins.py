"""The shared GPUs that jobs may join, while their pods are not bound yet.

The scheduler binds the pods in any order. A pod that joins a shared GPU can make it useless for the
others. So a job that gets no idle GPU needs more shared GPUs than there are other jobs that may
join one of them: then at least one of its GPUs is left, whatever the scheduler chooses.

Example: two jobs may join X and Y, and no others. Both can start: the first pod takes one of them,
and the other is left. A third job has to wait until one of the pods is bound.
"""

from gputopo.queueing.model import JoinableGpu

_Gpus = frozenset[JoinableGpu]


class ExpectedJoins:
    """The shared GPUs of each sharing job whose pod is not bound yet."""

    def __init__(self) -> None:
        self._all: list[_Gpus] = []
        self._needed: list[_Gpus] = []

    def permits(self, gpus: _Gpus, *, needed: bool) -> bool:
        """Return whether each job that gets no idle GPU still finds a shared GPU with one more job.

        Args:
            gpus: the shared GPUs that the further job may join.
            needed: whether it gets no idle GPU.
        """
        if needed and not gpus:
            return False
        others = [*self._all, gpus]
        jobs = [*self._needed, *([gpus] if needed else ())]
        # Each job is one of the jobs that may join its GPUs.
        return all(sum(not own.isdisjoint(each) for each in others) <= len(own) for own in jobs)

    def add(self, gpus: _Gpus, *, needed: bool) -> None:
        """Add a job that starts."""
        self._all.append(gpus)
        if needed:
            self._needed.append(gpus)

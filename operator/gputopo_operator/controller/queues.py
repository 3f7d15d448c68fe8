"""The two work queues of the operator, and which keys the changes of a report add to them."""

from collections.abc import Collection

from gputopo_kube.document import ObjectKey
from gputopo_operator.controller.work_queue import WorkQueue
from gputopo_operator.workloads import ReportChanges


class Queues:
    """The queues of GPUJobs and GPUProfiles.

    Attributes:
        jobs: GPUJobs to reconcile.
        profiles: GPUProfiles to reconcile.
    """

    def __init__(
        self,
        jobs: WorkQueue[ObjectKey],
        profiles: WorkQueue[ObjectKey],
        *,
        namespaces: Collection[str],
        profile_delay_seconds: float,
    ) -> None:
        """Serve only these namespaces, or all if ``namespaces`` is empty.

        New samples of a GPUProfile are collected for ``profile_delay_seconds``, because many nodes
        may report samples of one workload.
        """
        self.jobs = jobs
        self.profiles = profiles
        self._namespaces = namespaces
        self._delay_seconds = profile_delay_seconds

    def add_changed_profiles(self, changed: ReportChanges) -> None:
        """Add the GPUProfiles that a report of a node concerns.

        GPUTopologies belong to no namespace, so they also report pods that others serve.
        """
        for key in changed.profiles:
            if not self._namespaces or key.namespace in self._namespaces:
                self.profiles.add_later(key, self._delay_seconds)

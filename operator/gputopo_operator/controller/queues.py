"""The work queues of GPUJobs and GPUProfiles."""

from collections.abc import Collection

from gputopo_kube.document import ObjectKey
from gputopo_operator.controller.work_queue import WorkQueue
from gputopo_operator.model.workloads import ReportChanges


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
        """Accept only GPUProfiles of these namespaces, or of all if ``namespaces`` is empty.

        A GPUProfile is reconciled ``profile_delay_seconds`` after its first new sample, so that one
        write stores the samples of many nodes.
        """
        self.jobs = jobs
        self.profiles = profiles
        self._namespaces = namespaces
        self._delay_seconds = profile_delay_seconds

    def add_changed_profiles(self, changed: ReportChanges) -> None:
        """Add the GPUProfiles for which a node has reported a new sample or a new pod.

        Skip GPUProfiles in namespaces that the operator does not serve; nodes report them too.
        """
        for key in changed.profiles:
            if not self._namespaces or key.namespace in self._namespaces:
                self.profiles.add_later(key, self._delay_seconds)

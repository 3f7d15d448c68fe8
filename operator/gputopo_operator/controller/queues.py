"""The work queues of GPUJobs and GPUProfiles."""

from collections.abc import Collection

from gputopo_kube.document import ObjectKey
from gputopo_operator.controller.parsed_objects import ObjectChange
from gputopo_operator.controller.work_queue import WorkQueue
from gputopo_operator.decision.reports import changes, known_pods
from gputopo_operator.model.workloads import NO_REPORT, NodeReport, PodReport


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
        self._job_of_pod: dict[str, ObjectKey] = {}
        self._known: dict[str, dict[str, PodReport]] = {}

    def pod_changed(self, uid: str, job: ObjectKey, *, deleted: bool) -> None:
        """Add the GPUJob of a pod that has changed."""
        if deleted:
            self._job_of_pod.pop(uid, None)
        else:
            self._job_of_pod[uid] = job
        self.jobs.add(job)

    def report_changed(self, change: ObjectChange[NodeReport]) -> None:
        """Add the GPUJobs and GPUProfiles that a new report of a node concerns.

        Each agent changes its GPUTopology up to twice a minute, and a reconciliation of a GPUJob
        sends three requests. So a GPUJob is added only if the GPUs or the rate of its pod have
        changed. Skip GPUProfiles in namespaces that the operator does not serve; nodes report them
        too.
        """
        node, after = change.name, change.after or NO_REPORT
        known = self._known.pop(node, {})
        changed = changes(known, change.before or NO_REPORT, after)
        if change.after is not None:
            self._known[node] = known_pods(known, after, changed)
        for pod in changed.pods & self._job_of_pod.keys():
            self.jobs.add(self._job_of_pod[pod])
        for key in changed.profiles:
            if not self._namespaces or key.namespace in self._namespaces:
                self.profiles.add_later(key, self._delay_seconds)

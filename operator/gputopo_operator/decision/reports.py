"""Finds out which pods and GPUProfiles a new report of a node concerns."""

from collections.abc import Mapping

from gputopo_kube.document import ObjectKey
from gputopo_operator.decision.throughput import differs
from gputopo_operator.workloads import NodeReport, PodReport, ReportChanges

NO_REPORT = NodeReport({}, {}, {})


def changes(known: Mapping[str, PodReport], before: NodeReport, after: NodeReport) -> ReportChanges:
    """Return the pods and GPUProfiles that the change from one report to the next concerns.

    Args:
        known: by UID of the pod, the last report for which this function returned the pod. The new
            rate is compared with the rate of this report and not with that of ``before``.
            Otherwise a rate could drift far by small changes, and no GPUJob would show it.
        before: the former report of the node.
        after: the new report of the node.
    """
    pods = {uid for uid, pod in after.pods.items() if _concerns_job(known.get(uid), pod)}
    samples = _changed_keys(before.samples, after.samples)
    # A pod that starts may name a GPUProfile that does not exist yet.
    started = {
        key
        for key, uids in after.running.items()
        if not uids <= before.running.get(key, frozenset())
    }
    return ReportChanges(frozenset(pods), frozenset(samples | started))


def known_pods(
    known: Mapping[str, PodReport], after: NodeReport, changed: ReportChanges
) -> dict[str, PodReport]:
    """Return the argument ``known`` of the next call of :func:`changes`."""
    return {uid: pod if uid in changed.pods else known[uid] for uid, pod in after.pods.items()}


def _concerns_job(known: PodReport | None, pod: PodReport) -> bool:
    """Return whether a new report of a pod may change the status of its GPUJob."""
    if known is None or known.gpus != pod.gpus:
        return True
    return pod.measured is not None and differs(known.measured, pod.measured)


def _changed_keys(
    before: Mapping[ObjectKey, tuple[str, ...]], after: Mapping[ObjectKey, tuple[str, ...]]
) -> set[ObjectKey]:
    """Return the GPUProfiles with a sample that was not reported before."""
    return {key for key, samples in after.items() if not {*samples} <= {*before.get(key, ())}}

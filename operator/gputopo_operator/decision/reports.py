"""Finds out which pods and GPUProfiles a new report of a node concerns."""

from collections.abc import Mapping

from gputopo_kube.document import ObjectKey
from gputopo_operator.decision.throughput import differs
from gputopo_operator.workloads import NodeReport, PodReport, ReportChanges

NO_REPORT = NodeReport({}, {}, {})


def changes(known: Mapping[str, PodReport], before: NodeReport, after: NodeReport) -> ReportChanges:
    """Return what a new report concerns.

    Args:
        known: for each pod the report that changed something last. A rate is compared with this
            rate and not with that of ``before``; otherwise many small changes would have no effect.
        before: the former report of the node.
        after: the new report.
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
    """Return the value of ``known`` for the next report."""
    return {uid: pod if uid in changed.pods else known[uid] for uid, pod in after.pods.items()}


def _concerns_job(known: PodReport | None, pod: PodReport) -> bool:
    """Return whether the GPUJob of a pod may show something else after a report."""
    if known is None or known.gpus != pod.gpus:
        return True
    return pod.measured is not None and differs(known.measured, pod.measured)


def _changed_keys(
    before: Mapping[ObjectKey, tuple[str, ...]], after: Mapping[ObjectKey, tuple[str, ...]]
) -> set[ObjectKey]:
    """Return the GPUProfiles with a sample that was not reported before."""
    return {key for key, samples in after.items() if not {*samples} <= {*before.get(key, ())}}

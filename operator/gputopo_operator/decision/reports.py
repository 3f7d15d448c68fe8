"""Finds out which decisions are due after a node has sent a new report."""

from collections.abc import Mapping
from dataclasses import replace

from gputopo_cluster.topologies import GpuNode
from gputopo_kube.document import ObjectKey
from gputopo_operator.decision.throughput import differs
from gputopo_operator.model.workloads import NodeReport, PodReport, ReportChanges


def changes(known: Mapping[str, PodReport], before: NodeReport, after: NodeReport) -> ReportChanges:
    """Return which GPUJobs and GPUProfiles must be updated after a new report of a node.

    Args:
        known: maps the UID of each pod to the report that caused the last update of its GPUJob. A
            new rate is compared with this report, and not with ``before``. Otherwise a rate that
            rises by 1 % in each report would never cause an update.
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
    """Return a new ``known``: replace reports of changed pods, drop pods that ``after`` lacks."""
    return {uid: pod if uid in changed.pods else known[uid] for uid, pod in after.pods.items()}


def offers_differ(before: NodeReport, after: NodeReport) -> bool:
    """Return whether a node may offer other GPUs to the queue than before.

    It does not if only the version has changed up to which the agent has seen the node's pods.
    """
    old, new = before.gpus, after.gpus
    if isinstance(old, GpuNode) and isinstance(new, GpuNode):
        return replace(old, pods_version=new.pods_version) != new
    return old != new


def sizes_differ(before: NodeReport, after: NodeReport) -> bool:
    """Return whether new GPUs of a node can change the sizes of its pods.

    These depend on the users and the health of the GPUs, and on the capacity for sized pods.
    """
    old, new = before.gpus, after.gpus
    if isinstance(old, GpuNode) and isinstance(new, GpuNode):
        gpus_differ = (old.users, old.healthy) != (new.users, new.healthy)
        return gpus_differ or before.sized_capacity != after.sized_capacity
    return old != new


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

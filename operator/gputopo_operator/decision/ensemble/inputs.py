"""Builds the input of a decision about one GPUEnsemble from the objects of the cluster."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from gputopo.api.profile import Measurement, ScalingFact
from gputopo.queueing.model import UNPLACED_SECONDS
from gputopo.runtime.times import unix_seconds
from gputopo_cluster.picture import ClusterPicture
from gputopo_kube.document import Document, ObjectKey
from gputopo_operator.decision.ensemble.nodes import own_pods, usable_nodes
from gputopo_operator.model.ensembles import (
    ClusterGpus,
    Ensemble,
    EnsembleInput,
    MemberJob,
    PreprocessorJob,
    PreprocessorService,
    member_job_name,
)
from gputopo_operator.model.queued import GpuPod


@dataclass(frozen=True, slots=True)
class EnsembleObjects:
    """The parsed objects of the cluster.

    Attributes:
        jobs: the GPUJobs of all ensembles, by ensemble and name of the member.
        remains: what still exists of earlier GPUJobs, by their namespace and name.
        pods: the pods of all namespaces that request GPUs and have not ended.
        cluster: the GPUs of the nodes, with these pods.
        rules: name, labels and taints of each Node.
        facts: measured rates by GPUProfile of the ensemble.
        measured: newest measurements of all nodes, by UID of the pod.
        preprocessors: Jobs of preprocessors, by UID of the ensemble that owns them.
        service: the Service of the preprocessor of the ensemble.
        ensembles: UIDs of the other GPUEnsembles.
    """

    jobs: Mapping[ObjectKey, Mapping[str, MemberJob]]
    remains: Mapping[ObjectKey, str]
    pods: Sequence[GpuPod]
    cluster: ClusterPicture
    rules: Mapping[str, Document]
    facts: Mapping[str, Sequence[ScalingFact]]
    measured: Mapping[str, Measurement]
    preprocessors: Mapping[str, Sequence[PreprocessorJob]]
    service: PreprocessorService | None = None
    ensembles: Mapping[ObjectKey, str] = field(default_factory=dict)


def ensemble_input(ensemble: Ensemble, objects: EnsembleObjects, now: str) -> EnsembleInput:
    """Return the input of the decision; ``now`` is an RFC 3339 time."""
    jobs, spec = objects.jobs.get(ensemble.key, {}), ensemble.spec
    reserved = _reserved(objects, ensemble.key, now)
    cluster = ClusterGpus(objects.cluster, objects.rules, reserved)
    names = {
        member.name: ObjectKey(
            ensemble.key.namespace, member_job_name(ensemble.key.name, member.name)
        )
        for member in (spec.members if spec else ())
    }
    own = own_pods(ensemble, jobs)
    return EnsembleInput(
        ensemble=ensemble,
        jobs=jobs,
        remains={
            name: objects.remains[key] for name, key in names.items() if key in objects.remains
        },
        facts=objects.facts,
        measured=objects.measured,
        nodes=usable_nodes(cluster, spec, own) if spec else (),
        now=now,
        preprocessors=objects.preprocessors.get(ensemble.uid, ()),
        service=objects.service,
    )


def _reserved(objects: EnsembleObjects, ensemble: ObjectKey, now: str) -> dict[str, int]:
    """Return the GPUs of each node that are planned for members of other ensembles.

    Only members whose pods are not bound count here; bound pods use their GPUs. A GPUJob that is
    suspended, or whose pod cannot be created, gets no pod, so other members may use its GPUs
    meanwhile. So they may if a queue, or the scheduler, has not taken it for three minutes. Any
    client can create a GPUJob with the labels of a member, so GPUJobs of other owners do not count.
    """
    rejected = {
        pod.uid
        for pod in objects.pods
        if pod.node is None and pod.rejected is not False and _is_long_ago(pod.created, now)
    }
    reserved: dict[str, int] = {}
    for key, members in objects.jobs.items():
        uid = objects.ensembles.get(key)
        for job in members.values() if key != ensemble and uid else ():
            if job.node and job.owner_uid == uid and _starts(job, rejected, now):
                reserved[job.node] = reserved.get(job.node, 0) + job.gpus
    return reserved


def _starts(job: MemberJob, rejected: Collection[str], now: str) -> bool:
    """Return whether a member has no node yet, and gets its pod or its node soon."""
    if job.deleting or job.suspended or job.result is not None:
        return False
    if job.pod is not None:
        return job.pod.node is None and job.pod.uid not in rejected
    return not job.pod_error and not _is_long_ago(job.queued_since, now)


def _is_long_ago(time: str | None, now: str) -> bool:
    then, current = unix_seconds(time), unix_seconds(now) or 0.0
    return then is not None and current - then >= UNPLACED_SECONDS

"""Judges the measured speeds of pods that share a GPU: which pod should leave, and why."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from gputopo.api.profile import Measurement, WorkloadFacts
from gputopo.api.shares import SharingLimits
from gputopo.sharing.facts import sharing_workload
from gputopo.sharing.judge import MeasuredJob, SharingJudgement, SharingVerdict, judge_sharing
from gputopo.topology.model import Gpu, GpuUuid
from gputopo_cluster.topologies import GpuNode, UnreadableTopology
from gputopo_kube.document import ObjectKey
from gputopo_operator.decision.conditions import truncated
from gputopo_operator.model.jobs import ObjectEvent

SharingKey: TypeAlias = tuple[str, ...]
"""UUID of a shared GPU, and the UIDs of its pods in the order of their creation."""

_MICRO = 1e-6


@dataclass(frozen=True, slots=True)
class JudgedPod:
    """A live pod with a share of a GPU.

    Attributes:
        profile: its GPUProfile; None if it names none.
        created: Unix time of its creation in seconds.
    """

    uid: str
    key: ObjectKey
    profile: ObjectKey | None
    created: float
    limits: SharingLimits


@dataclass(frozen=True, slots=True)
class JudgedGpu:
    """A GPU that at least two pods share, in the order in which they were created."""

    uuid: GpuUuid
    model: str
    pods: tuple[JudgedPod, ...]

    @property
    def last(self) -> JudgedPod:
        """The pod that came last."""
        return self.pods[-1]

    @property
    def key(self) -> SharingKey:
        """Identifies the GPU with these pods."""
        return (self.uuid, *(pod.uid for pod in self.pods))


def has_shared_gpus(node: GpuNode | UnreadableTopology) -> bool:
    """Return whether several pods share a GPU of the node."""
    return any(len(uids) > 1 for uids in _sharers(node).values())


def shared_gpus(
    node: GpuNode | UnreadableTopology, pods: Mapping[str, JudgedPod]
) -> list[JudgedGpu]:
    """Return the GPUs that at least two pods share.

    A GPU is left out while one of its pods is not in ``pods``, for example because it is ending.
    ``pods`` has the UID of each pod as its key.
    """
    found = []
    for gpu, uids in _sharers(node).items():
        present = [pods[uid] for uid in uids if uid in pods]
        if len(present) == len(uids) > 1:
            ordered = sorted(present, key=lambda pod: (pod.created, pod.uid))
            found.append(JudgedGpu(gpu.uuid, gpu.model, tuple(ordered)))
    return found


def _sharers(node: GpuNode | UnreadableTopology) -> dict[Gpu, list[str]]:
    """Return the UIDs of the pods that share each GPU; empty for a pod that is not identified."""
    found: dict[Gpu, list[str]] = {}
    if isinstance(node, GpuNode):
        for user in node.users:
            if user.share is not None:
                found.setdefault(node.topology.gpu_at[user.gpu], []).append(user.uid or "")
    return found


def judge(
    gpu: JudgedGpu,
    measured: Mapping[str, Measurement],
    facts: Mapping[ObjectKey, WorkloadFacts],
    default_percent: int,
) -> SharingJudgement:
    """Judge the pods of a GPU.

    Args:
        gpu: the GPU and its pods.
        measured: the newest measurement of each pod, by UID.
        facts: what is known of each workload.
        default_percent: limit of the slowdown of pods that declare none.
    """
    return judge_sharing(
        [
            _measured_job(pod, gpu.model, measured.get(pod.uid), facts, default_percent)
            for pod in gpu.pods
        ]
    )


def _measured_job(
    pod: JudgedPod,
    model: str,
    measured: Measurement | None,
    facts: Mapping[ObjectKey, WorkloadFacts],
    default_percent: int,
) -> MeasuredJob:
    limit = pod.limits.max_slowdown_percent
    rate = measured.micro_steps_per_second if measured and measured.state == "Steady" else None
    error = (measured.ci_permille or 0) if measured else 0
    return MeasuredJob(
        str(pod.key),
        str(pod.profile or ""),
        solo_rate(facts.get(pod.profile), model) if pod.profile else None,
        rate * _MICRO if rate else None,
        error,
        default_percent if limit is None else limit,
    )


def solo_rate(facts: WorkloadFacts | None, model: str) -> float | None:
    """Return the measured steps per second alone on one GPU of a model; None if unknown."""
    if facts is None or facts.gpu_model != model:
        return None
    return sharing_workload("", facts).steps_per_second or None


def sharing_event(gpu: JudgedGpu, judgement: SharingJudgement, rejection: str) -> ObjectEvent:
    """Return the event on the pod that came last.

    Args:
        gpu: the GPU with its pods.
        judgement: why sharing does not pay.
        rejection: why the pod was not evicted although it permits it; empty if it was evicted.
    """
    beside = ", ".join(str(pod.key) for pod in gpu.pods[:-1])
    what = f"sharing {gpu.uuid} with {beside} does not pay: {judgement.text}"
    if not gpu.last.limits.moves:
        advice = "the pod stays, because it does not say gputopo.io/sharing-if-slow: Move"
    elif rejection:
        advice = f"the pod stays, because its eviction was rejected, trying again: {rejection}"
    else:
        return ObjectEvent("Normal", "MovedFromSharedGPU", truncated(f"evicted, because {what}"))
    return ObjectEvent("Warning", "SharingDoesNotPay", truncated(f"{what}; {advice}"))


def due(
    bad_since: Mapping[SharingKey, float],
    verdicts: Mapping[SharingKey, SharingVerdict],
    now: float,
    seconds: float,
) -> tuple[dict[SharingKey, float], set[SharingKey]]:
    """Return since when each sharing does not pay, and the sharings to end.

    Args:
        bad_since: the first value of the result of the check before this one.
        verdicts: those of this check; a sharing that is not among them has ended.
        now: time of this check.
        seconds: how long each check must show that a sharing does not pay.

    >>> due({("GPU-0", "a", "b"): 10.0}, {("GPU-0", "a", "b"): SharingVerdict.END}, 70.0, 60.0)
    ({('GPU-0', 'a', 'b'): 10.0}, {('GPU-0', 'a', 'b')})
    """
    bad = {
        key: bad_since.get(key, now)
        for key, verdict in verdicts.items()
        if verdict is not SharingVerdict.KEEP
    }
    return bad, {key for key, since in bad.items() if now - since >= seconds}

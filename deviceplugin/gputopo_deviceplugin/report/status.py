"""Builds the status of the GPUTopology: conditions, and each GPU's user. Pure functions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gputopo.api.alignment import KubeletAlignment
from gputopo.api.model import Condition, ConditionStatus
from gputopo.api.names import READY_CONDITION
from gputopo.api.profile import NodeSample
from gputopo.api.shares import gpu_of, is_share
from gputopo.api.v1alpha1 import (
    CounterStatus,
    GPUTopologyStatus,
    ObservedGpu,
    ObservedShare,
    SharingCapacity,
    SizedCapacity,
)
from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.admit.usage import GpuUser, PodState
from gputopo_deviceplugin.apiserver.node_pods import PodsVersion
from gputopo_deviceplugin.conditions import NodeCondition, not_ready
from gputopo_deviceplugin.gpus.hardware import NodeHardware
from gputopo_deviceplugin.gpus.health import Health
from gputopo_deviceplugin.gpus.state import MpsFaults
from gputopo_deviceplugin.measure.records import NodeMeasurements, merge_samples
from gputopo_deviceplugin.report.node_conditions import (
    allocations_as_placed,
    gpus_healthy,
    processes_tracked,
)
from gputopo_kube.pods import version_number


@dataclass(frozen=True, slots=True)
class NodeObservation:
    """The observations of the agent on its node at one time.

    Attributes:
        hardware: topology and health.
        ready: whether GPUs are offered to new containers.
        gpus: health and user of every GPU.
        differing: messages about containers whose GPUs are not the intended GPUs.
        pods_version: the observation includes all changes of pods up to ``pods_version.newest``.
            ``pods_version`` is None until kubelet has listed its pods. Until then,
            ``observedPodsVersion`` of the status does not change.
        processes_visible: False if the agent cannot see processes of deleted pods.
        numa: whether kubelet gets the NUMA nodes of the GPUs; None if the agent must not do that.
        cpus_bound: whether containers are limited to CPUs near their GPUs; None if the agent must
            not do that.
        alignment: how kubelet takes NUMA nodes; None if this limits no choice of GPUs.
        measured: rates and samples; None until the agent has measured for some time.
        counters: what the agent reads counters from; None if it reads none.
        sharing: how pods share GPUs; None if the agent must not report it.
        mps: whether the component for MPS responds; None if the node offers no shares.
        counted_samples: whether samples have traffic and load; None if they must not.
        sized_capacity: CPUs, memory and GPUs for pods that gputopo sizes; None if unknown.
    """

    hardware: NodeHardware
    ready: NodeCondition
    gpus: Sequence[ObservedGpu]
    differing: Sequence[str]
    pods_version: PodsVersion | None
    processes_visible: bool
    numa: NodeCondition | None = None
    cpus_bound: NodeCondition | None = None
    alignment: KubeletAlignment | None = None
    measured: NodeMeasurements | None = None
    sized_capacity: SizedCapacity | None = None
    counters: Sequence[CounterStatus] | None = None
    counted_samples: bool | None = True
    sharing: SharingCapacity | None = None
    mps: NodeCondition | None = None


_NO_FAULTS: Final = MpsFaults()

STOPPING: Final = not_ready(
    "Stopping", "the agent is stopping; the node is ready again when its next agent runs"
)


def observed_gpus(
    health: Health,
    users: Mapping[GpuUuid, GpuUser],
    mps: MpsFaults = _NO_FAULTS,
) -> list[ObservedGpu]:
    """Return health and users of every GPU, in the order of ``health``.

    If pods share a GPU, the first of them is also the user of the GPU itself.
    """
    shares: dict[GpuUuid, list[ObservedShare]] = {}
    for device in sorted(filter(is_share, users)):
        share = ObservedShare(id=device).model_copy(update=_user_fields(users[device]))
        shares.setdefault(gpu_of(device), []).append(share)
    return [
        _observed_gpu(uuid, fault, users.get(uuid), shares.get(uuid, []), mps)
        for uuid, fault in health.items()
    ]


def _observed_gpu(
    uuid: GpuUuid,
    fault: str | None,
    user: GpuUser | None,
    shares: list[ObservedShare],
    mps: MpsFaults,
) -> ObservedGpu:
    gpu = ObservedGpu(
        uuid=uuid,
        healthy=fault is None,
        reason=fault,
        shares=shares or None,
        sharing_fault=mps.sharing_fault(uuid),
        whole_fault=mps.whole.get(uuid),
    )
    if user is not None:
        return gpu.model_copy(update=_user_fields(user))
    if shares:
        return gpu.model_copy(update=shares[0].model_dump(exclude={"id"}))
    return gpu


def _user_fields(user: GpuUser) -> dict[str, Any]:
    return {
        "pod_uid": user.uid,
        "namespace": user.key.namespace,
        "pod": user.key.name,
        "container": user.container,
        "pod_deleted": None if user.state is PodState.LIVE else True,
    }


def build_status(
    observation: NodeObservation, *, generation: int, before: GPUTopologyStatus, now: str
) -> GPUTopologyStatus:
    """Return the status to publish. The result equals ``before`` if nothing has changed.

    Args:
        observation: observation of the node.
        generation: generation of the spec to which the status refers.
        before: the published status; conditions that do not change keep their transition times.
        now: current time in RFC 3339, for conditions that change.
    """
    wanted = [
        observation.ready,
        gpus_healthy(observation.hardware.health),
        allocations_as_placed(observation.differing),
        processes_tracked(visible=observation.processes_visible),
        *filter(None, (observation.numa, observation.cpus_bound, observation.mps)),
    ]
    known = {condition.type: condition for condition in before.conditions}
    topology, version = observation.hardware.topology, observation.pods_version
    measured = observation.measured or NodeMeasurements(tuple(before.measurements))
    status = GPUTopologyStatus(
        observed_generation=generation,
        observed_pods_version=_pods_version(before.observed_pods_version, version),
        fingerprint=topology.fingerprint if topology else None,
        conditions=[_condition(each, known.get(each.type), generation, now) for each in wanted],
        gpus=[*observation.gpus],
        sized_capacity=observation.sized_capacity,
        alignment=observation.alignment,
        measurements=[*measured.measurements],
        samples=merge_samples(before.samples, _samples(observation, measured)),
        counters=[*(observation.counters or ())],
        sharing=observation.sharing,
    )
    if version is None or _of_gpus(status) == _of_gpus(before):
        # Another version of the pods would make the extender evaluate the node again.
        return status
    return status.model_copy(update={"observed_pods_version": str(version.newest)})


def _samples(observation: NodeObservation, measured: NodeMeasurements) -> Sequence[NodeSample]:
    if observation.counted_samples:
        return measured.samples
    uncounted = {"traffic": None, "load": None}
    return [sample.model_copy(update=uncounted) for sample in measured.samples]


def _of_gpus(status: GPUTopologyStatus) -> GPUTopologyStatus:
    """Return the part of the status that decides which pods may get which GPUs."""
    others: dict[str, Any] = {
        "measurements": [],
        "samples": [],
        "sized_capacity": None,
        "counters": [],
    }
    return status.model_copy(update=others)


def _pods_version(before: str | None, version: PodsVersion | None) -> str:
    """Return ``before`` if it is in the range ``version``, else the highest value of the range.

    For example, the range is 10 to 20. If ``before`` is 15, the result is 15: the status needs no
    change. If ``before`` is 9, the result is 20. If ``before`` is 25, etcd was restored from an
    older snapshot, so the result is 20.
    """
    if version is None:
        return before or "0"
    valid = before is not None and version.needed <= version_number(before) <= version.newest
    return before if before is not None and valid else str(version.newest)


def stopping_conditions(before: GPUTopologyStatus, now: str) -> list[Condition]:
    """Return all conditions to publish when the agent ends. Only ``Ready`` changes, to false."""
    known = {condition.type: condition for condition in before.conditions}
    old = known.get(READY_CONDITION)
    ready = _condition(STOPPING, old, before.observed_generation, now)
    return [*({**known, READY_CONDITION: ready}).values()]


def _condition(
    wanted: NodeCondition, old: Condition | None, generation: int | None, now: str
) -> Condition:
    status: ConditionStatus = "True" if wanted.holds else "False"
    return Condition(
        type=wanted.type,
        status=status,
        reason=wanted.reason,
        message=wanted.message[:4096],
        last_transition_time=old.last_transition_time if old and old.status == status else now,
        observed_generation=generation,
    )

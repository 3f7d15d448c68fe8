"""What kubelet really gave: the status of every GPU, and the conditions of the node. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gputopo.api.names import READY_CONDITION
from gputopo.api.v1alpha1 import Condition, ConditionStatus, GPUTopologyStatus, ObservedGpu
from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.admit.offer import Withheld
from gputopo_deviceplugin.admit.verify import GpuUser
from gputopo_deviceplugin.gpus.hardware import NodeHardware
from gputopo_deviceplugin.gpus.health import Health
from gputopo_deviceplugin.pods import PodsVersion
from gputopo_kube.pods import version_number


@dataclass(frozen=True, slots=True)
class Serving:
    """Whether the agent serves the GPUs to kubelet, and why not: one word and a text."""

    ready: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Observed:
    """The GPUs in use, and how far that accounts for the changes of pods.

    Attributes:
        gpus: health and user of every GPU.
        pods_version: of the pods that were known before users and processes were looked at; None
            where kubelet has not listed its pods yet, so that the status accounts for nothing new.
        processes_seen: False where no process of a deleted pod can be seen.
    """

    gpus: Sequence[ObservedGpu]
    pods_version: PodsVersion | None
    processes_seen: bool


_Wanted = tuple[str, bool, str, str]
"""A condition: its type, whether it holds, one word why, and a text."""

STOPPING: Final = Serving(
    ready=False, reason="Stopping", message="the agent was told to end; another one comes"
)


def observed_gpus(health: Health, users: Mapping[GpuUuid, GpuUser]) -> list[ObservedGpu]:
    """Return health and user of every GPU, in the order of ``health``."""
    result = []
    for uuid, fault in health.items():
        gpu = ObservedGpu(uuid=uuid, healthy=fault is None, reason=fault)
        if uuid in users:
            gpu = gpu.model_copy(update=_user(users[uuid]))
        result.append(gpu)
    return result


def _user(holder: GpuUser) -> dict[str, Any]:
    return {
        "pod_uid": holder.uid,
        "namespace": holder.key.namespace,
        "pod": holder.key.name,
        "container": holder.container,
        "pod_deleted": True if holder.gone is not None else None,
    }


def status_of(
    hardware: NodeHardware,
    observed: Observed,
    serving: Serving,
    differing: Sequence[str],
    *,
    generation: int,
    before: GPUTopologyStatus,
    now: str,
) -> GPUTopologyStatus:
    """Return the status to publish; equal to ``before`` where nothing changed.

    Args:
        hardware: topology and health.
        observed: the GPUs in use.
        serving: whether kubelet is served.
        differing: what is to be said of containers with other GPUs than they were given.
        generation: of the spec that the status speaks of.
        before: the status as published; its conditions keep their transition times.
        now: RFC 3339 time of a transition.
    """
    wanted = [
        (READY_CONDITION, serving.ready, serving.reason, serving.message),
        _gpus_healthy(hardware.health),
        _as_placed(differing),
        _processes_seen(observed),
    ]
    known = {condition.type: condition for condition in before.conditions}
    conditions = [_condition(one, known.get(one[0]), generation, now) for one in wanted]
    topology = hardware.topology
    status = GPUTopologyStatus(
        observed_generation=generation,
        observed_pods_version=_pods_version(before.observed_pods_version, observed.pods_version),
        fingerprint=topology.fingerprint if topology else None,
        conditions=conditions,
        gpus=[*observed.gpus],
    )
    if status == before:
        return before
    if observed.pods_version is None:
        return status
    newest = str(observed.pods_version.newest)
    return status.model_copy(update={"observed_pods_version": newest})


def _pods_version(before: str | None, version: PodsVersion | None) -> str:
    """Return the version to publish: that of ``before`` as long as it serves.

    A published version above the newest one was written before etcd was restored from a snapshot.
    """
    if version is None:
        return before or "0"
    known = before is not None and version.needed <= version_number(before) <= version.newest
    return before if before is not None and known else str(version.newest)


def _gpus_healthy(health: Health) -> _Wanted:
    faults = [f"{uuid}: {fault}" for uuid, fault in health.items() if fault is not None]
    reason = "SomeUnhealthy" if faults else "AllHealthy"
    return "GPUsHealthy", not faults, reason, "; ".join(faults) or "every GPU can be given out"


def _as_placed(differing: Sequence[str]) -> _Wanted:
    message = "; ".join(differing) or "every container has the GPUs that it was given"
    reason = "SomeDiffer" if differing else "AllAsPlaced"
    return "AllocationsAsPlaced", not differing, reason, message


def _processes_seen(observed: Observed) -> _Wanted:
    if observed.processes_seen:
        message = "GPUs of a deleted pod are in use until its last process has ended"
        return "ProcessesTracked", True, "CgroupsFound", message
    message = (
        "no cgroup of kubelet found: GPUs of a deleted pod count as free at once; mount the "
        "host's /sys/fs/cgroup at --cgroup-dir"
    )
    return "ProcessesTracked", False, "CgroupsNotFound", message


def withdrawn(before: GPUTopologyStatus, now: str) -> list[Condition]:
    """Return the conditions of a status whose agent ends; nothing else of it changes."""
    known = {condition.type: condition for condition in before.conditions}
    told = (READY_CONDITION, STOPPING.ready, STOPPING.reason, STOPPING.message)
    ready = _condition(told, known.get(READY_CONDITION), before.observed_generation, now)
    return [*({**known, READY_CONDITION: ready}).values()]


def _condition(
    wanted: _Wanted, old: Condition | None, generation: int | None, now: str
) -> Condition:
    kind, holds, reason, message = wanted
    status: ConditionStatus = "True" if holds else "False"
    return Condition(
        type=kind,
        status=status,
        reason=reason,
        message=message[:4096],
        last_transition_time=old.last_transition_time if old and old.status == status else now,
        observed_generation=generation,
    )


def serving_of(
    hardware: NodeHardware, withheld: Withheld | None, *, registered: bool, heard: bool
) -> Serving:
    """Return whether kubelet is served, and may give GPUs to new containers."""
    if withheld is not None:
        return Serving(ready=False, reason=withheld.reason, message=withheld.message)
    if hardware.fault is not None:
        return Serving(ready=False, reason="NVMLUnavailable", message=hardware.fault)
    if not registered:
        return Serving(ready=False, reason="NotRegistered", message="kubelet does not know us yet")
    if not heard:
        return Serving(ready=False, reason="NotHeard", message="kubelet does not listen to us")
    return Serving(ready=True, reason="Serving", message="kubelet is served")

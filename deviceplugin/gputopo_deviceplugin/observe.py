"""What kubelet really gave: the status of every GPU, and the conditions of the node. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gputopo.api.v1alpha1 import Condition, GPUTopologyStatus, ObservedGpu
from gputopo_deviceplugin.health import Health
from gputopo_deviceplugin.identify import ListedPod
from gputopo_deviceplugin.pods import PodKey, PodRecord
from gputopo_deviceplugin.state import Hardware


@dataclass(frozen=True, slots=True)
class Serving:
    """Whether the agent serves the GPUs to kubelet, and why not: one word and a text."""

    ready: bool
    reason: str
    message: str


def observed_gpus(
    health: Health, listed: Sequence[ListedPod], pods: Mapping[PodKey, PodRecord]
) -> list[ObservedGpu]:
    """Return health and holder of every GPU.

    Args:
        health: of the GPUs of this node, in the order of the result.
        listed: kubelet's books.
        pods: this node's pods; one that is not there is a holder without UID.
    """
    holders = {
        gpu: (pod.key, container)
        for pod in listed
        for container, held in pod.containers.items()
        for gpu in held
    }
    result = []
    for uuid, fault in health.items():
        gpu = ObservedGpu(uuid=uuid, healthy=fault is None, reason=fault)
        if uuid in holders:
            key, container = holders[uuid]
            holder = {
                "pod_uid": pods[key].uid if key in pods else None,
                "namespace": key.namespace,
                "pod": key.name,
                "container": container,
            }
            gpu = gpu.model_copy(update=holder)
        result.append(gpu)
    return result


def status_of(
    hardware: Hardware,
    gpus: list[ObservedGpu],
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
        gpus: health and holder of every GPU.
        serving: whether kubelet is served.
        differing: what is to be said of containers with other GPUs than they were given.
        generation: of the spec that the status speaks of.
        before: the status as published; its conditions keep their transition times.
        now: RFC 3339 time of a transition.
    """
    sick = [f"{uuid}: {fault}" for uuid, fault in hardware.health.items() if fault is not None]
    wanted = [
        ("Ready", serving.ready, serving.reason, serving.message),
        (
            "GPUsHealthy",
            not sick,
            "SomeUnhealthy" if sick else "AllHealthy",
            "; ".join(sick) or "every GPU can be given out",
        ),
        (
            "AllocationsAsPlaced",
            not differing,
            "SomeDiffer" if differing else "AllAsPlaced",
            "; ".join(differing) or "every container has the GPUs that it was given",
        ),
    ]
    known = {condition.type: condition for condition in before.conditions}
    conditions = []
    for kind, holds, reason, message in wanted:
        status = "True" if holds else "False"
        old = known.get(kind)
        since = old.last_transition_time if old is not None and old.status == status else now
        conditions.append(
            Condition(
                type=kind,
                status=status,
                reason=reason,
                message=message[:4096],
                last_transition_time=since,
                observed_generation=generation,
            )
        )
    topology = hardware.topology
    return GPUTopologyStatus(
        observed_generation=generation,
        fingerprint=topology.fingerprint if topology else None,
        conditions=conditions,
        gpus=gpus,
    )


def competitor_of(node: Mapping[str, Any], competitors: Collection[str]) -> str | None:
    """Return why this node's GPUs must not be served, None where they may be.

    Another plugin that offers the same GPUs under another name would book them twice unseen.
    """
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    for name in sorted(competitors):
        if str(allocatable.get(name, "0")) != "0":
            return (
                f"the node offers {allocatable[name]} {name}: another plugin serves the same "
                "GPUs; remove it from this node"
            )
    return None


def serving_of(hardware: Hardware, competitor: str | None, *, registered: bool) -> Serving:
    """Return whether kubelet is served."""
    if competitor is not None:
        return Serving(ready=False, reason="CompetingPlugin", message=competitor)
    if hardware.fault is not None:
        return Serving(ready=False, reason="NVMLUnavailable", message=hardware.fault)
    if not registered:
        return Serving(ready=False, reason="NotRegistered", message="kubelet does not know us yet")
    return Serving(ready=True, reason="Serving", message="kubelet is served")

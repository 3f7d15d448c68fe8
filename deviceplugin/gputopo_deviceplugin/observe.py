"""What kubelet really gave: the status of every GPU, and the conditions of the node. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gputopo.api.names import READY_CONDITION
from gputopo.api.v1alpha1 import Condition, ConditionStatus, GPUTopologyStatus, ObservedGpu
from gputopo_deviceplugin.health import Health
from gputopo_deviceplugin.identify import ListedPod
from gputopo_deviceplugin.offer import Withheld
from gputopo_deviceplugin.pods import PodKey, PodRecord
from gputopo_deviceplugin.state import Hardware


@dataclass(frozen=True, slots=True)
class Serving:
    """Whether the agent serves the GPUs to kubelet, and why not: one word and a text."""

    ready: bool
    reason: str
    message: str


_Wanted = tuple[str, bool, str, str]
"""A condition: its type, whether it holds, one word why, and a text."""

STOPPING: Final = Serving(
    ready=False, reason="Stopping", message="the agent was told to end; another one comes"
)


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
    wanted: list[_Wanted] = [
        (READY_CONDITION, serving.ready, serving.reason, serving.message),
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
    conditions = [_condition(one, known.get(one[0]), generation, now) for one in wanted]
    topology = hardware.topology
    return GPUTopologyStatus(
        observed_generation=generation,
        fingerprint=topology.fingerprint if topology else None,
        conditions=conditions,
        gpus=gpus,
    )


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
    hardware: Hardware, withheld: Withheld | None, *, registered: bool, heard: bool
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

"""Responds to the events of the container runtime with the CPUs of containers with GPUs.

An error in a response would make the runtime fail the container. So each failure is logged and
counted, and gives an empty response, with which the runtime continues as without the plugin.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from gputopo.alignment.cpuset import CpusetDecision, CpusetReason, MachineCpus
from gputopo.runtime.log import fields
from gputopo.topology.model import Gpu, GpuUuid
from gputopo_deviceplugin.gpus.cpulist import format_cpu_list
from gputopo_deviceplugin.nri.containers import RUNNING, milli_cpu, parse_container
from gputopo_deviceplugin.nri.known import KnownContainers
from gputopo_deviceplugin.nri.v1alpha1 import api_pb2 as api

_EVENTS: Final = (
    api.CREATE_CONTAINER,
    api.UPDATE_CONTAINER,
    api.STOP_CONTAINER,
    api.REMOVE_CONTAINER,
)

_log = logging.getLogger(__name__)


class CpusetMetrics(Protocol):
    """Counts what the plugin does."""

    def count_cpuset(self, result: str) -> None:
        """Count a container: ``set``, ``repaired`` or ``released``."""

    def count_failure(self, operation: str) -> None:
        """Count a failed call."""


class CpusetPlugin:
    """One connection of the plugin to the runtime.

    Attributes:
        synchronized: whether the runtime has sent its containers.
        known: the containers with GPUs.
    """

    def __init__(
        self,
        gpus: Mapping[GpuUuid, Gpu],
        read_machine: Callable[[], MachineCpus],
        metrics: CpusetMetrics,
        on_change: Callable[[], None],
    ) -> None:
        """Decide for containers with ``gpus``; ``on_change`` runs after each decision."""
        self._gpus = gpus
        self._read_machine = read_machine
        self._metrics = metrics
        self._on_change = on_change
        self._pods: dict[str, api.PodSandbox] = {}
        self._containers: list[api.Container] = []
        self._methods: dict[str, Callable[[bytes], bytes]] = {
            "Configure": _configure,
            "Synchronize": self._synchronize,
            "CreateContainer": self._create,
            "UpdateContainer": self._update,
            "StopContainer": self._stop,
            "RemoveContainer": self._remove,
            "StateChange": self._state_change,
        }
        self.synchronized = False
        self.known = KnownContainers()

    def respond(self, method: str, payload: bytes) -> bytes:
        """Return the response to a call of the runtime; empty for other methods and failures."""
        try:
            return self._methods[method](payload) if method in self._methods else b""
        except Exception:  # noqa: BLE001 - any error would fail the container
            _log.exception("NRI call failed, the container is left unchanged: %s", method)
            self._metrics.count_failure("nri")
            return b""

    def _synchronize(self, payload: bytes) -> bytes:
        """Repair all containers, after the runtime has sent the last part of its list."""
        request = api.SynchronizeRequest.FromString(payload)
        self._pods |= {pod.id: pod for pod in request.pods}
        self._containers += request.containers
        if request.more:
            return api.SynchronizeResponse(more=True).SerializeToString()
        running = [each for each in self._containers if each.state in RUNNING]
        running.sort(key=lambda each: each.created_at)
        found = [
            parse_container(self._pods[each.pod_sandbox_id], each, self._gpus)
            for each in running
            if each.pod_sandbox_id in self._pods
        ]
        self._pods, self._containers = {}, []
        self.known = KnownContainers(each for each in found if each is not None)
        self.synchronized = True
        updates = self._updates(self._repair())
        return api.SynchronizeResponse(update=updates).SerializeToString()

    def _create(self, payload: bytes) -> bytes:
        request = api.CreateContainerRequest.FromString(payload)
        container = parse_container(request.pod, request.container, self._gpus)
        if container is None:
            return b""
        self.known.add(container)
        decisions = self._repair()
        own = decisions.pop(container.instance, None)
        response = api.CreateContainerResponse(update=self._updates(decisions))
        if own is not None and own.cpus is not None:
            response.adjust.linux.resources.cpu.cpus = format_cpu_list(own.cpus)
            self._count(container.instance, "set", own)
        return response.SerializeToString()

    def _update(self, payload: bytes) -> bytes:
        """Decide again when the CPU request of a container changes."""
        request = api.UpdateContainerRequest.FromString(payload)
        shares = request.linux_resources.cpu.shares.value
        if not shares or request.container.id not in self.known:
            return b""
        self.known.change_request(request.container.id, milli_cpu(shares))
        updates = self._updates(self._repair())
        return api.UpdateContainerResponse(update=updates).SerializeToString()

    def _stop(self, payload: bytes) -> bytes:
        """Decide again for the containers that had too few CPUs."""
        request = api.EndContainerRequest.FromString(payload)
        if request.container.id not in self.known:
            return b""
        self.known.remove(request.container.id)
        updates = self._updates(self._repair())
        return api.StopContainerResponse(update=updates).SerializeToString()

    def _remove(self, payload: bytes) -> bytes:
        self.known.remove(api.EndContainerRequest.FromString(payload).container.id)
        return b""

    def _state_change(self, payload: bytes) -> bytes:
        event = api.StateChangeEvent.FromString(payload)
        if event.event == api.REMOVE_CONTAINER:
            self.known.remove(event.container.id)
        return b""

    def _repair(self) -> dict[str, CpusetDecision]:
        decisions = self.known.repair(self._read_machine())
        self._on_change()
        return decisions

    def _updates(self, decisions: Mapping[str, CpusetDecision]) -> list[api.ContainerUpdate]:
        """Return updates of running containers, which the runtime ignores if a container ends."""
        updates = []
        for instance, decision in decisions.items():
            update = api.ContainerUpdate(container_id=instance, ignore_failure=True)
            update.linux.resources.cpu.cpus = format_cpu_list(decision.cpus or ())
            updates.append(update)
            released = decision.reason is CpusetReason.RELEASE
            self._count(instance, "released" if released else "repaired", decision)
        return updates

    def _count(self, instance: str, result: str, decision: CpusetDecision) -> None:
        cpus = format_cpu_list(decision.cpus or ())
        _log.info("CPUs of a container %s", fields(result=result, container=instance, cpus=cpus))
        self._metrics.count_cpuset(result)


def _configure(payload: bytes) -> bytes:
    """Subscribe to the events."""
    request = api.ConfigureRequest.FromString(payload)
    name, version = request.runtime_name, request.runtime_version
    _log.info("NRI connected %s", fields(runtime=name, version=version))
    events = sum(1 << (event - 1) for event in _EVENTS)
    return api.ConfigureResponse(events=events).SerializeToString()

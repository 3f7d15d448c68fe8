"""Responds to the events of the container runtime with the CPUs of containers with GPUs.

An error in a response would make the runtime fail the container. So each failure is logged and
counted, and gives an empty response, with which the runtime continues as without the plugin.
"""

import logging
from collections.abc import Callable, Collection, Mapping
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
    api.POST_START_CONTAINER,
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
        # The containers that have not started, each with its last update, if there was one.
        self._starting: dict[str, api.ContainerUpdate | None] = {}
        self._repeated: list[api.ContainerUpdate] = []
        self._methods: dict[str, Callable[[bytes], bytes]] = {
            "Configure": _configure,
            "Synchronize": self._synchronize,
            "CreateContainer": self._create,
            "PostStartContainer": self._post_start,
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

    def take_updates(self) -> bytes:
        """Return the request with the updates that must be repeated now; empty for none."""
        updates, self._repeated = self._repeated, []
        return api.UpdateContainersRequest(update=updates).SerializeToString()

    def _synchronize(self, payload: bytes) -> bytes:
        """Repair all containers, after the runtime has sent the last part of its list.

        The limits of the other containers are set once more: an agent that ended while a container
        started may not have repeated its update (:meth:`_started`).
        """
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
        created = (each.id for each in running if each.state == api.CONTAINER_CREATED)
        self._starting = dict.fromkeys(created)
        self.synchronized = True
        updates = self._updates(self._repair())
        updates += [self._update_of(*each) for each in self.known.bound.items()]
        return api.SynchronizeResponse(update=updates).SerializeToString()

    def _create(self, payload: bytes) -> bytes:
        request = api.CreateContainerRequest.FromString(payload)
        container = parse_container(request.pod, request.container, self._gpus)
        if container is None:
            return b""
        self.known.add(container)
        self._starting[container.instance] = None
        decisions = self._repair()
        own = decisions.pop(container.instance, None)
        response = api.CreateContainerResponse(update=self._updates(decisions))
        if own is not None and own.cpus is not None:
            response.adjust.linux.resources.cpu.cpus = format_cpu_list(own.cpus)
            self._count(container.instance, "set", own)
        return response.SerializeToString()

    def _post_start(self, payload: bytes) -> bytes:
        self._started(api.ContainerEventRequest.FromString(payload).container.id)
        return b""

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
        request = api.ContainerEventRequest.FromString(payload)
        if request.container.id not in self.known:
            return b""
        self._forget(request.container.id)
        updates = self._updates(self._repair())
        return api.StopContainerResponse(update=updates).SerializeToString()

    def _remove(self, payload: bytes) -> bytes:
        self._forget(api.ContainerEventRequest.FromString(payload).container.id)
        return b""

    def _state_change(self, payload: bytes) -> bytes:
        event = api.StateChangeEvent.FromString(payload)
        if event.event == api.REMOVE_CONTAINER:
            self._forget(event.container.id)
        elif event.event == api.POST_START_CONTAINER:
            self._started(event.container.id)
        return b""

    def _started(self, instance: str) -> None:
        """Repeat the last update of a container that the runtime was starting.

        Until a container has started, containerd writes an update only into its specification. But
        it creates the process from the specification before it says that the container starts. An
        update in between has no effect on the process.
        """
        if (update := self._starting.pop(instance, None)) is not None:
            self._repeated.append(update)

    def _forget(self, instance: str) -> None:
        self.known.remove(instance)
        self._starting.pop(instance, None)

    def _repair(self) -> dict[str, CpusetDecision]:
        decisions = self.known.repair(self._read_machine())
        self._on_change()
        return decisions

    def _updates(self, decisions: Mapping[str, CpusetDecision]) -> list[api.ContainerUpdate]:
        for instance, decision in decisions.items():
            released = decision.reason is CpusetReason.RELEASE
            self._count(instance, "released" if released else "repaired", decision)
        return [self._update_of(key, each.cpus or ()) for key, each in decisions.items()]

    def _update_of(self, instance: str, cpus: Collection[int]) -> api.ContainerUpdate:
        """Return the update of a container, which the runtime ignores if the container ends."""
        update = api.ContainerUpdate(container_id=instance, ignore_failure=True)
        update.linux.resources.cpu.cpus = format_cpu_list(cpus)
        if instance in self._starting:
            self._starting[instance] = update
        return update

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

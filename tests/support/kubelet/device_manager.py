"""Kubelet's device manager: chooses the IDs of a container with the same steps as kubelet 1.36.

Pods are admitted one after the other: first the init containers of a pod, then its application
containers, with one preference request and one Allocate each. The end-to-end tests check that the
real kubelet does the same.
"""

import random
from collections.abc import Awaitable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import grpc.aio

from gputopo_deviceplugin.kubelet.v1beta1 import api_pb2 as api

Key = tuple[str, str]


class AdmissionRejectedError(Exception):
    """The pod is rejected; the message is the one that kubelet writes in its status."""

    @property
    def status(self) -> dict[str, Any]:
        """The status that kubelet writes after an error of the plugin."""
        error = self.__cause__
        assert isinstance(error, grpc.aio.AioRpcError)
        code = error.code().name.title().replace("_", "")
        cause = f"rpc error: code = {code} desc = {error.details()}, which is unexpected"
        return {
            "phase": "Failed",
            "reason": "UnexpectedAdmissionError",
            "message": f"Pod was rejected: Allocate failed due to {cause}",
        }


class Plugin(Protocol):
    """The plugin, called by kubelet; errors are ``grpc.aio.AioRpcError``."""

    def GetPreferredAllocation(  # noqa: N802
        self, request: api.PreferredAllocationRequest, /
    ) -> Awaitable[api.PreferredAllocationResponse]: ...

    def Allocate(  # noqa: N802
        self, request: api.AllocateRequest, /
    ) -> Awaitable[api.AllocateResponse]: ...


@dataclass(slots=True)
class DeviceCheckpoint:
    """Kubelet's records of allocations, which survive its restarts.

    Attributes:
        pods: the device IDs of each container in the pod-resources list, of every active pod.
        init: the same for ordinary init containers, which the list never contains.
        allocated: IDs that kubelet counts as allocated, including those in flight.
        stale: whether a pod with records has ended since ``allocated`` was last rebuilt.
        allocating: whether a call of Allocate is in flight.
        lists_inside_allocate: number of lists during calls of Allocate.
    """

    pods: dict[Key, dict[str, set[str]]] = field(default_factory=dict)
    init: dict[Key, dict[str, set[str]]] = field(default_factory=dict)
    allocated: set[str] = field(default_factory=set)
    stale: bool = False
    allocating: bool = False
    lists_inside_allocate: int = 0


class DeviceManager:
    """The checkpoint, and the calls that change it.

    Attributes:
        devices: health of every ID, as reported by the plugin.
        aligned: IDs that the topology manager prefers.
        requests_preference: whether kubelet calls GetPreferredAllocation.
        ignore_preference: IDs taken instead of the preferred ones.
        list_forgets_in_flight: the open fault that a list inside Allocate, after a pod ended,
            makes kubelet forget the IDs in flight.
        preference_error_leaks: the open fault that IDs taken before the preference failed stay
            allocated until a pod with records ends.
        rejected_by: the last call that failed.
    """

    def __init__(self, seed: int = 0) -> None:
        self.checkpoint = DeviceCheckpoint()
        self.devices: dict[str, str] = {}
        self.plugin: Plugin | None = None
        self.aligned: set[str] = set()
        self.requests_preference = True
        self.ignore_preference: set[str] | None = None
        self.list_forgets_in_flight = True
        self.preference_error_leaks = True
        self.rejected_by = ""
        self._random = random.Random(seed)  # noqa: S311 - repeatable disorder

    async def admit(
        self,
        key: Key,
        requests: Mapping[str, int],
        *,
        init: Mapping[str, int] | None = None,
        sidecars: Collection[str] = (),
    ) -> dict[str, api.ContainerAllocateResponse]:
        """Admit a pod.

        Args:
            key: namespace and name.
            requests: GPUs of each application container.
            init: GPUs of each init container; these come first.
            sidecars: the init containers that keep running and keep their devices.

        Raises:
            AdmissionRejectedError: kubelet has rejected the pod finally.
        """
        records = self.checkpoint.pods.setdefault(key, {})
        for name in (*sidecars, *requests):
            records.setdefault(name, set())
        init_records = self.checkpoint.init.setdefault(key, {})
        reusable: set[str] = set()
        given = {}
        try:
            for name, size in {**(init or {}), **requests}.items():
                kept = records if name in records else init_records
                if size:
                    self._require_healthy(kept.get(name, set()))
                if size and not kept.get(name):
                    given[name] = await self._allocate(kept, name, size, reusable)
                if kept is init_records:
                    reusable |= kept.get(name, set())
                else:
                    reusable -= kept[name]
        except AdmissionRejectedError:
            self.end(key)
            raise
        return given

    async def start_container(self, key: Key, container: str = "main") -> None:
        """Call the plugin before a start of a container; its pod is admitted.

        Raises:
            grpc.aio.AioRpcError: kubelet tries again later.
        """
        plugin: Any = self.plugin  # not all plugins of the tests have this call
        devices = sorted(self.checkpoint.pods[key][container])
        await plugin.PreStartContainer(api.PreStartContainerRequest(devices_ids=devices))

    def end(self, key: Key) -> None:
        """End a pod; its IDs become free when kubelet next rebuilds its records."""
        for records in (self.checkpoint.pods.pop(key, {}), self.checkpoint.init.pop(key, {})):
            self.checkpoint.stale |= any(records.values())

    def restart(self) -> None:
        """Start a new kubelet, which rebuilds the allocated IDs from its records."""
        self._rebuild()

    def listed(self) -> dict[Key, dict[str, set[str]]]:
        """Return the pod-resources list; a call has the same side effect as in kubelet."""
        self.checkpoint.lists_inside_allocate += self.checkpoint.allocating
        if self.list_forgets_in_flight or not self.checkpoint.allocating:
            self._collect()
        return {
            key: {name: set(ids) for name, ids in records.items()}
            for key, records in self.checkpoint.pods.items()
        }

    def _collect(self) -> None:
        if self.checkpoint.stale:
            self._rebuild()

    def _rebuild(self) -> None:
        pods = [*self.checkpoint.pods.values(), *self.checkpoint.init.values()]
        ids = (each for records in pods for each in records.values())
        self.checkpoint.allocated = set().union(*ids)
        self.checkpoint.stale = False

    def _require_healthy(self, recorded: set[str]) -> None:
        """Reject a container with unhealthy devices, even if its record is complete."""
        if self.plugin is None or not self._healthy:
            raise AdmissionRejectedError("no healthy devices present")
        if not recorded <= self._healthy:
            raise AdmissionRejectedError("previously allocated devices are no longer healthy")

    @property
    def _healthy(self) -> set[str]:
        return {uuid for uuid, health in self.devices.items() if health == "Healthy"}

    async def _allocate(
        self, records: dict[str, set[str]], name: str, size: int, reusable: set[str]
    ) -> api.ContainerAllocateResponse:
        self._collect()
        assert self.plugin is not None
        ids = await self._choose(size, reusable)
        self.checkpoint.allocated |= ids - reusable  # forgotten reusable IDs stay forgotten
        self.checkpoint.allocating = True
        try:
            request = api.AllocateRequest(container_requests=[{"devices_ids": self._shuffled(ids)}])
            reply = await self.plugin.Allocate(request)
        except grpc.aio.AioRpcError as error:
            self._rebuild()
            self.rejected_by = "Allocate"
            raise AdmissionRejectedError(str(error.details())) from error
        finally:
            self.checkpoint.allocating = False
        records[name] = ids
        return reply.container_responses[0]

    async def _choose(self, size: int, reusable: set[str]) -> set[str]:
        """Return the IDs: reused ones, aligned ones, preferred ones, then any."""
        chosen = set(self._shuffled(reusable)[:size])
        if len(chosen) == size:
            return chosen
        available = self._healthy - self.checkpoint.allocated
        if len(available) < size - len(chosen):
            raise AdmissionRejectedError(f"needed {size}, available {len(available)}")
        aligned = self.aligned & available
        if size - len(chosen) < len(aligned):
            return await self._preferred(chosen, aligned, size)
        chosen |= aligned
        if len(chosen) == size:
            return chosen
        self.checkpoint.allocated |= chosen
        return await self._preferred(chosen, available - aligned, size)

    async def _preferred(self, chosen: set[str], offered: set[str], size: int) -> set[str]:
        preferred = await self._preference(chosen, offered, size)
        if self.ignore_preference is not None:
            preferred = self.ignore_preference
        for candidates in (preferred & offered, offered):
            chosen |= set(self._shuffled(candidates - chosen)[: size - len(chosen)])
        return chosen

    async def _preference(self, chosen: set[str], offered: set[str], size: int) -> set[str]:
        if not self.requests_preference:
            return set()
        assert self.plugin is not None
        one = {
            "available_deviceIDs": self._shuffled(offered | chosen),
            "must_include_deviceIDs": self._shuffled(chosen),
            "allocation_size": size,
        }
        request = api.PreferredAllocationRequest(container_requests=[one])
        try:
            reply = await self.plugin.GetPreferredAllocation(request)
        except grpc.aio.AioRpcError as error:
            self.rejected_by = "GetPreferredAllocation"
            if not self.preference_error_leaks:
                self._rebuild()
            raise AdmissionRejectedError(str(error.details())) from error
        return set(reply.container_responses[0].deviceIDs)

    def _shuffled(self, ids: set[str]) -> list[str]:
        return self._random.sample(sorted(ids), len(ids))

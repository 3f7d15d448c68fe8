"""Kubelet's device manager: which IDs a container gets, in the order of steps of kubelet 1.36.

Pods are admitted one after the other. Of each, the init containers come first and then the
application containers, with one preference and one Allocate for each. Whether the real kubelet
does the same is for the end-to-end tests to say.
"""

import random
from collections.abc import Awaitable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import grpc.aio

from gputopo_deviceplugin.kubelet.v1beta1 import api_pb2 as api

Key = tuple[str, str]


class AdmissionRefusedError(Exception):
    """The pod is rejected; the message is what kubelet would write in its status."""


class Plugin(Protocol):
    """The plugin as kubelet calls it; errors are ``grpc.aio.AioRpcError``."""

    def GetPreferredAllocation(  # noqa: N802
        self, request: api.PreferredAllocationRequest, /
    ) -> Awaitable[api.PreferredAllocationResponse]: ...

    def Allocate(  # noqa: N802
        self, request: api.AllocateRequest, /
    ) -> Awaitable[api.AllocateResponse]: ...


@dataclass(slots=True)
class Books:
    """What kubelet recorded; survives its restarts.

    Attributes:
        pods: every active pod with the device IDs of each container that its list shows.
        init: likewise of ordinary init containers, which its list never shows.
        allocated: IDs that kubelet takes for given, those in flight included.
        stale: whether a pod with records has ended since ``allocated`` was last made anew.
        allocating: whether Allocate is being called now.
        lists_inside_allocate: how often the list was asked for meanwhile.
    """

    pods: dict[Key, dict[str, set[str]]] = field(default_factory=dict)
    init: dict[Key, dict[str, set[str]]] = field(default_factory=dict)
    allocated: set[str] = field(default_factory=set)
    stale: bool = False
    allocating: bool = False
    lists_inside_allocate: int = 0


class DeviceManager:
    """The books, and the calls that fill them.

    Attributes:
        devices: health of every ID, as the plugin told it.
        aligned: IDs that the topology manager wants taken first.
        ask_preference: whether the plugin is asked for its preference.
        ignore_preference: IDs taken in its place.
        list_forgets_in_flight: the open fault that a list inside Allocate, after a pod ended,
            makes kubelet forget the IDs in flight.
        preference_error_leaks: the open fault that IDs taken before the preference failed stay
            taken until a pod with records ends.
        refused_by: the call that failed last.
    """

    def __init__(self, seed: int = 0) -> None:
        self.books = Books()
        self.devices: dict[str, str] = {}
        self.plugin: Plugin | None = None
        self.aligned: set[str] = set()
        self.ask_preference = True
        self.ignore_preference: set[str] | None = None
        self.list_forgets_in_flight = True
        self.preference_error_leaks = True
        self.refused_by = ""
        self._random = random.Random(seed)  # noqa: S311 - repeatable disorder

    async def admit(
        self,
        key: Key,
        asks: Mapping[str, int],
        *,
        init: Mapping[str, int] | None = None,
        sidecars: Collection[str] = (),
    ) -> dict[str, api.ContainerAllocateResponse]:
        """Admit a pod; container ``name`` asks for so many GPUs.

        Args:
            key: namespace and name.
            asks: of the application containers.
            init: of the init containers, which come first.
            sidecars: which of those keep running and keep their devices.

        Raises:
            AdmissionRefusedError: the pod has failed for good.
        """
        records = self.books.pods.setdefault(key, {})
        for name in (*sidecars, *asks):
            records.setdefault(name, set())
        init_records = self.books.init.setdefault(key, {})
        reusable: set[str] = set()
        given = {}
        try:
            for name, size in {**(init or {}), **asks}.items():
                kept = records if name in records else init_records
                if size:
                    self._require_healthy(kept.get(name, set()))
                if size and not kept.get(name):
                    given[name] = await self._allocate(kept, name, size, reusable)
                if kept is init_records:
                    reusable |= kept.get(name, set())
                else:
                    reusable -= kept[name]
        except AdmissionRefusedError:
            self.end(key)
            raise
        return given

    def end(self, key: Key) -> None:
        """The pod is not active any more; its IDs come free when kubelet looks."""
        for records in (self.books.pods.pop(key, {}), self.books.init.pop(key, {})):
            self.books.stale |= any(records.values())

    def restart(self) -> None:
        """A new kubelet reads its records; what is allocated follows from them."""
        self._rebuild()

    def listed(self) -> dict[Key, dict[str, set[str]]]:
        """Return what the pod-resources list shows; to look has the side effect of kubelet's."""
        self.books.lists_inside_allocate += self.books.allocating
        if self.list_forgets_in_flight or not self.books.allocating:
            self._collect()
        return {
            key: {name: set(ids) for name, ids in records.items()}
            for key, records in self.books.pods.items()
        }

    def _collect(self) -> None:
        if self.books.stale:
            self._rebuild()

    def _rebuild(self) -> None:
        pods = [*self.books.pods.values(), *self.books.init.values()]
        self.books.allocated = set().union(*(ids for records in pods for ids in records.values()))
        self.books.stale = False

    def _require_healthy(self, recorded: set[str]) -> None:
        """Reject a container, also one whose record is complete, as kubelet does."""
        if self.plugin is None or not self._healthy:
            raise AdmissionRefusedError("no healthy devices present")
        if not recorded <= self._healthy:
            raise AdmissionRefusedError("previously allocated devices are no longer healthy")

    @property
    def _healthy(self) -> set[str]:
        return {uuid for uuid, health in self.devices.items() if health == "Healthy"}

    async def _allocate(
        self, records: dict[str, set[str]], name: str, size: int, reusable: set[str]
    ) -> api.ContainerAllocateResponse:
        self._collect()
        assert self.plugin is not None
        ids = await self._choose(size, reusable)
        self.books.allocated |= ids - reusable  # if those were forgotten, they stay so
        self.books.allocating = True
        try:
            request = api.AllocateRequest(container_requests=[{"devices_ids": self._shuffled(ids)}])
            reply = await self.plugin.Allocate(request)
        except grpc.aio.AioRpcError as error:
            self._rebuild()
            self.refused_by = "Allocate"
            raise AdmissionRefusedError(str(error.details())) from error
        finally:
            self.books.allocating = False
        records[name] = ids
        return reply.container_responses[0]

    async def _choose(self, size: int, reusable: set[str]) -> set[str]:
        """Return what to ask for: reused ones, aligned ones, preferred ones, then any."""
        chosen = set(self._shuffled(reusable)[:size])
        if len(chosen) == size:
            return chosen
        available = self._healthy - self.books.allocated
        if len(available) < size - len(chosen):
            raise AdmissionRefusedError(f"needed {size}, available {len(available)}")
        aligned = self.aligned & available
        if size - len(chosen) < len(aligned):
            return await self._preferred(chosen, aligned, size)
        chosen |= aligned
        if len(chosen) == size:
            return chosen
        self.books.allocated |= chosen
        return await self._preferred(chosen, available - aligned, size)

    async def _preferred(self, chosen: set[str], offered: set[str], size: int) -> set[str]:
        preferred = await self._preference(chosen, offered, size)
        if self.ignore_preference is not None:
            preferred = self.ignore_preference
        for candidates in (preferred & offered, offered):
            chosen |= set(self._shuffled(candidates - chosen)[: size - len(chosen)])
        return chosen

    async def _preference(self, chosen: set[str], offered: set[str], size: int) -> set[str]:
        if not self.ask_preference:
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
            self.refused_by = "GetPreferredAllocation"
            if not self.preference_error_leaks:
                self._rebuild()
            raise AdmissionRefusedError(str(error.details())) from error
        return set(reply.container_responses[0].deviceIDs)

    def _shuffled(self, ids: set[str]) -> list[str]:
        return self._random.sample(sorted(ids), len(ids))

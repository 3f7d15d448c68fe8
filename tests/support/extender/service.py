"""A running extender with an API server and a scheduler, for the component tests."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from aiohttp import ClientSession

from gputopo.api.names import GPUS_ANNOTATION
from gputopo_extender.server import ExtenderAddresses
from support.api.faults import CLOSED, SILENT, Action, Fault, Hook
from support.api.server import ApiServer
from support.builders.objects import Document
from support.extender.kube_scheduler import Scheduler

QUICK = {
    "verbs_port": 0,
    "probes_host": "127.0.0.1",
    "probes_port": 0,
}
IMPATIENT = {"api_timeout_seconds": 0.5}
"""For tests of lost responses only: elsewhere a busy machine must not look like one."""


LEASES_FORBIDDEN = Fault(".*", "/leases", 403, "leases are forbidden", times=None)
LEASE_WRITE_RESPONSES_LOST = Fault(
    "POST|PATCH|PUT", "/leases", SILENT, carried_out="yes", times=None
)
BINDING_SILENT_AFTER = Fault("POST", "/binding", SILENT, carried_out="yes")
BINDING_SILENT_BEFORE = Fault("POST", "/binding", SILENT)
BINDING_LATE = Fault("POST", "/binding", SILENT, carried_out="later")
BINDING_DROPPED = Fault("POST", "/binding", CLOSED)
BINDING_ERROR = Fault("POST", "/binding", 500, "etcd has no leader")
BINDING_FORBIDDEN = Fault("POST", "/binding", 403, "pods/binding is forbidden")


def before_binding(api: ApiServer, action: Action) -> None:
    """Call ``action`` before the next Binding is carried out."""
    api.hooks.append(Hook("POST", "/binding", action))


def before_lease_write(api: ApiServer, action: Action) -> None:
    """Call ``action`` before the next Lease is written."""
    api.hooks.append(Hook("POST|PATCH|PUT", "/leases", action))


@dataclass(slots=True)
class Extender:
    """A running extender and its API server."""

    api: ApiServer
    addresses: ExtenderAddresses
    http: ClientSession

    def scheduler(self, *, cached: bool = True) -> Scheduler:
        """Return a scheduler that calls this extender."""
        return Scheduler(self.http, self.addresses.verbs, cached)

    async def readiness(self) -> tuple[int, str]:
        """Return status and text of /readyz."""
        async with self.http.get(f"{self.addresses.probes}/readyz") as response:
            return response.status, await response.text()

    async def metric(self, line: str) -> float:
        """Return the value of the series that starts with ``line``."""
        async with self.http.get(f"{self.addresses.probes}/metrics") as response:
            text = await response.text()
        values = [row.split()[-1] for row in text.splitlines() if row.startswith(line)]
        assert values, f"{line} not in\n{text}"
        return float(values[0])

    async def ready(self) -> None:
        """Wait until the ledger is complete."""
        await until(self._is_ready)

    async def _is_ready(self) -> bool:
        return (await self.readiness())[0] == 200


Start = Callable[..., AbstractAsyncContextManager[Extender]]


async def until(holds: Callable[[], Awaitable[bool]], seconds: float = 60.0) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(seconds):
        while not await holds():  # noqa: ASYNC110 - the condition is in another part
            await asyncio.sleep(0.02)


def twice(pods: Iterable[Document]) -> list[str]:
    """Return the UUIDs that more than one of these live pods has."""
    live = [pod for pod in pods if pod["status"]["phase"] not in {"Succeeded", "Failed"}]
    counted = Counter(uuid for pod in live for uuid in uuids_of(pod))
    return [uuid for uuid, count in counted.items() if count > 1]


def uuids_of(pod: Document) -> list[str]:
    """Return the annotated UUIDs of a pod, of all its containers."""
    text = pod["metadata"]["annotations"].get(GPUS_ANNOTATION)
    if text is None:
        return []
    return [uuid for uuids in json.loads(text)["containers"].values() for uuid in uuids]

"""The real extender on real ports, before a small API server in the same process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientSession

from gputopo.catalogue import named
from gputopo_extender.server import running
from gputopo_extender.settings import ExtenderSettings
from gputopo_extender.verbs import bind
from support.api.server import ApiServer, serving
from support.api.store import TOPOLOGIES
from support.builders.objects import topology_object
from support.extender.service import QUICK, Extender, Start


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a bind take its time: no kube-scheduler with its httpTimeout waits for the response."""
    monkeypatch.setattr(bind, "_WRITING_SECONDS", 60.0)


@pytest.fixture
async def api() -> AsyncIterator[ApiServer]:
    """Return an API server with two nodes: n1 of NVLinks, n2 of PCIe only."""
    small = ApiServer()
    small.put(TOPOLOGIES, topology_object("n1", named("dgx1-v100", node="n1")))
    small.put(TOPOLOGIES, topology_object("n2", named("pcie-8gpu", node="n2")))
    async with serving(small):
        yield small


@pytest.fixture
def start(api: ApiServer) -> Start:
    """Return what starts an extender; settings may be overridden by keyword."""

    @asynccontextmanager
    async def starting(*, wait: bool = True, **overridden: object) -> AsyncIterator[Extender]:
        settings = ExtenderSettings.model_validate({**QUICK, **overridden})
        async with (
            api.client() as client,
            ClientSession() as http,
            running(settings, client) as addresses,
        ):
            extender = Extender(api, addresses, http)
            if wait:
                await extender.ready()
            yield extender

    return starting

"""Any request body gets a response in time, in the verb's form or with status 400.

``GPUTOPO_FUZZ_BODIES`` sets the number of bodies, ``GPUTOPO_FUZZ_SEED`` the seed.
"""

import itertools
import json
import logging
import os
from collections import Counter
from io import BytesIO
from typing import Any

import pytest
from aiohttp import ClientSession, ClientTimeout

from gputopo.catalogue import named
from gputopo_extender.server import running
from gputopo_extender.settings import ExtenderSettings
from support.api.server import ApiServer, serving
from support.api.store import LEASES, PODS, TOPOLOGIES
from support.builders.objects import pod, topology_object
from support.extender.random_bodies import bodies
from support.extender.service import QUICK, Extender

BODIES = int(os.environ.get("GPUTOPO_FUZZ_BODIES", "1500"))
SEED = int(os.environ.get("GPUTOPO_FUZZ_SEED", "1"))
SECONDS = 60.0
LONGEST_RESPONSE = 500
LOGGERS = (
    "aiohttp.server",
    "gputopo_extender.verbs.app",
    "gputopo_extender.verbs.handlers",
    "gputopo_extender.fencing.binding_writer",
)
STATE = ("gputopo_ledger_gpus", "gputopo_ledger_nodes", "gputopo_ledger_reservations")


def wrong(verb: str, status: int, text: str) -> str | None:
    """Return the error of a response, None if it is correct."""
    if "Traceback" in text:
        return "a traceback"
    if status == 400:
        fine = 0 < len(text) <= LONGEST_RESPONSE and text.count("\n") == 1 and text.endswith("\n")
        return None if fine else f"400 without one short line: {text[:300]!r}"
    if status != 200:
        return f"status {status}: {text[:300]!r}"
    return None if has_form_of(verb, json.loads(text)) else f"not in form: {text[:300]!r}"


def has_form_of(verb: str, response: Any) -> bool:
    if verb == "filter":
        return set(response) == {
            "Nodes",
            "NodeNames",
            "FailedNodes",
            "FailedAndUnresolvableNodes",
            "Error",
        }
    if verb == "prioritize":
        return all(0 <= each["Score"] <= 10 and isinstance(each["Host"], str) for each in response)
    if verb == "bind":
        return set(response) == {"Error"}
    return set(response) == {"NodeNameToMetaVictims"}


async def state_of(extender: Extender) -> list[str]:
    async with extender.http.get(f"{extender.addresses.probes}/metrics") as response:
        lines = (await response.text()).splitlines()
    return [line for line in lines if line.startswith(STATE)]


async def test_any_body_gets_a_response_and_changes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    small = ApiServer()
    small.put(TOPOLOGIES, topology_object("n1", named("dgx1-v100", node="n1")))
    small.put(TOPOLOGIES, topology_object("n2", named("pcie-8gpu", node="n2")))
    for name, gpus in (("a", 2), ("waiting", 1)):
        small.put(PODS, pod(name, gpus))
    statuses: Counter[int] = Counter()
    settings = ExtenderSettings.model_validate(QUICK)
    async with (
        serving(small),
        small.client() as client,
        ClientSession(timeout=ClientTimeout(total=SECONDS)) as http,
        running(settings, client) as addresses,
    ):
        extender = Extender(small, addresses, http)
        await extender.ready()
        assert await extender.scheduler().bind(pod("a", 2), "n1") == ""
        before, objects = await state_of(extender), json.dumps(small.all(LEASES))
        caplog.set_level(logging.INFO)
        for number, (verb, body) in enumerate(itertools.islice(bodies(SEED), BODIES)):
            caplog.clear()
            async with http.post(f"{addresses.verbs}/{verb}", data=BytesIO(body)) as response:
                status, text = response.status, await response.text()
            statuses[status] += 1
            problem = wrong(verb, status, text)
            assert problem is None, (number, verb, body[:2000], problem)
            logged = [each for each in caplog.records if each.name.startswith(LOGGERS)]
            lines = [each.getMessage() for each in logged]
            assert len(logged) <= 1, (lines, number, verb, body[:2000])
            assert all(each.exc_info is None for each in logged), (number, verb, body[:2000])
            assert status != 400 or len(logged) == 1, (number, verb, body[:2000])
        assert await state_of(extender) == before
    assert json.dumps(small.all(LEASES)) == objects
    assert len(small.bindings) == 1
    assert statuses[200] > BODIES // 10, "bodies that the verbs decide on are drawn, too"
    assert statuses[400] > BODIES // 10

"""The extender reads GPUProfiles, and works without the right to list them."""

import logging

import pytest

from support.api.faults import Fault
from support.api.server import ApiServer
from support.api.store import PODS
from support.builders.node_reports import beside, learnt_profile
from support.builders.objects import pod
from support.extender.service import Start

SYNCED = 'gputopo_cache_synced{kind="gpuprofiles"}'
PROFILES = "gpuprofiles"


async def test_profiles_are_listed_and_watched(start: Start, api: ApiServer) -> None:
    api.create(PROFILES, learnt_profile("quiet", beside("default/noisy", 30)))
    async with start() as extender:
        await extender.profiled()
        api.create(PROFILES, learnt_profile("other"))
        api.delete(PROFILES, "quiet")
        api.put(PODS, pod("a", 2))
        assert await extender.scheduler().bind(pod("a", 2), "n1") == ""
        assert (await extender.readiness())[0] == 200


@pytest.mark.parametrize("status", [403, 404])
async def test_extender_works_without_profiles(
    start: Start, api: ApiServer, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    api.faults.append(Fault("GET", "/gpuprofiles", status, "no profiles here", times=None))
    caplog.set_level(logging.INFO)
    api.put(PODS, pod("a", 2))
    async with start() as extender:
        assert await extender.scheduler().bind(pod("a", 2), "n1") == ""
        assert await extender.metric(SYNCED) == 0
    logged = [it for it in caplog.messages if it.startswith("not watched kind=gpuprofiles")]
    assert len(logged) == 1

"""The clients of deleted pods end their work on the GPU before their processes are killed."""

import time

from gputopo.runtime.times import timestamp_of
from support.api.store import PODS
from support.mps.world import MpsWorld, sharing_pod


async def test_clients_of_a_deleted_pod_are_terminated_at_once(world: MpsWorld) -> None:
    world.put_pod("a")
    world.put_pod("b")
    async with world.running():
        await world.share(0)
        first, second = world.start_client(0, "a"), world.start_client(0, "a")
        world.start_client(0, "b")
        await world.until_clients(0, ["a", "a", "b"])
        world.put_pod("a", deletionTimestamp=timestamp_of(time.time() + 3600))
        for each in (first, second):
            assert await world.error_of(each) == 810
        await world.until_clients(0, ["b"])
        late = world.start_client(0, "a", ready=False)
        assert await world.error_of(late) == 810, "a process that connects later"
        value = world.metrics.registry.get_sample_value
        await world.until(lambda: value("gputopo_mps_terminated_clients_total") == 3)
        world.api.delete(PODS, "a")
        await world.until_clients(0, ["b"])


async def test_a_program_that_ends_by_itself_has_time_until_shortly_before_the_kill(
    world: MpsWorld,
) -> None:
    metadata = {"annotations": {"gputopo.io/sharing-termination": "Program"}}
    world.put_pod("a", **metadata)
    world.put_pod("b")
    async with world.running():
        await world.share(0)
        patient = world.start_client(0, "a")
        other = world.start_client(0, "b")
        await world.until_clients(0, ["a", "b"])
        later = timestamp_of(time.time() + 3600)
        world.put_pod("a", **metadata, deletionTimestamp=later)
        world.put_pod("b", deletionTimestamp=later)
        assert await world.error_of(other) == 810
        assert patient.poll() is None
        # The time of the kill is brought forward, as with a shorter grace period.
        world.put_pod("a", **metadata, deletionTimestamp=timestamp_of(time.time() + 3))
        assert await world.error_of(patient) == 810


async def test_pods_without_a_share_are_left_alone(world: MpsWorld) -> None:
    async with world.running():
        await world.share(0)
        client = world.start_client(0, "a")
        world.start_client(0, "b")
        await world.until_clients(0, ["a", "b"])
        document = sharing_pod("a", deletionTimestamp="2026-01-01T00:00:00Z")
        del document["spec"]["containers"][0]["resources"]
        world.api.put(PODS, document)
        invalid = sharing_pod("c")
        invalid["spec"]["containers"] = "none"
        world.api.put(PODS, invalid)
        world.put_pod("b", deletionTimestamp="2026-01-01T00:00:00Z")
        await world.until_clients(0, ["a"])
        assert client.poll() is None

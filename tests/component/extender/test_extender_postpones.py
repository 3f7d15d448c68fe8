"""A pod waits for a better placement: filter rejects it, and it is tried again when it can help.

The value of a placement is its bandwidth here, in per mille of the best on idle GPUs. So the tests
show that any policy can wait in the same way.
"""

import asyncio
import json
import time
from datetime import UTC, datetime

import pytest

from gputopo.api.names import (
    GPUS_ANNOTATION,
    MIN_UTILITY_ANNOTATION,
    POSTPONED_ANNOTATION,
    RETRY_ANNOTATION,
)
from gputopo.api.waiting import PostponedAnnotation, parse_postponed
from gputopo.placement.model import Match, PlacementRequest
from gputopo_extender.handover import lease
from gputopo_extender.verbs.postponement import postponer, watch
from gputopo_scheduling.waiting import WaitRule
from support.api.faults import Fault
from support.api.server import ApiServer
from support.api.store import LEASES, PODS
from support.builders.objects import Document, pod
from support.extender.ledgers import bound
from support.extender.service import Extender, Start, before_binding, until

NEVER = {"gputopo.io/max-wait-seconds": "0"}
OFFER_SECONDS = "gputopo.postponement.offers.NodeOffers.__init__.__defaults__"


def bandwidth(match: Match) -> float:
    return match.common_mb_per_s or 0


@pytest.fixture(autouse=True)
def rule(monkeypatch: pytest.MonkeyPatch) -> None:
    def wait_rule(request: PlacementRequest) -> WaitRule | None:
        return WaitRule("bandwidth", 700, bandwidth) if request.size > 1 else None

    monkeypatch.setattr(postponer, "wait_rule", wait_rule)


def ring(
    name: str = "ring",
    age_seconds: float = 0.0,
    annotations: dict[str, str] | None = None,
    size: int = 4,
) -> Document:
    """Return a pod. With 4 GPUs it has 13,645 of 117,354 MB/s beside ``busy``."""
    document = pod(name, size, annotations=annotations)
    created = datetime.fromtimestamp(time.time() - age_seconds, UTC)
    document["metadata"]["creationTimestamp"] = created.strftime("%Y-%m-%dT%H:%M:%SZ")
    return document


def busy(name: str = "busy") -> Document:
    """Return a pod on GPUs of both quads of n1, so that no quad is whole."""
    return bound(name, 2, 3, 4, 5)


async def postponed(extender: Extender, document: Document) -> str:
    """Have a pod postponed on n1; return the reason."""
    if extender.api.get(PODS, document["metadata"]["name"]) is None:
        extender.api.put(PODS, document)
    found = await extender.scheduler().filter(document, ["n1"])
    assert (found.fits, found.failed, found.error) == ([], {}, "")
    return found.unresolvable["n1"]


def annotation(api: ApiServer, name: str, key: str) -> str | None:
    annotations: dict[str, str] = api.pod(name)["metadata"].get("annotations", {})
    return annotations.get(key)


def record_of(api: ApiServer, name: str) -> PostponedAnnotation:
    found = parse_postponed(api.pod(name)["metadata"]["annotations"], f"uid-{name}")
    assert found is not None
    return found


async def annotated(api: ApiServer, name: str, key: str) -> None:
    async def holds() -> bool:
        return annotation(api, name, key) is not None

    await until(holds)


def events(api: ApiServer, reason: str) -> list[str]:
    return [each["message"] for each in api.all("events") if each["reason"] == reason]


async def test_pod_waits_until_the_pod_ends_that_breaks_its_ring(
    api: ApiServer, start: Start
) -> None:
    api.put(PODS, busy())
    async with start() as extender:
        reason = await postponed(extender, ring())
        assert reason.startswith("waiting for bandwidth 0.7: 0.116 now, 1 on idle GPUs; until 20")
        assert reason.endswith("Z at most")
        await annotated(api, "ring", POSTPONED_ANNOTATION)
        record = record_of(api, "ring")
        assert (record.now_permille, record.then_permille, record.end) == (116, 1000, None)
        assert await extender.metric("gputopo_postponed_pods ") == 1

        api.delete(PODS, "busy")
        await annotated(api, "ring", RETRY_ANNOTATION)
        assert (await extender.scheduler().filter(api.pod("ring"), ["n1"])).fits == ["n1"]
        assert await extender.scheduler().bind(api.pod("ring"), "n1") == ""

        end = record_of(api, "ring").end
        assert end is not None
        assert (end.permille, end.expired) == (1000, False)

        async def is_shown() -> bool:
            return bool(events(api, "PostponementEnded"))

        await until(is_shown)
        assert await extender.metric('gputopo_postponements_ended_total{reason="placed"}') == 1
        assert await extender.metric("gputopo_postponement_seconds_count") == 1
        assert await extender.metric("gputopo_postponement_gain_ratio_sum") == 0.884
        assert await extender.metric("gputopo_postponed_pods ") == 0
    assert events(api, "Postponed") == [reason]
    (text,) = events(api, "PostponementEnded")
    assert text.endswith("s for bandwidth 0.7: got 1 instead of 0.116")


async def test_repeated_tries_write_no_further_events(api: ApiServer, start: Start) -> None:
    api.put(PODS, busy())
    async with start() as extender:
        for _ in range(5):
            await postponed(extender, ring())
        await annotated(api, "ring", POSTPONED_ANNOTATION)
        for _ in range(5):
            await postponed(extender, api.pod("ring"))

        async def is_shown() -> bool:
            return bool(events(api, "Postponed"))

        await until(is_shown)
        assert annotation(api, "ring", RETRY_ANNOTATION) is None
    assert len(events(api, "Postponed")) == 1


async def test_pod_that_does_not_want_to_wait_is_placed_at_once(
    api: ApiServer, start: Start
) -> None:
    api.put(PODS, busy())
    document = ring(annotations=NEVER)
    api.put(PODS, document)
    async with start() as extender:
        assert await extender.scheduler().schedule(document, ["n1"]) == "n1"
    assert events(api, "Postponed") == []


async def test_wrong_longest_wait_is_rejected(start: Start) -> None:
    async with start() as extender:
        document = ring(annotations={"gputopo.io/max-wait-seconds": "-1"})
        found = await extender.scheduler().filter(document, ["n1"])
    assert found.unresolvable == {
        "n1": "gputopo.io/max-wait-seconds: '-1' is not a whole number of seconds from 0 to 604800"
    }


async def test_pod_is_tried_again_when_its_longest_wait_is_over(
    api: ApiServer, start: Start
) -> None:
    api.put(PODS, busy())
    async with start() as extender:
        await postponed(extender, ring(annotations={"gputopo.io/max-wait-seconds": "8"}))
        await annotated(api, "ring", RETRY_ANNOTATION)
        assert await extender.scheduler().schedule(api.pod("ring"), ["n1"]) == "n1"
        assert await extender.metric('gputopo_postponements_ended_total{reason="bound"}') == 1
    end = record_of(api, "ring").end
    assert end is not None
    assert (end.permille, end.expired) == (116, True)


async def test_longest_wait_is_that_of_the_pod_in_every_process(
    api: ApiServer, start: Start
) -> None:
    api.put(PODS, busy())
    reasons, document = [], ring(age_seconds=100)
    for _ in range(2):
        async with start() as extender:
            reasons.append(await postponed(extender, document))
            await annotated(api, "ring", POSTPONED_ANNOTATION)
    assert reasons[0] == reasons[1]
    async with start() as extender:
        old = ring("old", age_seconds=601)
        assert (await extender.scheduler().filter(old, ["n1"])).fits == ["n1"]


async def test_pod_does_not_wait_in_vain(api: ApiServer, start: Start) -> None:
    async with start() as extender:
        # n2 has no NVLink at all, but all its GPUs are idle.
        assert (await extender.scheduler().filter(ring(), ["n2"])).fits == ["n2"]
    assert events(api, "Postponed") == []


async def test_node_below_the_value_is_not_used_while_another_reaches_it(
    start: Start,
) -> None:
    async with start() as extender:
        found = await extender.scheduler().filter(ring(), ["n1", "n2"])
    assert found.fits == ["n1"]
    assert "n2" in found.unresolvable


async def test_pod_that_fits_nowhere_keeps_its_normal_reason(api: ApiServer, start: Start) -> None:
    api.put(PODS, busy())
    api.put(PODS, bound("more", 0, 1))
    async with start() as extender:
        found = await extender.scheduler().filter(ring(), ["n1"])
        assert "too few free GPUs" in (found.error or found.failed["n1"])
        assert await extender.metric("gputopo_postponed_pods ") == 0


async def test_earlier_pod_gets_the_gpus_first(
    api: ApiServer, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OFFER_SECONDS, (120.0,))
    api.put(PODS, busy())
    async with start() as extender:
        older, younger = ring("older", 60), ring("younger", 30)
        for document in (younger, older):
            await postponed(extender, document)
        api.delete(PODS, "busy")
        await annotated(api, "older", RETRY_ANNOTATION)
        assert annotation(api, "younger", RETRY_ANNOTATION) is None
        reason = await postponed(extender, api.pod("younger"))
        assert reason == "held for pod default/older, which has waited for longer"
        urgent = ring("urgent", 1)
        urgent["spec"]["priority"] = 10
        assert (await extender.scheduler().filter(urgent, ["n1"])).fits == ["n1"]

        assert await extender.scheduler().schedule(api.pod("older"), ["n1"]) == "n1"
        await annotated(api, "younger", RETRY_ANNOTATION)
        assert await extender.scheduler().schedule(api.pod("younger"), ["n1"]) == "n1"
    older_gpus, younger_gpus = (
        set(json.loads(str(annotation(api, name, GPUS_ANNOTATION)))["containers"]["main"])
        for name in ("older", "younger")
    )
    assert not older_gpus & younger_gpus


async def test_pods_that_do_not_wait_are_placed_while_others_are_bound(
    api: ApiServer, start: Start
) -> None:
    documents = [ring(f"ring-{number}", 20 - number, size=2) for number in range(4)]
    for document in documents:
        api.put(PODS, document)
    found = []

    async def filter_the_others() -> None:
        for document in documents[1:]:
            found.append((await extender.scheduler().filter(document, ["n1"])).fits)
            await asyncio.sleep(0.15)

    async with start() as extender:
        assert (await extender.scheduler().filter(documents[0], ["n1"])).fits == ["n1"]
        before_binding(api, filter_the_others)
        assert await extender.scheduler().bind(documents[0], "n1") == ""
    assert found == [["n1"]] * 3
    assert [annotation(api, f"ring-{number}", RETRY_ANNOTATION) for number in range(4)] == [
        None
    ] * 4


async def test_offer_that_is_not_used_goes_to_the_next_pod(
    api: ApiServer, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OFFER_SECONDS, (0.5,))
    api.put(PODS, busy())
    async with start() as extender:
        for document in (ring("older", 60), ring("younger", 30)):
            await postponed(extender, document)
        api.delete(PODS, "busy")
        await annotated(api, "older", RETRY_ANNOTATION)
        await annotated(api, "younger", RETRY_ANNOTATION)
        assert (await extender.scheduler().filter(api.pod("younger"), ["n1"])).fits == ["n1"]


async def test_pod_of_an_earlier_process_is_tried_again_once(
    api: ApiServer, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "UNKNOWN_SECONDS", 0.2)
    api.put(PODS, busy())
    async with start() as extender:
        await postponed(extender, ring())
        await annotated(api, "ring", POSTPONED_ANNOTATION)
    async with start():
        await annotated(api, "ring", RETRY_ANNOTATION)
    assert api.count("PATCH", "/ring/status") == 2


async def test_postponed_pod_preempts_no_pod(api: ApiServer, start: Start) -> None:
    api.put(PODS, busy())
    async with start() as extender:
        await postponed(extender, ring())
        assert await extender.scheduler().preempt(ring(), {"n1": [busy()]}) == {}


async def test_no_pod_is_preempted_for_a_placement_that_filter_would_reject(
    api: ApiServer, start: Start
) -> None:
    other = bound("other", 0)
    for document in (busy(), other):
        api.put(PODS, document)
    async with start() as extender:
        scheduler = extender.scheduler()
        assert await scheduler.preempt(ring(), {"n1": [other]}) == {}
        assert await scheduler.preempt(ring(), {"n1": [busy()]}) == {"n1": ["uid-busy"]}


async def test_bind_gives_no_worse_gpus_than_filter_has_accepted(
    api: ApiServer, start: Start
) -> None:
    async with start() as extender:
        document = ring()
        api.put(PODS, document)
        assert (await extender.scheduler().filter(document, ["n1"])).fits == ["n1"]
        api.put(PODS, busy())

        async def is_taken() -> bool:
            return await extender.metric('gputopo_ledger_gpus{state="used"}') == 4

        await until(is_taken)
        error = await extender.scheduler().bind(document, "n1")
        assert error == "n1: other pods have taken the better GPUs meanwhile"


async def test_deleted_pod_is_forgotten(api: ApiServer, start: Start) -> None:
    api.put(PODS, busy())
    async with start() as extender:
        await postponed(extender, ring())
        api.delete(PODS, "ring")

        async def is_counted() -> bool:
            line = 'gputopo_postponements_ended_total{reason="deleted"}'
            return await extender.metric(line) == 1

        await until(is_counted)
        assert await extender.metric("gputopo_postponed_pods ") == 0


async def test_writes_are_repeated_until_the_api_server_is_back(
    api: ApiServer, start: Start
) -> None:
    api.put(PODS, busy())
    api.faults.append(Fault("PATCH", "/ring/status", 503, times=2))
    async with start() as extender:
        await postponed(extender, ring())
        await annotated(api, "ring", POSTPONED_ANNOTATION)
    assert api.count("PATCH", "/ring/status") == 3


@pytest.mark.parametrize("status", [401, 429])
async def test_write_is_repeated_after_a_rejection_that_can_end(
    api: ApiServer, start: Start, status: int
) -> None:
    api.put(PODS, busy())
    async with start() as extender:
        await postponed(extender, ring())
        await annotated(api, "ring", POSTPONED_ANNOTATION)
        api.faults.append(Fault("PATCH", "/ring/status", status, times=1))
        api.delete(PODS, "busy")
        await annotated(api, "ring", RETRY_ANNOTATION)


async def test_write_that_always_fails_does_not_delay_others(api: ApiServer, start: Start) -> None:
    api.put(PODS, busy())
    api.faults.append(Fault("PATCH", "/bad/status", 500, times=None))
    async with start() as extender:
        await postponed(extender, ring("bad", 60))
        api.delete(PODS, "busy")

        async def are_repeated() -> bool:
            return api.count("PATCH", "/bad/status") >= 4

        await until(are_repeated)
        api.put(PODS, busy())
        await postponed(extender, ring("good", 30))
        await annotated(api, "good", POSTPONED_ANNOTATION)


async def test_forbidden_write_is_not_repeated(api: ApiServer, start: Start) -> None:
    api.put(PODS, busy())
    api.faults.append(Fault("PATCH", "/ring/status", 403, times=None))
    async with start() as extender:
        await postponed(extender, ring())
        api.delete(PODS, "busy")

        async def are_sent() -> bool:
            return api.count("PATCH", "/ring/status") == 2

        async def is_placed() -> bool:
            return (await extender.scheduler().filter(ring(), ["n1"])).fits == ["n1"]

        await until(are_sent)
        await until(is_placed)  # the watch may show the deletion after the second write


def hold_lease(api: ApiServer, scheduler: str) -> None:
    """Let the kube-scheduler of a pod hold the Lease."""
    identity = {"holderIdentity": f"{scheduler}_5a7e", "leaseDurationSeconds": 600}
    name = {"name": "gputopo-scheduler", "namespace": "gputopo-system"}
    api.put(LEASES, {"metadata": name, "spec": identity})


async def test_waits_are_kept_until_it_is_known_which_scheduler_leads(
    api: ApiServer, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "_POLL_SECONDS", 0.05)
    api.put(PODS, busy())
    async with start(pod="own", namespace="gputopo-system") as extender:
        await postponed(extender, ring())
        await annotated(api, "ring", POSTPONED_ANNOTATION)

        async def lease_was_read_and_pods_looked_at() -> bool:
            return api.count("GET", "/leases/") >= 10

        await until(lease_was_read_and_pods_looked_at)
        assert await extender.metric("gputopo_postponed_pods ") == 1
        hold_lease(api, "own")
        api.delete(PODS, "busy")
        await annotated(api, "ring", RETRY_ANNOTATION)


async def test_pod_is_tried_again_if_the_earlier_process_could_not_write_its_wait(
    api: ApiServer, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "UNKNOWN_SECONDS", 0.2)
    for name, least in (("ring", {MIN_UTILITY_ANNOTATION: "70"}), ("other", {})):
        api.put(PODS, ring(name, annotations=least))
    async with start():
        await annotated(api, "ring", RETRY_ANNOTATION)
    assert api.count("PATCH", "/ring/status") == 1
    assert api.count("PATCH", "/other/status") == 0


async def test_only_the_extender_of_the_leader_writes(
    api: ApiServer, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "_POLL_SECONDS", 0.05)
    api.put(PODS, busy())
    hold_lease(api, "other")
    async with start(pod="standby", namespace="gputopo-system") as extender:
        await postponed(extender, ring())

        async def is_forgotten() -> bool:
            return await extender.metric("gputopo_postponed_pods ") == 0

        async def is_free() -> bool:
            return await extender.metric('gputopo_ledger_gpus{state="used"}') == 0

        await until(is_forgotten)
        api.delete(PODS, "busy")
        await until(is_free)
        await asyncio.sleep(0.5)  # several looks
    assert annotation(api, "ring", RETRY_ANNOTATION) is None


async def test_filter_offers_the_node_itself_if_it_sees_the_change_first(
    api: ApiServer, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_LOOK_SECONDS", 60.0)
    api.put(PODS, busy())
    async with start() as extender:
        for document in (ring("older", 60), ring("younger", 30)):
            await postponed(extender, document)
        api.delete(PODS, "busy")

        async def is_free() -> bool:
            return await extender.metric('gputopo_ledger_gpus{state="used"}') == 0

        await until(is_free)
        assert "held for pod default/older" in await postponed(extender, api.pod("younger"))
        await annotated(api, "older", RETRY_ANNOTATION)


async def test_pod_without_a_least_value_is_placed_at_once(api: ApiServer, start: Start) -> None:
    api.put(PODS, busy())
    single = pod("single")
    api.put(PODS, single)
    async with start() as extender:
        assert await extender.scheduler().schedule(single, ["n1"]) == "n1"

"""The postponed pods of an extender, its offers to them, and its writes."""

import asyncio
from collections.abc import Hashable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

import pytest
from prometheus_client import Histogram

from gputopo.api.names import POSTPONED_ANNOTATION, RESOURCE
from gputopo.catalogue import named
from gputopo.placement.model import PlacementRequest, PolicyName
from gputopo.postponement.model import WaitTerms
from gputopo.utility.interference import WorkloadKind
from gputopo.utility.surroundings import INSTALLATION_WEIGHTS
from gputopo_cluster.topologies import parse_gpu_node
from gputopo_extender.fencing.pod_api import PodApi
from gputopo_extender.state.ledger import Ledger
from gputopo_extender.state.pod_requests import PodRequests
from gputopo_extender.verbs.evaluation_cache import EvaluationCache, TablesNotReadyError
from gputopo_extender.verbs.postponement.pods import PostponedPod, PostponedPods
from gputopo_extender.verbs.postponement.rounds import OfferRounds
from gputopo_extender.verbs.postponement.writer import PostponementWriter
from gputopo_kube.pods import PodView
from gputopo_scheduling.evaluation import (
    AnyNodeState,
    Evaluation,
    Misfit,
    MisfitKind,
    NodeFit,
)
from gputopo_scheduling.node_fits import evaluate_states
from gputopo_scheduling.surroundings import KnownWorkload
from gputopo_scheduling.wait_record import begun
from gputopo_scheduling.waiting import WaitRule, decide_pod_wait, wait_order
from support.builders.objects import Document, at_version, pod, topology_object
from support.builders.requests import pod_view, request_in
from support.extender.ledgers import DGX, bound, decision_for, ledger_with

RULE = WaitRule("bandwidth", 700, lambda match: match.common_mb_per_s or 0)
BUSY = bound("busy", 2, 3, 4, 5)


def ring(name: str = "ring", created: str = "1970-01-01T00:00:10Z") -> Document:
    document = pod(name, 4)
    document["metadata"]["creationTimestamp"] = created
    return document


def entry(ledger: Ledger, document: Document, *, waits: bool = True) -> PostponedPod:
    """Return the pod as filter keeps it."""
    view = pod_view(document)
    ledger.put_pod(view)
    request = request_in(view)
    states = [ledger.states()["n1"]]
    found = Evaluation(["n1"], states, evaluate_states(states, request))
    idle = evaluate_states([parse_idle()], request).values()
    terms = WaitTerms(700, view.created, 600)
    wait = decide_pod_wait(RULE, terms, found, idle, 20.0)
    assert wait is not None
    return PostponedPod.of(view, request, wait, waits=waits)


def parse_idle() -> AnyNodeState:
    idle = Ledger()
    idle.put_topology(parse_gpu_node(topology_object("n1", DGX)))
    return idle.states()["n1"]


class Clock:
    def __init__(self) -> None:
        self.now = 20.0

    def __call__(self) -> float:
        return self.now


class Rounds:
    """Rounds of offers for a ledger with the pod ``busy``."""

    def __init__(self, *documents: Document) -> None:
        self.clock = Clock()
        self.facts_clock = Clock()
        self.ledger = Ledger(self.facts_clock)
        self.ledger.put_topology(parse_gpu_node(topology_object("n1", DGX)))
        self.ledger.put_pod(pod_view(BUSY))
        self.pods = PostponedPods(self.ledger, self.clock)
        self.ready = True
        histogram = Histogram("build_seconds", "Build time.", registry=None)
        self.cache = Cache(self, histogram)
        requests = PodRequests(
            self.ledger,
            resource=RESOURCE,
            default_policy=PolicyName.PRESERVE,
            weights=INSTALLATION_WEIGHTS,
        )
        self.rounds = OfferRounds(self.ledger, self.cache, requests, self.pods, self.clock)
        for document in documents:
            self.pods.put(entry(self.ledger, document))

    async def offered(self) -> list[str]:
        return [each.key.name for each in await self.rounds.run_once()]


class Cache(EvaluationCache):
    def __init__(self, world: Rounds, histogram: Histogram) -> None:
        super().__init__(evaluate_states, histogram, timeout_seconds=60)
        self._world = world

    async def evaluate(
        self, states: AbstractSet[AnyNodeState], request: PlacementRequest
    ) -> Mapping[Hashable, NodeFit]:
        if not self._world.ready:
            raise TablesNotReadyError("the tables are being built")
        return await super().evaluate(states, request)


async def test_offer_is_made_when_a_pod_ends_and_only_to_the_first_pod() -> None:
    world = Rounds(ring("younger", "1970-01-01T00:00:15Z"), ring("older"))
    assert await world.offered() == []
    world.ledger.drop_pod("uid-busy")
    assert await world.offered() == ["older"]
    assert await world.offered() == []
    assert world.pods.held(wait_order(pod_view(ring("z", "1970-01-01T00:00:16Z"))), ["n1"], 20.0)
    world.clock.now += 5.0
    assert await world.offered() == ["younger"]


async def test_nodes_that_become_free_at_once_are_shared_among_the_pods() -> None:
    names = ["first", "second", "third"]
    world = Rounds(
        *(ring(name, f"1970-01-01T00:00:1{number}Z") for number, name in enumerate(names))
    )
    for used in (dict.fromkeys(range(2, 6), "uid-other"), {}):
        await world.offered()
        for number in range(7):
            topology = named("dgx1-v100", node=f"m{number}")
            document = topology_object(f"m{number}", topology, used_by=used)
            world.ledger.put_topology(parse_gpu_node(document))
    assert await world.offered() == names
    assert [world.pods.offers.offered_to(f"m{number}", 20.0) for number in range(7)] == [
        *["uid-first"] * 3,
        *["uid-second"] * 3,
        "uid-third",
    ]


async def test_round_without_tables_is_repeated() -> None:
    world = Rounds(ring())
    await world.offered()
    world.ledger.drop_pod("uid-busy")
    world.ready = False
    assert await world.offered() == []
    world.ready = True
    assert await world.offered() == ["ring"]


async def test_pod_whose_bind_may_be_in_flight_gets_no_offers() -> None:
    world = Rounds(ring("younger", "1970-01-01T00:00:15Z"))
    await world.offered()
    world.ledger.drop_pod("uid-busy")
    world.pods.put(entry(world.ledger, ring("older"), waits=False))
    assert await world.offered() == ["younger"]


async def test_pod_with_a_reservation_gets_no_offers() -> None:
    world = Rounds(ring())
    await world.offered()
    world.ledger.drop_pod("uid-busy")
    world.ledger.reservations.reserve(decision_for(ring(), world.ledger))
    assert await world.offered() == []


async def test_pod_that_fits_nowhere_still_gets_offers() -> None:
    world = Rounds(ring())
    await world.offered()
    world.pods.fits_nowhere("uid-ring")
    world.ledger.drop_pod("uid-busy")
    assert await world.offered() == ["ring"]


async def test_pod_is_offered_nodes_below_its_value_when_its_longest_wait_is_over() -> None:
    world = Rounds(ring())
    world.ledger.put_pod(pod_view(bound("more", 0, 1)))
    await world.offered()
    world.pods.fits_nowhere("uid-ring")
    world.clock.now = 611.0
    assert [each.uid for each in world.pods.due(world.clock.now)] == ["uid-ring"]
    world.ledger.drop_pod("uid-more")
    assert await world.offered() == ["ring"]


async def test_offers_are_made_although_an_equal_pod_was_deleted_a_moment_ago() -> None:
    world = Rounds(ring("older"), ring("younger", "1970-01-01T00:00:15Z"))
    await world.offered()
    world.ledger.drop_pod("uid-busy")
    world.ledger.drop_pod("uid-younger")
    assert await world.offered() == ["older"]


async def test_removed_node_is_offered_to_none() -> None:
    world = Rounds(ring())
    await world.offered()
    world.ledger.drop_pod("uid-busy")
    assert await world.offered() == ["ring"]
    world.ledger.drop_topology("n1")
    assert await world.offered() == []
    assert world.pods.held(wait_order(pod_view(ring("z"))), ["n1"], 20.0) == {}


async def test_pod_that_filter_adds_during_a_round_waits_for_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = Rounds(ring())
    await world.offered()
    world.ledger.drop_pod("uid-busy")
    evaluate = world.cache.evaluate

    async def adding(
        states: AbstractSet[AnyNodeState], request: PlacementRequest
    ) -> Mapping[Hashable, NodeFit]:
        document = ring("added", "1970-01-01T00:00:01Z")
        document["spec"]["containers"] = pod("x", 3)["spec"]["containers"]
        world.pods.put(entry(world.ledger, document))
        return await evaluate(states, request)

    monkeypatch.setattr(world.cache, "evaluate", adding)
    assert await world.offered() == ["ring"]


async def test_new_facts_about_workloads_let_all_pods_be_considered_again() -> None:
    world = Rounds(ring())
    await world.offered()
    known = world.pods.get("uid-ring")
    assert known is not None
    world.pods.put(replace(known, request=request_in(pod_view(pod("other", 2)))))
    world.pods.put(replace(known, uid="uid-gone"))
    # The facts of the ledger are made again within ten seconds.
    world.ledger.interference.replace([KnownWorkload(WorkloadKind("default/bert", "Sensitive"))])
    world.facts_clock.now += 11.0
    await world.offered()
    renewed, gone = world.pods.get("uid-ring"), world.pods.get("uid-gone")
    assert renewed is not None
    assert gone is not None
    assert (renewed.request, gone.request) == (known.request, known.request)


def test_request_that_has_become_invalid_is_not_renewed() -> None:
    world = Rounds(ring())
    known = world.pods.get("uid-ring")
    world.pods.renew(lambda _: Misfit(MisfitKind.REJECTED, "wrong"))
    assert world.pods.get("uid-ring") == known


async def test_changes_are_noticed_from_the_first_pod_on() -> None:
    world = Rounds(ring())
    await world.offered()
    world.ledger.drop_pod("uid-ring")
    world.pods.prune()
    assert await world.offered() == []
    world.ledger.drop_pod("uid-busy")
    assert await world.rounds.run_once(begin=True) == []
    world.ledger.put_pod(pod_view(BUSY))
    world.pods.put(entry(world.ledger, ring()))
    world.ledger.drop_pod("uid-busy")
    assert await world.offered() == []
    world.ledger.put_pod(pod_view(bound("other", 7)))
    assert await world.offered() == ["ring"]


def test_pod_that_fits_nowhere_waits_no_more_but_is_kept() -> None:
    world = Rounds(ring())
    assert (world.pods.waiting(), world.pods.is_postponed("uid-ring")) == (1, True)
    world.pods.fits_nowhere("uid-ring")
    world.pods.fits_nowhere("unknown")
    assert (world.pods.waiting(), len(world.pods)) == (0, 1)
    assert not world.pods.is_postponed("unknown")


def test_pod_is_no_longer_postponed_when_its_longest_wait_is_over() -> None:
    world = Rounds(ring())
    world.clock.now = 609.9
    assert world.pods.is_postponed("uid-ring")
    world.clock.now = 610.0
    assert not world.pods.is_postponed("uid-ring")


def test_pods_that_are_bound_or_gated_are_forgotten() -> None:
    world = Rounds(ring("bound"), ring("gated"), ring("kept"))
    gated = ring("gated")
    gated["spec"]["schedulingGates"] = [{"name": "example.org/quota"}]
    world.ledger.put_pod(pod_view(gated))
    world.ledger.put_pod(pod_view(bound("bound", 0)))
    assert {each.key.name for each in world.pods.prune()} == {"bound", "gated"}
    assert world.pods.get("uid-kept") is not None


def test_pod_is_due_once_when_its_longest_wait_is_over() -> None:
    world = Rounds(ring())
    assert world.pods.due(609.9) == []
    assert [each.uid for each in world.pods.due(610.0)] == ["uid-ring"]
    assert world.pods.due(611.0) == []


def test_binding_has_the_end_of_the_wait_only_if_the_pod_waited() -> None:
    world = Rounds(ring())
    world.ledger.drop_pod("uid-busy")
    view = pod_view(ring())
    decision = decision_for(ring(), world.ledger)
    assert world.pods.with_end(decision, view) == decision, "filter never postponed it"
    assert world.pods.with_end(decision, replace(view, uid="other")) == decision
    known = world.pods.get("uid-ring")
    assert known is not None
    world.pods.put(replace(known, record=begun("uid-ring", known.wait, 12.0)))
    text = world.pods.with_end(decision, view).annotations[POSTPONED_ANNOTATION]
    assert '"end":{"seconds":8,"permille":1000,"expired":false}' in text


class Written(PodApi):
    """Records the writes."""

    def __init__(self) -> None:
        self.annotated: list[str] = []
        self.events: list[tuple[str, str, str]] = []

    async def annotate(self, pod: PodView, annotations: Mapping[str, str]) -> None:
        self.annotated += [f"{pod.name} {name}" for name in annotations]

    async def create_event(self, pod: PodView, reason: str, message: str) -> None:
        self.events.append((pod.name, reason, message))


async def written(ledger: Ledger, requests: Iterable[str]) -> Written:
    """Let the writer carry out these requests."""
    api = Written()
    writer = PostponementWriter(ledger, api)
    world = Rounds(ring())
    known = world.pods.get("uid-ring")
    assert known is not None
    for each in requests:
        if each == "retry":
            writer.retry("uid-ring")
        elif each == "begin":
            writer.begin("uid-ring", begun("uid-ring", known.wait, 12.0), "waiting")
        elif each == "end":
            writer.end("uid-ring", "waited")
        else:
            writer.clear()
    task = asyncio.create_task(writer.run())
    async with asyncio.timeout(60):
        while any(writer._waiting.values()):  # noqa: ASYNC110 - the writer has no event for it
            await asyncio.sleep(0.01)
    task.cancel()
    return api


async def test_retries_are_written_first_and_each_pod_once() -> None:
    ledger = ledger_with(ring())
    api = await written(ledger, ["end", "begin", "retry", "retry"])
    assert api.annotated == ["ring gputopo.io/retry-at", "ring gputopo.io/postponed"]
    assert api.events == [
        ("ring", "Postponed", "waiting"),
        ("ring", "PostponementEnded", "waited"),
    ]


async def test_bound_pod_gets_events_but_no_annotations() -> None:
    ledger = ledger_with(at_version(bound("ring", 0), 3))
    api = await written(ledger, ["end", "begin", "retry"])
    assert api.annotated == []
    assert len(api.events) == 2


async def test_nothing_is_written_to_a_deleted_pod() -> None:
    api = await written(Ledger(), ["end", "begin", "retry"])
    assert (api.annotated, api.events) == ([], [])


async def test_only_ends_are_written_after_the_leadership_was_lost() -> None:
    api = await written(ledger_with(ring()), ["end", "begin", "retry", "clear"])
    assert (api.annotated, api.events) == ([], [("ring", "PostponementEnded", "waited")])

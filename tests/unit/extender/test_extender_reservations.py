"""Reservations and claims use GPUs until the ledger shows what became of their pods."""

import dataclasses
from collections import Counter
from collections.abc import Callable

from gputopo.catalogue import named
from gputopo.topology.model import mask_of
from gputopo_cluster.claims import Claim
from gputopo_cluster.topologies import parse_gpu_node
from gputopo_extender.nomination.nominations import Nominations
from gputopo_extender.state.cluster_queue import ClusterQueue
from gputopo_extender.state.reservations import BindingProgress
from gputopo_extender.verbs.in_flight import InFlightPods
from gputopo_kube.pods import PodView
from gputopo_scheduling.evaluation import bound_to, evaluation
from gputopo_scheduling.node_fits import evaluate_states
from support.builders.objects import pod, topology_object
from support.builders.requests import pod_view, request_of
from support.extender.ledgers import DGX, UUIDS, bound, claim, decision_for, ledger_with, usage


class Nominated(Nominations):
    """Nominated pods that use these GPUs, by default none."""

    def __init__(
        self,
        gpus: Callable[[PodView, Callable[[str], bool]], Counter[str]] = lambda *_: Counter(),
    ) -> None:
        super().__init__(ClusterQueue(), lambda _: None)
        self._gpus = gpus

    def gpus_beside(self, pod: PodView, is_placed: Callable[[str], bool]) -> Counter[str]:
        """Return the GPUs."""
        return self._gpus(pod, is_placed)


def test_reservation_lasts_until_the_pod_shows_its_node_not_just_any_event() -> None:
    document = pod("a", 2)
    ledger = ledger_with(document)
    ledger.reservations.reserve(decision_for(document, ledger))
    reserved = usage(ledger).used
    assert reserved.bit_count() == 2
    ledger.put_pod(pod_view(document))
    ledger.reservations.mark("uid-a", BindingProgress.BOUND)
    assert usage(ledger).used == reserved
    ledger.put_pod(pod_view(bound("a", 6, 7)))
    assert ledger.reservations.get("uid-a") is None
    assert usage(ledger).used == 0b11000000


def test_deleted_or_ended_pod_ends_its_reservation() -> None:
    for end in (
        lambda ledger: ledger.drop_pod("uid-a"),
        lambda ledger: ledger.put_pod(pod_view(pod("a", 2, phase="Failed"))),
    ):
        ledger = ledger_with(pod("a", 2))
        ledger.reservations.reserve(decision_for(pod("a", 2), ledger))
        end(ledger)  # type: ignore[no-untyped-call]
        ledger.reservations.mark("uid-a", BindingProgress.BOUND)
        assert ledger.reservations.own() == ()
        assert usage(ledger).used == 0


def test_reservation_outlives_a_list_requested_before_it_but_not_the_next() -> None:
    ledger = ledger_with()
    early = ledger.begin_pod_list()
    ledger.reservations.reserve(decision_for(pod("a", 2), ledger))
    ledger.replace_pods([], epoch=early)
    assert ledger.reservations.get("uid-a") is not None
    ledger.replace_pods([], epoch=ledger.begin_pod_list())
    assert ledger.reservations.get("uid-a") is None
    assert usage(ledger).used == 0


def test_pod_with_a_binding_in_flight_fits_no_other_node() -> None:
    document = pod("a", 2)
    ledger = ledger_with(document)
    ledger.put_topology(parse_gpu_node(topology_object("n2", named("dgx1-v100", node="n2"))))
    ledger.reservations.reserve(decision_for(document, ledger))
    reservation = ledger.reservations.get("uid-a")
    assert reservation is not None
    found = bound_to(["n1", "n2"], "n1", reservation.decision.match)
    assert found.fitting() == ["n1"]
    assert list(found.failed()) == ["n2"]


def test_claimed_gpus_are_used_until_the_pods_show_them() -> None:
    ledger = ledger_with(bound("shown", 0), pod("waiting"))
    ledger.replace_claims([claim("shown", 0), claim("waiting", 1, 2), claim("unknown", 7)])
    assert (usage(ledger).used, usage(ledger).shared) == (0b10000111, 0)
    assert ledger.reservations.of_others() == (claim("waiting", 1, 2), claim("unknown", 7))
    assert ledger.reservations.of_others("uid-waiting") == (claim("waiting", 1, 2),)
    ledger.replace_claims([claim("else", 7)])
    assert usage(ledger).used == 0b10000001


def test_claims_include_unbound_reservations_only() -> None:
    ledger = ledger_with(pod("a", 2))
    ledger.replace_claims([claim("of-another", 7)])
    decision = decision_for(pod("a", 2), ledger)
    ledger.reservations.reserve(decision)
    own = Claim("uid-a", "default", "a", "1", "n1", decision.claim.gpus)
    assert ledger.reservations.unbound() == (own, claim("of-another", 7))
    ledger.reservations.mark("uid-a", BindingProgress.UNKNOWN)
    assert ledger.reservations.unbound() == (own, claim("of-another", 7))
    ledger.reservations.mark("uid-a", BindingProgress.BOUND)
    assert ledger.reservations.unbound() == (claim("of-another", 7),)


def test_reservation_keeps_its_gpus_when_their_indices_change() -> None:
    ledger = ledger_with(pod("a", 2))
    decision = decision_for(pod("a", 2), ledger)
    ledger.reservations.reserve(decision)
    renumbered = dataclasses.replace(
        DGX,
        gpus=tuple(
            dataclasses.replace(gpu, uuid=uuid)
            for gpu, uuid in zip(DGX.gpus, [*UUIDS[1:], UUIDS[0]], strict=True)
        ),
    )
    ledger.put_topology(parse_gpu_node(topology_object("n1", renumbered, generation=2)))
    here = usage(ledger)
    assert here.used != mask_of(decision.match.gpus)
    assert here.used == mask_of(here.topology.index_of[uuid] for uuid in decision.claim.gpus)


def test_claims_end_with_their_pods_and_where_these_are_bound_elsewhere() -> None:
    ends = {
        "deleted": lambda ledger: ledger.drop_pod("uid-a"),
        "ended": lambda ledger: ledger.put_pod(pod_view(pod("a", phase="Failed"))),
        "elsewhere": lambda ledger: ledger.put_pod(pod_view(pod("a", node="n2"))),
        "not listed": lambda ledger: ledger.replace_pods([], epoch=ledger.begin_pod_list()),
    }
    for end in ends.values():
        ledger = ledger_with(pod("a"))
        ledger.replace_claims([claim("a", 3)])
        assert usage(ledger).used == 0b1000
        end(ledger)  # type: ignore[no-untyped-call]
        assert ledger.reservations.unbound() == ()
        assert usage(ledger).used == 0


def test_claim_outlives_the_list_requested_before_it_only() -> None:
    ledger = ledger_with()
    early = ledger.begin_pod_list()
    ledger.replace_claims([claim("new", 3)])
    ledger.replace_pods([], epoch=early)
    assert ledger.reservations.unbound() == (claim("new", 3),)
    ledger.replace_pods([], epoch=ledger.begin_pod_list())
    assert ledger.reservations.unbound() == ()


def test_pod_is_in_flight_until_the_ledger_shows_its_node() -> None:
    document = pod("reserved", 2)
    names = ("reserved", "bound", "ended", "gone")
    ledger = ledger_with(document, pod("waits", 1), *(pod(name, 1) for name in names[1:]))
    in_flight = InFlightPods(ledger, Nominated())
    in_flight.add("uid-waits", "n2", 1)
    in_flight.add("uid-waits", "n1", 1)
    in_flight.add("uid-reserved", "n1", 2)
    for name in names[1:]:
        in_flight.add(f"uid-{name}", "n1", 1)
    assert in_flight.gpus_by_node() == {"n1": 6}, "each counts on its last node"
    ledger.reservations.reserve(decision_for(document, ledger))
    ledger.put_pod(pod_view(bound("bound", 7)))
    ledger.put_pod(pod_view(pod("ended", 1, phase="Failed")))
    ledger.drop_pod("uid-gone")
    assert in_flight.gpus_by_node() == {"n1": 1}


def test_node_that_nominated_pods_will_fill_is_not_chosen() -> None:
    ledger = ledger_with()
    ledger.put_topology(parse_gpu_node(topology_object("n2", named("dgx1-v100", node="n2"))))
    gpus = Counter({"n1": 8})
    in_flight = InFlightPods(ledger, Nominated(lambda pod, _: gpus if pod == view else Counter()))
    request, view = request_of(1), pod_view(pod("next", 1))
    states = ledger.states_for(view, ["n1", "n2"])
    found = evaluation(["n1", "n2"], states, evaluate_states({*states}, request))
    assert {in_flight.choose(view, request, found) for _ in range(9)} == {"n2"}


def test_nominated_pod_that_filter_or_bind_has_placed_counts_no_more() -> None:
    ledger = ledger_with()
    request, view, other = request_of(1), pod_view(pod("next", 1)), pod_view(pod("other", 1))
    states = ledger.states_for(view, ["n1"])
    found = evaluation(["n1"], states, evaluate_states({*states}, request))
    placed: list[bool] = []

    def nominated(_pod: PodView, is_placed: Callable[[str], bool]) -> Counter[str]:
        placed.append(is_placed("uid-other"))
        return Counter()

    in_flight = InFlightPods(ledger, Nominated(nominated))
    ledger.put_pod(other)
    in_flight.choose(view, request, found)
    in_flight.add("uid-other", "n1", 1)
    in_flight.choose(view, request, found)
    ledger.drop_pod("uid-other")
    in_flight.choose(view, request, found)
    assert placed == [False, True, True]

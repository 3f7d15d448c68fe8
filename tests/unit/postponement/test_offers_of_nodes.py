"""A node is offered to the first pod that could use it, for a limited time."""

from hypothesis import given
from hypothesis import strategies as st

from gputopo.postponement.offers import NodeOffers, WaitOrder


def test_first_pod_gets_the_offer_once() -> None:
    offers = NodeOffers(5.0)
    assert offers.update("n1", ["a", "b"], 10.0) == "a"
    assert offers.update("n1", ["a", "b"], 11.0) is None
    assert (offers.offered_to("n1", 14.9), offers.offered_to("n1", 15.0)) == ("a", None)
    assert offers.expired(14.9) == []
    assert offers.expired(15.0) == ["n1"]


def test_unused_offer_goes_to_the_next_pod_and_then_to_none() -> None:
    offers = NodeOffers(5.0)
    offers.update("n1", ["a", "b"], 10.0)
    assert offers.update("n1", ["a", "b"], 15.0) == "b"
    assert offers.update("n1", ["a", "b"], 20.0) is None
    assert offers.offered_to("n1", 20.0) is None
    assert offers.expired(100.0) == []


def test_pod_for_which_kube_scheduler_permits_the_node_gets_the_offer_again() -> None:
    offers = NodeOffers(5.0)
    offers.update("n1", ["a"], 10.0)
    assert offers.update("n1", ["a"], 15.0) is None
    offers.considered("a", ["n2"])
    assert offers.update("n1", ["a"], 16.0) is None
    offers.considered("a", ["n1", "n2"])
    assert offers.update("n1", ["a"], 17.0) == "a"


def test_earlier_pod_takes_over_the_offer() -> None:
    offers = NodeOffers(5.0)
    offers.update("n1", ["b"], 10.0)
    assert offers.update("n1", ["a", "b"], 11.0) == "a"


def test_node_that_suits_no_pod_is_not_offered() -> None:
    offers = NodeOffers(5.0)
    offers.update("n1", ["a"], 10.0)
    assert offers.update("n1", [], 11.0) is None
    assert offers.offered_to("n1", 11.0) is None


def test_offers_of_a_pod_that_waits_no_more_are_free() -> None:
    offers = NodeOffers(5.0)
    offers.update("n1", ["a"], 10.0)
    offers.update("n2", ["b"], 10.0)
    offers.update("n3", ["a"], 0.0)
    offers.update("n3", ["a", "b"], 6.0)
    assert offers.forget("a") == ["n1"]
    assert offers.offered_to("n1", 11.0) is None
    assert offers.forget("c") == []


def test_pod_gets_at_most_three_of_many_nodes() -> None:
    offers = NodeOffers(5.0)
    nodes = [f"n{number}" for number in range(7)]
    offered = [offers.update(node, ["a", "b", "c"], 10.0) for node in nodes]
    assert offered == ["a", "a", "a", "b", "b", "b", "c"]
    assert offers.is_full("a")
    assert offers.pods_of(["n0", "n6", "n9"]) == {"a", "c"}
    assert offers.update("n0", ["a", "b", "c"], 11.0) is None, "it keeps what it has"
    assert offers.forget("a") == ["n0", "n1", "n2"]
    assert not offers.is_full("a")
    assert offers.update("n0", ["b", "c"], 12.0) == "c"


def test_pods_of_higher_priority_are_first_then_older_ones() -> None:
    low, old, new = WaitOrder(0, 1.0, "a"), WaitOrder(-5, 2.0, "b"), WaitOrder(-5, 3.0, "a")
    assert sorted([new, low, old]) == [old, new, low]


@given(st.lists(st.tuples(st.floats(0, 100), st.lists(st.sampled_from("abc"), unique=True))))
def test_only_a_suitor_holds_a_node_and_never_longer_than_the_limit(
    steps: list[tuple[float, list[str]]],
) -> None:
    offers, now, since = NodeOffers(5.0), 0.0, 0.0
    for seconds, suitors in steps:
        now += seconds
        if offers.update("n1", suitors, now) is not None:
            since = now
        found = offers.offered_to("n1", now)
        assert found is None or found in suitors
        assert found is None or now - since < 5.0

"""The known pods after any puts and drops equal a mapping by UID."""

from hypothesis import given
from hypothesis import strategies as st

from gputopo_cluster.claims import Claim
from gputopo_cluster.known_pods import KnownPods
from gputopo_kube.document import ObjectKey
from gputopo_kube.pods import PodView

UIDS = ["a", "b", "c"]
NODES = ["n1", "n2"]

views = st.builds(
    PodView,
    uid=st.sampled_from(UIDS),
    key=st.just(ObjectKey("default", "pod")),
    node=st.sampled_from([None, *NODES]),
    phase=st.sampled_from(["Pending", "Running", "Failed"]),
    annotations=st.sampled_from([{}, {"marked": ""}]),
    priority=st.integers(0, 2),
    gated=st.booleans(),
)


@given(st.lists(st.one_of(views, st.sampled_from(UIDS)), max_size=8))
def test_known_pods_equal_a_mapping_after_any_changes(changes: list[PodView | str]) -> None:
    known, expected = KnownPods(), dict[str, PodView]()
    for change in changes:
        if isinstance(change, str):
            assert known.drop(change) == expected.pop(change, None)
        else:
            known.put(change)
            expected.pop(change.uid, None)
            expected[change.uid] = change
    pods = list(expected.values())
    assert (list(known), len(known), known.by_uid) == (pods, len(pods), expected)
    for uid in UIDS:
        assert (uid in known, known.get(uid)) == (uid in expected, expected.get(uid))
    for node in NODES:
        bound = sorted((it for it in pods if it.node == node), key=lambda it: it.uid)
        assert known.on_node(node) == bound
    assert known.take_all() == expected
    assert (list(known), known.on_node("n1"), known.on_node("n2")) == ([], [], [])


@given(views, st.integers(0, 3))
def test_a_pod_is_waiting_pending_or_bound(pod: PodView, priority: int) -> None:
    known, claim = KnownPods([pod]), Claim(pod.uid, "default", "pod", "1", "n1", ())
    unbound = pod.live and pod.node is None
    assert known.is_waiting(pod.uid) == unbound
    assert known.open_claims([claim]) == [claim] * unbound
    marked = unbound and not pod.gated and "marked" in pod.annotations
    assert known.pending_with("marked") == [pod] * marked
    bound = pod.live and pod.node is not None
    assert known.has_live_below(priority) == (bound and pod.priority < priority)


def test_claims_of_unknown_pods_are_open_and_no_unknown_pod_is_waiting() -> None:
    claim = Claim("a", "default", "pod", "1", "n1", ())
    assert KnownPods().open_claims([claim]) == [claim]
    assert not KnownPods().is_waiting("a")

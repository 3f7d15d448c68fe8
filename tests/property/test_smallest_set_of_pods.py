"""The search for pods that would have to end finds the set of lowest cost."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from gputopo_explain.pending.releases import NodeUser, cost, smallest_set
from gputopo_kube.document import ObjectKey
from gputopo_kube.pods import PodView
from support.property_settings import fuzzed


def user(number: int, gpus: int, priority: int, *, deleting: bool) -> NodeUser:
    key = ObjectKey("default", f"pod-{number}")
    view = PodView(f"uid-{number}", key, priority=priority, deleting=deleting)
    return NodeUser(view.uid, str(key), gpus, view)


users = st.lists(st.tuples(st.integers(1, 4), st.integers(-1, 3), st.booleans()), max_size=7).map(
    lambda items: [
        user(number, gpus, priority, deleting=deleting)
        for number, (gpus, priority, deleting) in enumerate(items)
    ]
)


@fuzzed
@given(users, st.integers(-1, 9))
def test_no_other_set_of_pods_has_a_lower_cost(candidates: list[NodeUser], missing: int) -> None:
    found = smallest_set([(each,) for each in candidates], missing)
    enough = [
        chosen
        for size in range(len(candidates) + 1)
        for chosen in combinations(candidates, size)
        if sum(each.gpus for each in chosen) >= missing
    ]
    if not enough:
        assert found is None
        return
    assert found is not None
    assert sum(each.gpus for each in found) >= missing
    assert cost(found) == min(map(cost, enough))

"""When the pods end that an explanation names, the pending pod fits the node."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from gputopo_explain.pending.releases import NodeUser, NodeUsers
from gputopo_explain.snapshot import snapshot_of
from gputopo_scheduling.evaluation import PERMANENT_MISFITS, Misfit
from support.builders.clusters import random_lists
from support.builders.objects import pod
from support.builders.requests import pod_view, request_of
from support.property_settings import fuzzed, tried


def _any_user(_: NodeUser) -> bool:
    return True


def _not_stopping(user: NodeUser) -> bool:
    return not user.stopping


@fuzzed
@given(st.randoms(), st.integers(1, 4))
def test_pods_that_would_have_to_end_are_enough(chance: Random, size: int) -> None:
    lists = random_lists(chance)
    snapshot = snapshot_of(lists.topologies, lists.pods, lists.leases)
    users = NodeUsers(snapshot, {}, {}, pod_view(pod("new", size)))

    may_end = chance.choice([_any_user, _not_stopping])

    found = snapshot.evaluate(request_of(size))
    for node, key in zip(found.nodes, found.keys, strict=True):
        misfit = found.results[key]
        if not isinstance(misfit, Misfit) or misfit.kind in PERMANENT_MISFITS:
            continue
        chosen = users.find_set(node, size, {}, may_end)
        tried("misfits" if chosen is None else "sets of pods")
        if chosen is not None:
            after = snapshot.without_pods(user.uid for user in chosen)
            assert after.evaluate(request_of(size), [node]).has_fit()

"""Whatever a record says, the other pods of the node keep what they have or would get without it.

A pod without facts gets exactly its guaranteed amounts. So the CPUs of each such pod are at least
the smaller of what it has and what it would get if the record did not exist. Its memory is at least
the smaller of what it has and its share: a pod that ran out of memory may get what others have
beyond their shares.
"""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputopo.api.names import RESOURCE, RESOURCES_ANNOTATION
from gputopo.api.tuning import Amounts, TunedRecord
from gputopo.tuning.decide import next_steps
from gputopo.tuning.model import Target, TunedNode
from gputopo.tuning.sized import sized_node
from gputopo.tuning.targets import targets
from gputopo_kube.document import Document
from gputopo_kube.tuned_node import parse_node_pods, parse_tuned_node
from support.property_settings import fuzzed
from support.tuning.api_cluster import node_object, sized_container, sized_pod
from support.tuning.nodes import GIB, dataset_of, record, tuned, tuned_node

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CPUS = st.integers(0, 9000) | st.sampled_from([0, 1, 10**9])
BYTES = st.integers(0, 70).map(GIB.__mul__) | st.sampled_from([0, 1, 2**63 - 1])
AMOUNTS = st.builds(Amounts, CPUS, BYTES)
TIMES = st.sampled_from(
    ["0001-01-01T00:00:00Z", "2026-01-01T12:00:00Z", "2026-01-01T11:59:30Z", "9999-12-31T23:59:59Z"]
)


@st.composite
def any_records(draw: st.DrawFn, now: Amounts) -> TunedRecord:
    """Draw a record of the pod ``a``; half of them name the amounts that the pod has."""
    amounts = st.just(now) | AMOUNTS
    return TunedRecord(
        uid="a",
        floor=draw(AMOUNTS),
        last=draw(amounts),
        target=draw(amounts),
        since=draw(TIMES),
        done=draw(st.booleans()),
        rejected=draw(st.booleans()),
        pinned=draw(st.booleans()),
        peak_memory=draw(BYTES),
        least_memory=draw(BYTES),
        most_milli_cpu=draw(st.none() | CPUS),
        most_memory=draw(st.none() | BYTES),
        deferrals=draw(st.integers(0, 20)),
    )


@st.composite
def nodes(draw: st.DrawFn) -> TunedNode:
    """Draw a node whose pods fit; the pod ``a`` writes its record."""
    pods = []
    for uid in "abc":
        amounts = draw(st.integers(1, 2600)), draw(st.integers(1, 20))  # fits 8 CPUs and 64 GiB
        data = draw(st.none() | st.just(dataset_of(50 * GIB)))
        pods.append(tuned(uid, amounts[0], amounts[1] * GIB, dataset=data))
        if uid != "a":
            floor = Amounts(draw(st.integers(1, amounts[0])), GIB)
            pods[-1] = replace(pods[-1], record=record(pods[-1], floor=floor))
    return tuned_node(*pods, gpus=draw(st.integers(3, 8)))


@fuzzed
@given(node=nodes(), data=st.data())
def test_record_of_resizes_takes_nothing_from_other_pods(
    node: TunedNode, data: st.DataObject
) -> None:
    first, *others = node.pods
    forged = data.draw(any_records(first.spec.request))
    without = targets(node)
    found = replace(node, pods=[replace(first, record=forged), *others])
    chosen = targets(found)
    next_steps(found, chosen)
    shares = {pod.uid: pod.share for pod in sized_node(node).pods}
    for pod in others:
        has, now = chosen[pod.uid].amounts, pod.spec.request
        assert has.milli_cpu >= min(now.milli_cpu, without[pod.uid].amounts.milli_cpu)
        assert has.memory >= min(now.memory, shares[pod.uid].memory)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=9),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(st.text(max_size=9), parts),
)


def sizes(attacker: Document) -> dict[str, Target]:
    pods = [attacker, *(sized_pod(name, container=sized_container("2")) for name in "bc")]
    parsed = parse_node_pods(pods, RESOURCE, (), NOW)
    return targets(parse_tuned_node(node_object(), parsed, RESOURCE, {}, {}, NOW))


@pytest.mark.parametrize("gpus", [0, 1])
@fuzzed
@given(text=st.text(max_size=40) | JSON.map(str), state=st.text(max_size=40), label=st.booleans())
def test_any_text_in_the_annotations_of_a_pod_changes_no_other_size(
    gpus: int, text: str, state: str, *, label: bool
) -> None:
    container = sized_container("1m", gpus=max(1, gpus))
    if not gpus:
        for amounts in container["resources"].values():
            del amounts[RESOURCE]
    attacker = sized_pod("a", container=container)
    before = sizes(attacker)
    attacker["metadata"]["annotations"] |= {RESOURCES_ANNOTATION: text}
    attacker["metadata"]["annotations"] |= {"gputopo.io/profiling-state": state}
    if label:
        attacker["metadata"]["labels"] |= {"gputopo.io/profiling-active": "true"}
    after = sizes(attacker)
    assert {uid: after[uid].amounts for uid in after if uid != "uid-a"} == {
        uid: before[uid].amounts for uid in before if uid != "uid-a"
    }

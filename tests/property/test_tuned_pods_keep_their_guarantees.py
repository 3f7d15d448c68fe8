"""Targets of tuned pods fit on the node and keep floors and shares, for any node."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputopo.api.profile import WorkloadFacts
from gputopo.api.tuning import Amounts
from gputopo.sizing.marginal import marginal
from gputopo.sizing.model import SizingMechanism
from gputopo.sizing.tune import tune
from gputopo.tuning.allocate import allocate
from gputopo.tuning.matrix import sensitivity_of
from gputopo.tuning.model import Target, TunedNode, TunedPod
from gputopo.tuning.pods import (
    floor_of,
    held_by,
    is_measured,
    left_alone_because,
    most_of,
    tunes_memory,
)
from gputopo.tuning.sized import kept_for_measured, sized_node, throughput
from gputopo.tuning.storage import storage_part
from gputopo.tuning.targets import targets
from support.property_settings import fuzzed
from support.tuning.nodes import (
    SCALES,
    any_facts,
    any_nodes,
    carried_out,
    facts,
    tuned,
    tuned_node,
)

MECHANISMS = pytest.mark.parametrize("mechanism", [marginal, tune])


def tuned_pods(node: TunedNode) -> list[TunedPod]:
    return [pod for pod in node.pods if not left_alone_because(pod)]


def left_for_tuned_pods(node: TunedNode, resource: int) -> int:
    kept = kept_for_measured(node)
    alone = [
        kept.get(pod.uid, held_by(pod))[resource] for pod in node.pods if left_alone_because(pod)
    ]
    return node.allocatable[resource] - node.others[resource] - sum(alone)


@MECHANISMS
@fuzzed
@given(node=any_nodes())
def test_all_targets_and_pending_pods_fit_if_the_floors_fit(
    mechanism: SizingMechanism, node: TunedNode
) -> None:
    chosen = targets(node, mechanism)
    kept_free = sized_node(node).kept_free
    for resource in range(2):
        left = left_for_tuned_pods(node, resource)
        pods = tuned_pods(node)
        if sum(floor_of(pod)[resource] for pod in pods) <= left:
            used = sum(chosen[pod.uid].amounts[resource] for pod in pods)
            assert used + kept_free[resource] <= left
        else:
            assert all(chosen[p.uid].amounts[resource] == floor_of(p)[resource] for p in pods)
            assert kept_free == (0, 0)


@MECHANISMS
@fuzzed
@given(node=any_nodes())
def test_amounts_of_each_pod_are_within_its_bounds(
    mechanism: SizingMechanism, node: TunedNode
) -> None:
    chosen = targets(node, mechanism)
    assert set(chosen) == {pod.uid for pod in node.pods}
    for pod in node.pods:
        amounts = chosen[pod.uid].amounts
        if left_alone_because(pod):
            assert amounts == pod.spec.request
        else:
            for low, each, high in zip(
                floor_of(pod), amounts, most_of(pod, node.allocatable, node.now), strict=True
            ):
                assert low <= each <= high
            assert tunes_memory(pod) or amounts.memory == pod.spec.request.memory


def nominal_shares(node: TunedNode) -> dict[str, Amounts] | None:
    """Return the share of each pod by its definition, or None if the shares do not fit."""
    pods = tuned_pods(node)
    measured = [pod for pod in node.pods if is_measured(pod)]
    alone = [pod for pod in node.pods if left_alone_because(pod)]
    if measured:  # their shares are tested with examples
        return None
    columns = []
    for resource in range(2):
        sharing = [pod for pod in pods if resource == 0 or tunes_memory(pod)]
        others = [pod for pod in pods if pod not in sharing]
        left = left_for_tuned_pods(node, resource)
        for_sharing = left - sum(floor_of(pod)[resource] for pod in others)
        gpus = node.gpus - sum(pod.gpus for pod in [*alone, *others])
        per_gpu = max(0, for_sharing) / max(1, gpus, sum(pod.gpus for pod in sharing))
        column = [
            max(
                floor_of(p)[resource],
                min(p.gpus * per_gpu, most_of(p, node.allocatable, node.now)[resource]),
            )
            if p in sharing
            else floor_of(p)[resource]
            for p in pods
        ]
        if sum(column) > left:
            return None
        columns.append(column)
    # Shares are rounded down: by 1m or by 1 MiB for each GPU.
    return {
        pod.uid: Amounts(
            max(floor_of(pod).milli_cpu, int(cpus) - pod.gpus),
            max(floor_of(pod).memory, int(memory) - pod.gpus * 2**20),
        )
        for pod, cpus, memory in zip(pods, *columns, strict=True)
    }


@MECHANISMS
@fuzzed
@given(node=any_nodes())
def test_no_pod_is_slower_than_with_its_share(mechanism: SizingMechanism, node: TunedNode) -> None:
    recent = {pod.uid for pod in sized_node(node).pods if pod.resized_recently}
    shares = nominal_shares(node) or {}
    chosen = targets(node, mechanism)
    for pod in tuned_pods(node):
        if pod.uid in recent or pod.uid not in shares:
            continue
        share, amounts = shares[pod.uid], chosen[pod.uid].amounts
        for part in (1.0, storage_part(pod, node.pods)):
            matrix = sensitivity_of(pod, (share, amounts), part)
            if matrix is None:
                assert all(have >= least for have, least in zip(amounts, share, strict=True))
            else:
                assert throughput(matrix, amounts) >= throughput(matrix, share) * (1 - 1e-9)


@MECHANISMS
@fuzzed
@given(node=any_nodes(), data=st.data())
def test_order_of_the_pods_does_not_matter(
    mechanism: SizingMechanism, node: TunedNode, data: st.DataObject
) -> None:
    other = replace(node, pods=data.draw(st.permutations(node.pods)))
    assert targets(node, mechanism) == targets(other, mechanism)


@MECHANISMS
@fuzzed
@given(node=any_nodes())
def test_division_of_a_node_that_is_repeated_changes_nothing(
    mechanism: SizingMechanism, node: TunedNode
) -> None:
    sized = sized_node(node)
    first = allocate(sized.spare, sized.pods, mechanism)
    after = [replace(pod, now=first[pod.uid]) for pod in sized.pods]
    assert allocate(sized.spare, after, mechanism) == first


@MECHANISMS
@fuzzed
@given(
    found=any_facts(1) | st.sampled_from([SCALES, facts({500: 1, 3000: 20, 6000: 25})]),
    milli_cpu=st.integers(1000, 12_000),
    copies=st.integers(2, 4),
    data=st.data(),
)
def test_equal_pods_with_exchanged_amounts_keep_them(
    mechanism: SizingMechanism,
    found: WorkloadFacts,
    milli_cpu: int,
    copies: int,
    data: st.DataObject,
) -> None:
    equal = (tuned(str(copy), 100, facts=found) for copy in range(copies))
    node = sized_node(tuned_node(*equal, milli_cpu=milli_cpu, gpus=8))
    first = allocate(node.spare, node.pods, mechanism)
    amounts = data.draw(st.permutations([*first.values()]))
    exchanged = [replace(pod, now=now) for pod, now in zip(node.pods, amounts, strict=True)]
    kept = {pod.uid: pod.now for pod in exchanged}
    assert allocate(node.spare, exchanged, mechanism) == kept


def amounts(chosen: dict[str, Target]) -> dict[str, Amounts]:
    return {uid: target.amounts for uid, target in chosen.items()}


@MECHANISMS
@fuzzed
@given(node=any_nodes())
def test_deciding_again_after_the_resizes_changes_nothing(
    mechanism: SizingMechanism, node: TunedNode
) -> None:
    first = targets(node, mechanism)
    after = carried_out(node, first)
    assert amounts(targets(after, mechanism)) == amounts(first)


@MECHANISMS
@fuzzed
@given(node=any_nodes())
def test_resizes_of_an_unchanged_node_end(mechanism: SizingMechanism, node: TunedNode) -> None:
    for _ in range(4):
        node = carried_out(node, targets(node, mechanism), seconds=200)
    before = amounts(targets(node, mechanism))
    for _ in range(2):
        node = carried_out(node, targets(node, mechanism), seconds=200)
        assert amounts(targets(node, mechanism)) == before

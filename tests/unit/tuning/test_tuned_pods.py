"""What a pod has, the bounds of what it may get, and when gputopo leaves it alone."""

from dataclasses import replace

import pytest

from gputopo.api.tuning import Amounts, ResourcesMode
from gputopo.tuning.model import ContainerAmounts, Dataset, ResizeState, TunedPod
from gputopo.tuning.pods import amounts_of, floor_of, held_by, left_alone_because, most_of
from support.tuning.nodes import GIB, NOW, tuned, with_record

POD = tuned("a", 2000, 4 * GIB)
DATA = Dataset(size=GIB, storage_mb_per_s=100, memory_floor=GIB, bytes_per_step=1000)
NODE = Amounts(8000, 64 * GIB)


@pytest.mark.parametrize(
    ("pod", "why"),
    [
        (POD, ""),
        (replace(POD, obstacle="restart policy"), "restart policy"),
        (replace(POD, measuring=True), "measures the pod"),
        (with_record(POD, pinned=True), "another client has resized the pod"),
        (with_record(POD, pinned=True, reason="static CPU manager"), "static CPU manager"),
        (replace(POD, mode=ResourcesMode.FIXED), "Fixed"),
        (replace(POD, spec=POD.spec._replace(limit_milli_cpu=None)), "no CPU limit"),
    ],
)
def test_pod_is_left_alone_for_a_reason(pod: TunedPod, why: str) -> None:
    assert why in left_alone_because(pod)
    assert bool(left_alone_because(pod)) == bool(why)


@pytest.mark.parametrize(("limit", "has"), [(2000, 2000), (2001, 2001), (4000, 2000)])
def test_pod_has_its_request_or_a_limit_1m_above_it(limit: int, has: int) -> None:
    spec = ContainerAmounts(Amounts(2000, GIB), limit, GIB)
    assert amounts_of(replace(POD, spec=spec)) == Amounts(has, GIB)


def test_floor_is_what_the_pod_was_created_with() -> None:
    assert floor_of(POD) == Amounts(2000, 4 * GIB)
    resized = with_record(replace(POD, dataset=DATA), floor=Amounts(500, GIB))
    assert floor_of(resized) == Amounts(500, GIB)


def test_memory_with_which_a_pod_failed_raises_its_floor() -> None:
    pod = with_record(replace(POD, dataset=DATA), floor=Amounts(500, GIB), least_memory=3 * GIB)
    assert floor_of(pod) == Amounts(500, 3 * GIB)


def test_memory_that_is_not_tuned_has_its_amount_as_both_bounds() -> None:
    pod = with_record(POD, floor=Amounts(500, GIB), least_memory=9 * GIB)
    assert floor_of(pod).memory == most_of(pod, NODE, NOW).memory == 4 * GIB


def test_user_node_and_infeasible_raises_limit_the_most() -> None:
    pod = replace(POD, dataset=DATA)
    assert most_of(pod, NODE, NOW) == NODE
    limited = replace(pod, most_milli_cpu=6000, most_memory=32 * GIB)
    assert most_of(limited, NODE, NOW) == Amounts(6000, 32 * GIB)
    infeasible = with_record(limited, most_milli_cpu=5000, most_memory=16 * GIB)
    assert most_of(infeasible, NODE, NOW) == Amounts(5000, 16 * GIB)


def test_most_is_at_least_the_floor() -> None:
    pod = replace(POD, dataset=DATA, most_milli_cpu=1, most_memory=1)
    assert most_of(pod, NODE, NOW) == Amounts(2000, 4 * GIB)


def test_pod_holds_the_larger_of_spec_and_allocated() -> None:
    assert held_by(POD) == Amounts(2000, 4 * GIB)
    deferred = replace(POD, state=ResizeState(allocated=Amounts(3000, GIB)))
    assert held_by(deferred) == Amounts(3000, 4 * GIB)


def test_annotation_of_a_measurement_claims_no_cpus_beyond_those_of_the_pod() -> None:
    assert held_by(replace(POD, measuring=True, own_milli_cpu=4000)).milli_cpu == 2000


def test_record_claims_no_floor_beyond_what_the_pod_has() -> None:
    huge = Amounts(10**9, 2**62)
    pod = with_record(replace(POD, dataset=DATA), floor=huge, least_memory=2**62)
    assert floor_of(pod) == Amounts(2000, 4 * GIB)
    cut = replace(pod, state=ResizeState(allocated=Amounts(3000, GIB), applied=Amounts(1, 5 * GIB)))
    assert floor_of(cut) == Amounts(3000, 5 * GIB)

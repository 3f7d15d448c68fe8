"""Each pod is guaranteed the throughput of its share, with as few CPUs and memory as possible."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gputopo.api.tuning import Amounts, ResourcesMode
from gputopo.tuning.model import ContainerAmounts, Dataset, PendingPod, TunedPod
from gputopo.tuning.sized import SizedNode, SizedPod, least_amounts, sized_node
from support.sizing import matrix
from support.tuning.nodes import FLAT, GIB, NOW, SCALES, facts, tuned, tuned_node, with_record

GB = 10**9


def sized(node: SizedNode, uid: str) -> SizedPod:
    return next(pod for pod in node.pods if pod.uid == uid)


def test_share_includes_idle_gpus_but_not_what_other_pods_hold() -> None:
    node = tuned_node(tuned("a", facts=SCALES), others=Amounts(2000, GIB))
    assert sized_node(node).pods[0].share.milli_cpu == 1500


def test_pod_left_alone_counts_with_its_gpus_and_amounts() -> None:
    alone = tuned("a", 5000, gpus=2, obstacle="restart policy")
    node = sized_node(tuned_node(alone, tuned("b", 500, facts=SCALES)))
    assert [pod.uid for pod in node.pods] == ["b"]
    assert node.capacity.milli_cpu == 3000
    assert node.pods[0].share.milli_cpu == 1500


def test_share_of_a_pod_that_is_measured_is_kept_for_it() -> None:
    measured, other = tuned("a", 500, measuring=True), tuned("b", 500, facts=SCALES)
    node = sized_node(tuned_node(measured, other))
    assert [pod.uid for pod in node.pods] == ["b"]
    assert node.pods[0].share.milli_cpu == 2000
    assert node.capacity.milli_cpu == 6000


def test_pod_that_is_measured_with_more_than_its_share_counts_with_that() -> None:
    measured, other = tuned("a", 7000, measuring=True), tuned("b", 500, facts=SCALES)
    node = sized_node(tuned_node(measured, other))
    assert node.capacity.milli_cpu == 1000
    assert node.pods[0].share.milli_cpu == 1000


def test_job_that_needs_no_cpus_is_guaranteed_its_floor_only() -> None:
    node = sized_node(tuned_node(tuned("a", 500, facts=FLAT), tuned("b", 500, facts=SCALES)))
    assert (sized(node, "a").least.milli_cpu, sized(node, "a").share.milli_cpu) == (500, 2000)
    assert sized(node, "b").least.milli_cpu == 2000
    assert node.spare.milli_cpu == 8000 - 500 - 2000


def test_pod_without_facts_is_guaranteed_its_whole_share() -> None:
    node = sized_node(tuned_node(tuned("a", 500)))
    assert node.pods[0].least == node.pods[0].share == Amounts(2000, GIB)


def test_floors_above_the_share_lower_the_shares_of_the_others() -> None:
    node = sized_node(tuned_node(*(tuned(uid, 500) for uid in "abc"), tuned("d", 6500)))
    assert {pod.uid: pod.share.milli_cpu for pod in node.pods} == {
        **dict.fromkeys("abc", 500),
        "d": 6500,
    }


def test_least_amounts_are_trimmed_in_cpus_and_memory() -> None:
    slow = matrix(1, (1, 2, 4), (10, 20, 40), (5, 5, 5), (5, 9, 9), (5, 9, 20))
    share = Amounts(3000, 30 * GB)
    assert least_amounts(slow, share, Amounts(500, GB)) == Amounts(2000, 20 * GB)
    assert least_amounts(slow, share, Amounts(2500, 25 * GB)) == Amounts(2500, 25 * GB)


def test_share_without_throughput_guarantees_the_floor() -> None:
    high = matrix(1, (4,), (40,), (20,))
    assert least_amounts(high, Amounts(3000, 30 * GB), Amounts(500, GB)) == Amounts(500, GB)


def test_value_is_relative_to_the_share_or_to_the_best_throughput() -> None:
    rising = matrix(1, (1, 4), (1,), (5,), (20,))
    share = Amounts(1000, GB)
    pod = SizedPod("a", 1, share, share, share, share, Amounts(8000, GB), rising)
    assert pod.value(Amounts(4000, GB)) == 4
    assert replace(pod, share=Amounts(500, GB)).value(Amounts(1000, GB)) == 0.25
    assert replace(pod, matrix=None).value(Amounts(1, 1)) == 1


def test_pod_without_a_memory_request_has_a_value() -> None:
    pod = replace(tuned("a", facts=SCALES), spec=ContainerAmounts(Amounts(1000, 0), 1000, None))
    assert sized_node(tuned_node(pod)).pods[0].value(Amounts(4000, 0)) == pytest.approx(2)


def test_pending_pods_are_accepted_in_order_while_all_guarantees_fit() -> None:
    pods = [tuned("a", 500, facts=FLAT), tuned("b", 500, facts=SCALES)]
    pending = [
        PendingPod("too large", Amounts(6000, GIB)),
        PendingPod("first", Amounts(3000, GIB)),
        PendingPod("too much memory", Amounts(100, 100 * GIB)),
        PendingPod("second", Amounts(2500, GIB)),
        PendingPod("does not fit any more", Amounts(1, GIB)),
    ]
    node = sized_node(tuned_node(*pods, pending=pending))
    assert node.kept_free == Amounts(5500, 2 * GIB)
    assert node.available == Amounts(2500, 62 * GIB)
    assert node.spare == Amounts(0, 60 * GIB)


def test_memory_is_shared_by_the_pods_whose_memory_is_tuned() -> None:
    data = Dataset(size=GIB, storage_mb_per_s=100, memory_floor=GIB, bytes_per_step=1000)
    pods = [tuned(uid, 500, 4 * GIB, dataset=data) for uid in "ab"]
    node = sized_node(tuned_node(*pods, tuned("c", 500, 10 * GIB, gpus=2), memory=64 * GIB))
    assert {pod.uid: pod.share for pod in node.pods} == {
        "a": Amounts(2000, 27 * GIB),
        "b": Amounts(2000, 27 * GIB),
        "c": Amounts(4000, 10 * GIB),
    }


def test_pods_that_share_the_storage_need_more_memory_for_the_same_speed() -> None:
    data = Dataset(100 * GIB, storage_mb_per_s=1000, memory_floor=GIB, bytes_per_step=10**8)
    pod = tuned("a", 500, 4 * GIB, facts=facts({1000: 10, 2000: 20}), dataset=data)
    other = tuned("b", 500, 4 * GIB, dataset=data)
    alone = sized_node(tuned_node(pod, memory=400 * GIB, gpus=2)).pods[0]
    beside = sized_node(tuned_node(pod, other, memory=400 * GIB, gpus=2)).pods[0]
    assert alone.share == beside.share == Amounts(4000, 200 * GIB)
    # 20 steps per second read 2,000 MB/s: alone half of this must be cached, beside b 3/4.
    assert (alone.least.memory, beside.least.memory) == (51 * GIB, 76 * GIB)
    assert alone.least.milli_cpu == beside.least.milli_cpu == 2000


def test_least_cpus_are_enough_while_the_other_pods_read_nothing() -> None:
    data = Dataset(100 * GIB, storage_mb_per_s=1000, memory_floor=GIB, bytes_per_step=10**8)
    pods = [
        tuned(uid, 500, 4 * GIB, facts=facts({1000: 5, 2000: 10}), dataset=data) for uid in "ab"
    ]
    node = sized_node(tuned_node(*pods, memory=16 * GIB, gpus=2))
    # With its part of the storage a pod makes about 5 steps per second, with all of it 10.
    assert node.pods[0].least.milli_cpu == 2000


def test_share_of_memory_is_a_whole_number_of_mebibytes() -> None:
    data = Dataset(size=GIB, storage_mb_per_s=100, memory_floor=GIB, bytes_per_step=1000)
    node = sized_node(tuned_node(tuned("a", 500, GIB, dataset=data), gpus=3))
    assert node.pods[0].share.memory == 64 * GIB // 3 // 2**20 * 2**20


def test_memory_that_is_not_tuned_is_not_shared() -> None:
    mode = ResourcesMode.PROPORTIONAL
    node = sized_node(tuned_node(tuned("a", memory=3 * GIB, mode=mode), memory=64 * GIB))
    assert node.pods[0].share.memory == node.pods[0].most.memory == 3 * GIB


@pytest.mark.parametrize(
    ("seconds_ago", "recent"), [(59, True), (60, False), (-60, True), (-61, False)]
)
def test_resize_is_recent_for_60_seconds_by_any_clock(seconds_ago: int, *, recent: bool) -> None:
    pod: TunedPod = with_record(tuned("a"), seconds_ago=seconds_ago)
    node = tuned_node(pod)
    assert sized_node(node).pods[0].resized_recently is recent
    later = replace(node, now=NOW + timedelta(hours=1))
    assert not sized_node(later).pods[0].resized_recently


def test_pod_that_was_never_resized_was_not_resized_recently() -> None:
    assert not sized_node(tuned_node(tuned("a"))).pods[0].resized_recently


def test_facts_of_the_share_are_exact() -> None:
    node = tuned_node(tuned("a", 100, facts=facts({1000: 10, 8000: 80})), milli_cpu=7777)
    share = sized_node(node).pods[0].share
    assert share.milli_cpu == 1944
    assert sized_node(node).pods[0].least == share

"""Pods are resized only if they or the node need it, or for a clear gain."""

from collections.abc import Mapping
from dataclasses import replace

from gputopo.api.tuning import Amounts
from gputopo.sensitivity.matrix import SensitivityMatrix
from gputopo.tuning.hysteresis import worthwhile
from gputopo.tuning.sized import NOTHING, SizedNode, SizedPod
from support.sizing import matrix

GB = 10**9
CPUS = [cpus / 100 for cpus in range(1, 1001)]
RISING = matrix(1, CPUS, (1e-9,), *([each] for each in CPUS))
"""Throughput in proportion to the CPUs, in steps of 10m."""


def pod(
    uid: str,
    now: int,
    *,
    least: int = 1000,
    throughput: SensitivityMatrix | None = RISING,
    recent: bool = False,
    floor: int = 500,
    most: int = 9000,
) -> SizedPod:
    def cpus(milli_cpu: int) -> Amounts:
        return Amounts(milli_cpu, GB)

    share = cpus(least)
    return SizedPod(
        uid,
        1,
        cpus(now),
        cpus(floor),
        share,
        share,
        cpus(most),
        throughput,
        resized_recently=recent,
    )


def chosen(
    pods: list[SizedPod], best: Mapping[str, int], milli_cpu: int = 10_000, kept_free: int = 0
) -> dict[str, int]:
    node = SizedNode(Amounts(milli_cpu, 100 * GB), tuple(pods), Amounts(kept_free, 0))
    wanted = {uid: Amounts(cpus, GB) for uid, cpus in best.items()}
    return {uid: amounts.milli_cpu for uid, amounts in worthwhile(node, wanted).items()}


def test_clear_gain_causes_a_resize() -> None:
    assert chosen([pod("a", 1000)], {"a": 2000}) == {"a": 2000}


def test_gain_below_3_percent_of_the_sum_causes_no_resize() -> None:
    # A pod without a matrix does not gain; it has the value 1.
    idle = pod("b", 3000, throughput=None)
    pods = [pod("a", 1000), idle]
    assert chosen(pods, {"a": 1059, "b": 1000}) == {"a": 1000, "b": 3000}
    assert chosen(pods, {"a": 1060, "b": 1000}) == {"a": 1060, "b": 1000}


def test_gain_of_a_tenth_of_one_pod_causes_a_resize_beside_many_pods() -> None:
    others = {f"b{number}": 1000 for number in range(7)}
    pods = [pod("a", 1000), *(pod(uid, 1000) for uid in others)]
    assert chosen(pods, {"a": 1110, **others})["a"] == 1110
    assert chosen(pods, {"a": 1090, **others})["a"] == 1000


def test_cut_without_a_gain_of_another_pod_causes_no_resize() -> None:
    assert chosen([pod("a", 4000, throughput=None)], {"a": 1000}) == {"a": 4000}


def test_gain_waits_while_any_pod_was_resized_recently() -> None:
    pods = [pod("a", 1000), pod("b", 1000, recent=True)]
    assert chosen(pods, {"a": 2000, "b": 1000}) == {"a": 1000, "b": 1000}


def test_pod_below_its_guarantee_is_raised_at_once() -> None:
    pods = [pod("a", 900, recent=True), pod("b", 1000)]
    assert chosen(pods, {"a": 2000, "b": 2000}) == {"a": 1000, "b": 1000}


def test_small_lack_after_a_recent_resize_waits() -> None:
    assert chosen([pod("a", 960, recent=True)], {"a": 1000}) == {"a": 960}
    assert chosen([pod("a", 960)], {"a": 1000}) == {"a": 1000}


def test_small_lack_does_not_wait_below_the_floor() -> None:
    assert chosen([pod("a", 960, recent=True, floor=970)], {"a": 1000}) == {"a": 1000}


def test_pod_above_its_maximum_is_cut() -> None:
    assert chosen([pod("a", 4000, most=3000, recent=True)], {"a": 3000}) == {"a": 3000}


def test_lost_capacity_cuts_as_few_pods_as_possible() -> None:
    pods = [pod(uid, 3000, recent=True) for uid in "abc"]
    best = {"a": 2500, "b": 1000, "c": 2400}
    assert chosen(pods, best, 8900) == {"a": 3000, "b": 1000, "c": 3000}
    assert chosen(pods, best, 6600) == {"a": 3000, "b": 1000, "c": 2400}
    assert chosen(pods, best, 5900) == best


def test_pods_with_less_than_their_best_amounts_are_not_cut() -> None:
    pods = [pod("a", 3000, recent=True), pod("b", 1000, recent=True)]
    assert chosen(pods, {"a": 1000, "b": 2500}, 3500) == {"a": 1000, "b": 1000}


def test_capacity_for_pending_pods_is_only_cut_and_raises_follow_later() -> None:
    pods = [pod("a", 4000, throughput=None), pod("b", 1000)]
    best = {"a": 1000, "b": 3000}
    assert chosen(pods, best, 5000, kept_free=1000) == {"a": 1000, "b": 1000}
    assert chosen(pods, best, 6000, kept_free=1000) == best


def test_lost_capacity_without_pending_pods_is_also_divided_again() -> None:
    pods = [pod("a", 4000, throughput=None), pod("b", 1000)]
    assert chosen(pods, {"a": 1000, "b": 3000}, 4500) == {"a": 1000, "b": 3000}


def test_small_raises_are_left_out_of_a_resize() -> None:
    pods = [pod("a", 1000), pod("b", 2000)]
    assert chosen(pods, {"a": 3000, "b": 2090}) == {"a": 3000, "b": 2000}


def test_small_cuts_are_left_out_if_the_others_leave_enough() -> None:
    pods = [pod("a", 1000), pod("b", 2000)]
    best = {"a": 3000, "b": 1910}
    assert chosen(pods, best, 5000) == {"a": 3000, "b": 2000}
    assert chosen(pods, best, 4990) == best


def test_small_changes_alone_never_cause_a_resize() -> None:
    assert chosen([pod("a", 2000), pod("b", 2000)], {"a": 2090, "b": 2090}) == {
        "a": 2000,
        "b": 2000,
    }


def test_memory_is_cut_independently_of_cpus() -> None:
    one = replace(pod("a", 3000), now=Amounts(3000, 80 * GB), most=Amounts(9000, 90 * GB))
    node = SizedNode(Amounts(10_000, 50 * GB), (one,), NOTHING)
    assert worthwhile(node, {"a": Amounts(1000, 40 * GB)}) == {"a": Amounts(3000, 40 * GB)}


def test_pods_without_memory_requests_can_have_small_changes() -> None:
    pods = tuple(
        replace(each, now=each.now._replace(memory=0), least=each.least._replace(memory=0))
        for each in (pod("a", 1000), pod("b", 2000))
    )
    best = {"a": Amounts(3000, 0), "b": Amounts(2090, 0)}
    node = SizedNode(Amounts(10_000, 0), pods)
    assert worthwhile(node, best) == {"a": Amounts(3000, 0), "b": Amounts(2000, 0)}


def test_pods_that_make_no_steps_with_any_amounts_are_not_resized() -> None:
    never = matrix(1, (100,), (1e-9,), [1])
    assert chosen([pod("a", 3000, throughput=never)], {"a": 1000}) == {"a": 3000}

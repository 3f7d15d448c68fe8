"""Targets of a node in the situations of a cluster, with their reasons."""

from dataclasses import replace

import pytest

from gputopo.api.tuning import Amounts, ResourcesMode
from gputopo.sizing.tune import tune
from gputopo.tuning.model import Dataset, PendingPod, Target, TunedNode
from gputopo.tuning.targets import targets
from support.tuning.nodes import (
    FLAT,
    GIB,
    SCALES,
    carried_out,
    dataset_of,
    facts,
    tuned,
    tuned_node,
    with_record,
)

PROPORTIONAL = ResourcesMode.PROPORTIONAL
DECODES = facts({1000: 10, 2000: 20, 3500: 32, 8000: 50})
"""Each further CPU raises the throughput less."""


def cpus(chosen: dict[str, Target]) -> dict[str, int]:
    return {uid: target.amounts.milli_cpu for uid, target in chosen.items()}


def mixed() -> TunedNode:
    """Return a full node: two jobs are faster with more CPUs, two are not."""
    flat = [tuned(uid, 500, facts=FLAT) for uid in ("flat-1", "flat-2")]
    scaling = [tuned(uid, 500, facts=DECODES) for uid in ("decodes-1", "decodes-2")]
    return tuned_node(*flat, *scaling)


def test_cpus_that_two_jobs_do_not_need_make_the_others_faster() -> None:
    chosen = targets(mixed())
    assert cpus(chosen) == {"flat-1": 500, "flat-2": 500, "decodes-1": 3500, "decodes-2": 3500}
    assert chosen["decodes-1"].value == pytest.approx(1.6)
    assert chosen["decodes-1"].reason == "3,500m CPU: 60 % faster than with its share of 2,000m"
    assert chosen["flat-1"].reason == "500m CPU: as fast as with its share of 2,000m"


def test_other_mechanism_keeps_the_guarantees() -> None:
    chosen = targets(mixed(), tune)
    assert min(cpus(chosen)["decodes-1"], cpus(chosen)["decodes-2"]) >= 2000
    assert sum(cpus(chosen).values()) <= 8000


def test_pod_that_leaves_makes_the_others_faster() -> None:
    node = carried_out(mixed(), targets(mixed()), seconds=60)
    left = replace(node, pods=[pod for pod in node.pods if pod.uid != "decodes-2"])
    assert cpus(targets(left)) == {"flat-1": 500, "flat-2": 500, "decodes-1": 7000}


def test_pod_that_arrives_gets_its_share_at_once_and_cuts_the_others() -> None:
    first = [tuned("flat", 500, facts=FLAT), tuned("decodes-1", 500, facts=DECODES)]
    node = tuned_node(*first, gpus=3)
    node = carried_out(node, targets(node), seconds=5)
    assert cpus(targets(node)) == {"flat": 500, "decodes-1": 7500}
    arrived = replace(node, pods=[*node.pods, tuned("decodes-2", 100, facts=DECODES)])
    assert cpus(targets(arrived)) == {"flat": 500, "decodes-1": 4000, "decodes-2": 2666}


def test_pending_pods_get_what_the_others_have_above_their_guarantees() -> None:
    node = carried_out(mixed(), targets(mixed()), seconds=5)
    pending = [PendingPod("web", Amounts(1000, GIB)), PendingPod("batch", Amounts(3000, GIB))]
    chosen = targets(replace(node, pending=pending))
    assert sum(cpus(chosen).values()) <= 7000
    assert min(cpus(chosen)["decodes-1"], cpus(chosen)["decodes-2"]) >= 2000
    assert chosen["flat-1"].reason == (
        "500m CPU: as fast as with its share of 2,000m; 1,000m CPU and 1.0 GiB are kept free for"
        " pending pods"
    )


def test_proportional_pods_have_their_share() -> None:
    node = tuned_node(
        tuned("a", 500, mode=PROPORTIONAL), tuned("b", 500, mode=PROPORTIONAL, gpus=2)
    )
    chosen = targets(node)
    assert cpus(chosen) == {"a": 2000, "b": 4000}
    assert chosen["a"].reason == "2,000m CPU: its share"


def test_pods_without_facts_have_their_share_and_the_reason_says_so() -> None:
    chosen = targets(tuned_node(tuned("a", 500), tuned("b", 500, gpus=2)))
    assert cpus(chosen) == {"a": 2000, "b": 4000}
    assert chosen["a"].reason == (
        "2,000m CPU: its share, because its throughput with other CPUs is not known for 1 GPU"
    )
    assert "2 GPUs" in chosen["b"].reason


def test_pod_with_more_than_its_share_keeps_it_while_no_pod_needs_it() -> None:
    pod = with_record(tuned("a", 3000, mode=PROPORTIONAL), floor=Amounts(500, GIB))
    chosen = targets(tuned_node(pod))
    assert chosen["a"] == Target(
        Amounts(3000, GIB), "3,000m CPU: unchanged; its share is 2,000m", 1.0
    )


def test_floor_and_maximum_replace_the_share() -> None:
    chosen = targets(
        tuned_node(
            tuned("floor", 3000, mode=PROPORTIONAL),
            tuned("most", 500, mode=PROPORTIONAL, most_milli_cpu=1000),
        )
    )
    assert chosen["floor"].reason == "3,000m CPU: its floor"
    assert chosen["most"].reason == "1,000m CPU: its maximum"


def test_floors_that_do_not_fit_are_kept_and_the_reason_says_so() -> None:
    pods = [tuned("a", 3000, 40 * GIB, facts=SCALES), tuned("b", 2000, 30 * GIB)]
    chosen = targets(tuned_node(*pods, milli_cpu=4000))
    assert cpus(chosen) == {"a": 3000, "b": 2000}
    assert chosen["a"].reason == (
        "3,000m CPU: as fast as with its floor of 3,000m; the floors of all pods, 5,000m, exceed"
        " the 4,000m CPU that the node has for them; the floors of all pods, 70.0 GiB, exceed the"
        " 64.0 GiB of memory that the node has for them"
    )


def test_pods_above_their_floors_are_cut_to_them_if_not_even_the_floors_fit() -> None:
    pods = [
        with_record(tuned(uid, 4000, facts=SCALES), floor=Amounts(2000, GIB), seconds_ago=1)
        for uid in "ab"
    ]
    assert cpus(targets(tuned_node(*pods, milli_cpu=3000))) == {"a": 2000, "b": 2000}


def test_pods_left_alone_keep_their_requests_and_count() -> None:
    measured = tuned("a", 500, facts=SCALES, measuring=True)
    pinned = with_record(tuned("b", 1000), pinned=True)
    chosen = targets(tuned_node(measured, pinned, tuned("c", 500, facts=SCALES), gpus=3))
    assert cpus(chosen) == {"a": 500, "b": 1000, "c": 3500}
    assert chosen["a"].reason == "unchanged: gputopo measures the pod with several CPU limits"
    assert chosen["b"].reason == "unchanged: another client has resized the pod"


def test_reason_includes_memory_if_it_is_tuned() -> None:
    data = Dataset(100 * GIB, storage_mb_per_s=500, memory_floor=GIB, bytes_per_step=50 * 10**6)
    pod = tuned("a", 500, 4 * GIB, facts=SCALES, dataset=data)
    node = tuned_node(pod, milli_cpu=8000, memory=200 * GIB, gpus=2)
    target = targets(node)["a"]
    assert target.amounts.memory > 50 * GIB
    assert target.reason.startswith("8,000m CPU and 88.5 GiB: ")
    assert target.reason.endswith(" faster than with its share of 4,000m and 100.0 GiB")


def test_share_without_throughput_is_reported() -> None:
    unable = facts({1000: 0, 4000: 0, 4100: 10})
    reason = targets(tuned_node(tuned("a", 500, facts=unable)))["a"].reason
    assert reason == "4,100m CPU: it makes no steps with its share of 2,000m"


def test_small_lack_after_a_resize_is_reported() -> None:
    pod = with_record(tuned("a", 1960, facts=SCALES), floor=Amounts(500, GIB), seconds_ago=1)
    reason = targets(tuned_node(pod))["a"].reason
    assert reason == "1,960m CPU: 2 % slower than with its share of 2,000m"


def test_node_without_pods_has_no_targets() -> None:
    assert targets(tuned_node()) == {}


def test_data_set_whose_memory_floor_exceeds_the_node_is_not_used_and_the_reason_says_so() -> None:
    dataset = replace(dataset_of(GIB), memory_floor=65 * GIB)
    node = tuned_node(tuned("a", 500, facts=SCALES, dataset=dataset), gpus=1)
    target = targets(node)["a"]
    assert target.amounts == Amounts(8000, GIB)
    assert target.reason.endswith(
        "; its data set is not used: memoryFloor of its GPUProfile exceeds the node's memory"
    )


def test_pod_that_ran_out_of_memory_takes_no_share_of_another_pod() -> None:
    pods = [tuned(uid, 1000, 8 * GIB, dataset=dataset_of(90 * GIB)) for uid in "ab"]
    pods[0] = with_record(pods[0], least_memory=60 * GIB)
    found = {uid: target.amounts.memory for uid, target in targets(tuned_node(*pods)).items()}
    assert found == {"a": 48 * GIB, "b": 16 * GIB}  # two of four GPUs are idle
    limited = [replace(pods[0], most_memory=20 * GIB), pods[1]]
    found = {uid: target.amounts.memory for uid, target in targets(tuned_node(*limited)).items()}
    assert found == {"a": 20 * GIB, "b": 16 * GIB}

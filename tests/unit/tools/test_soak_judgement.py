"""What the soak calls wrong, on values that it would read."""

import json
import random
from itertools import islice

from localcluster import containers
from soaktest import faults, report, truth
from soaktest.reasons import kind_of
from soaktest.report import Report
from soaktest.truth import Running
from soaktest.world import PodView, World, view

POD = "11111111-2222-3333-4444-555555555555"
OTHER = "99999999-2222-3333-4444-555555555555"
CONTAINER = "c" * 64


def _pod(uid: str, *gpus: str, phase: str = "Running") -> PodView:
    name = f"pod-{uid[:2]}"
    return PodView(uid, "soak", name, "n1", phase, gpus, "", None, leaving=False, nominated="")


def _running(uid: str, *visible: str, minors: frozenset[int] = frozenset({0, 1})) -> Running:
    return Running(containers.Process(1, "n1", uid, CONTAINER), visible, minors)


def test_a_gpu_on_two_live_pods_is_reported_with_both_names() -> None:
    world = World()
    assert world.apply(_pod(POD, "GPU-a", "GPU-b"), deleted=False) == []
    (text,) = world.apply(_pod(OTHER, "GPU-b"), deleted=False)
    assert "GPU-b" in text
    assert "pod-11" in text
    assert "pod-99" in text


def test_a_gpu_is_free_again_once_its_pod_has_ended_or_gone() -> None:
    for freed in (_pod(POD, "GPU-a", phase="Failed"), _pod(POD, "GPU-a", phase="Succeeded")):
        world = World()
        world.apply(_pod(POD, "GPU-a"), deleted=False)
        assert world.apply(freed, deleted=False) == []
        assert world.apply(_pod(OTHER, "GPU-a"), deleted=False) == []
    world = World()
    world.apply(_pod(POD, "GPU-a"), deleted=False)
    assert world.apply(_pod(POD, "GPU-a"), deleted=True) == []
    assert world.apply(_pod(OTHER, "GPU-a"), deleted=False) == []
    assert list(world.pods) == [OTHER]


def test_a_full_list_forgets_who_is_gone_and_is_checked_itself() -> None:
    world = World()
    world.apply(_pod(POD, "GPU-a"), deleted=False)
    assert world.replace([_pod(OTHER, "GPU-a")]) == []
    assert len(world.replace([_pod(POD, "GPU-a"), _pod(OTHER, "GPU-a")])) == 1


def test_pods_without_gpus_do_not_matter() -> None:
    pod = {"metadata": {}, "spec": {"containers": [{"name": "main"}]}}
    assert view(pod) is None


def test_two_containers_with_one_gpu_are_found_and_those_of_one_pod_are_not() -> None:
    both = [_running(POD, "GPU-a", "GPU-b"), _running(OTHER, "GPU-b")]
    assert [uuid for uuid, _, _ in truth.shared(both)] == ["GPU-b"]
    assert list(truth.shared([_running(POD, "GPU-a"), _running(POD, "GPU-a")])) == []


def test_each_kind_of_difference_between_sources_is_found() -> None:
    minors = {0: "GPU-a", 1: "GPU-b", 2: "GPU-c"}
    recorded = {POD: frozenset({"GPU-a", "GPU-b"})}
    intended = ("GPU-b", "GPU-a")
    right = truth.compare(_running(POD, *intended), intended, recorded, minors)
    assert right.as_intended
    assert right.as_kubelet_recorded
    order = truth.compare(_running(POD, "GPU-a", "GPU-b"), intended, recorded, minors)
    assert not order.as_intended
    assert order.as_kubelet_recorded
    devices = _running(POD, *intended, minors=frozenset({0, 2}))
    assert not truth.compare(devices, intended, recorded, minors).as_kubelet_recorded
    assert not truth.compare(_running(POD, *intended), intended, {}, minors).as_kubelet_recorded


def test_checkpoint_is_read_across_numa_nodes_and_for_our_resource_only() -> None:
    entries = [
        {"PodUID": POD, "ResourceName": "gputopo.io/gpu", "DeviceIDs": {"0": ["a"], "1": ["b"]}},
        {"PodUID": POD, "ResourceName": "example.com/nic", "DeviceIDs": {"0": ["n"]}},
    ]
    text = json.dumps({"Data": {"PodDeviceEntries": entries}})
    assert truth.parse_checkpoint(text) == {POD: frozenset({"a", "b"})}
    assert truth.parse_checkpoint(json.dumps({"Data": {"PodDeviceEntries": None}})) == {}


def test_a_container_is_known_by_its_cgroup_of_either_version() -> None:
    one = f"12:devices:/gputopo-n2/kubepods/besteffort/pod{POD}/{CONTAINER}\n"
    two = f"0::/gputopo-n2/kubepods/burstable/pod{POD}/{CONTAINER}\n"
    assert containers.parse_cgroup(one) == ("n2", POD, CONTAINER)
    assert containers.parse_cgroup(two) == ("n2", POD, CONTAINER)
    assert containers.parse_cgroup("0::/user.slice/session-1.scope\n") is None
    assert containers.parse_cgroup("5:cpu:/gputopo-n1/system\n") is None


def test_the_same_seed_deals_the_same_kills_and_each_kind_comes_before_any_comes_too_often() -> (
    None
):
    def drawn(seed: int) -> list[faults.Fault]:
        rng = random.Random(seed)  # noqa: S311 - as the soak does
        return list(islice(faults.deal(rng, ["n1", "n2", "n3"]), 60))

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    assert len({fault.what for fault in drawn(1)[:33]}) == 13
    assert {fault.node for fault in drawn(1)} == {"n1", "n2", "n3"}


def test_a_report_with_findings_is_not_clean_and_shows_them() -> None:
    clean = Report(1, 2.0, {"kills": 3}, {}, "soak.log")
    assert clean.is_clean
    assert any(line.split() == ["GPUs", "leaked", "0"] for line in report.table(clean))
    found = Report(1, 2.0, {"kills": 3}, {"GPUs leaked": ["n1 holds GPU-a"]}, "soak.log")
    assert not found.is_clean
    assert report.document(found)["clean"] is False
    shown = "\n".join(report.table(found))
    assert "must be 0" in shown
    assert "n1 holds GPU-a" in shown


def test_pods_with_the_same_reason_are_counted_together() -> None:
    frame = (
        "UnexpectedAdmissionError Pod was rejected: Allocate failed due to {}, which is unexpected"
    )
    one, other = (
        frame.format(f"GPU-{uuid}-0: held by pod-{number}, asked {number}")
        for uuid, number in (("1a2b", 3), ("3c4d", 4))
    )
    assert kind_of(one) == kind_of(other) == "X: held by X, asked N"
    from_agent = "device plugin Allocate rpc failed with err: rpc error: code = Unknown desc = sick"
    assert kind_of(frame.format(from_agent)) == "sick"
    message = (
        "0/3 nodes are available: 3 too few. preemption: 0/3 nodes are available: 3 No victims"
    )
    assert kind_of(message) == "N/N nodes are available: N too few"
    assert kind_of("") == "no reason given"


def test_a_waiting_pod_has_the_message_of_the_scheduler() -> None:
    message = "0/3 nodes are available: 3 too few free GPUs."
    unplaced = {"type": "PodScheduled", "status": "False", "message": message}
    limits = {"limits": {"gputopo.io/gpu": "8"}}
    found = view(
        {
            "metadata": {"uid": POD, "namespace": "soak", "name": "pod-1"},
            "spec": {"containers": [{"name": "main", "resources": limits}]},
            "status": {"phase": "Pending", "conditions": [unplaced]},
        }
    )
    assert found is not None
    assert found.why == message

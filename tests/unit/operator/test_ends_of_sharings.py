"""When a sharing ends: every check of the stated time must show that it does not pay."""

from gputopo.api.shares import SharingLimits, share_id
from gputopo.sharing.judge import SharingVerdict
from gputopo_cluster.topologies import UnreadableTopology, parse_gpu_node
from gputopo_kube.document import ObjectKey
from gputopo_operator.decision.sharing import (
    JudgedPod,
    SharingKey,
    due,
    has_shared_gpus,
    shared_gpus,
)
from support.builders.shares import sharing_topology
from support.builders.topologies import node

GPU: SharingKey = ("GPU-0", "first", "last")
OTHER: SharingKey = ("GPU-1", "one", "two")
END, KEEP = SharingVerdict.END, SharingVerdict.KEEP


def test_time_begins_with_the_first_check_that_shows_no_gain() -> None:
    assert due({}, {GPU: END}, 100.0, 60.0) == ({GPU: 100.0}, set())
    assert due({GPU: 100.0}, {GPU: END}, 159.0, 60.0) == ({GPU: 100.0}, set())


def test_sharing_ends_after_the_time_and_stays_due_until_its_pods_change() -> None:
    assert due({GPU: 100.0}, {GPU: END}, 160.0, 60.0) == ({GPU: 100.0}, {GPU})
    assert due({GPU: 100.0}, {GPU: END}, 165.0, 60.0) == ({GPU: 100.0}, {GPU})


def test_check_with_gain_begins_the_time_again() -> None:
    assert due({GPU: 100.0}, {GPU: KEEP}, 159.0, 60.0) == ({}, set())
    assert due({}, {GPU: END}, 160.0, 60.0) == ({GPU: 160.0}, set())


def test_sharings_are_independent_and_one_that_has_ended_is_forgotten() -> None:
    gone: SharingKey = ("GPU-0", "first", "former")
    bad = {gone: 0.0, GPU: 100.0, OTHER: 120.0}
    found = due(bad, {GPU: END, OTHER: END}, 160.0, 60.0)
    assert found == ({GPU: 100.0, OTHER: 120.0}, {GPU})


def test_gpus_of_several_present_pods_are_judged() -> None:
    topology = node(0, 1, 2, 3)
    uuids = [gpu.uuid for gpu in topology.gpus]
    users = ((0, "late"), (0, "early"), (1, "alone"), (2, "early"), (2, "ending"))
    shares: dict[str, str] = {
        share_id(uuids[gpu], rank): uid for rank, (gpu, uid) in enumerate(users)
    }
    created = {"early": 1.0, "late": 2.0, "alone": 3.0}
    pods = {
        uid: JudgedPod(uid, ObjectKey("default", uid), None, time, SharingLimits())
        for uid, time in created.items()
    }
    parsed = parse_gpu_node(
        sharing_topology("n", topology, shares=shares, used_by={3: "uid-with-a-whole-gpu"})
    )
    assert has_shared_gpus(parsed)
    assert [gpu.key for gpu in shared_gpus(parsed, pods)] == [(uuids[0], "early", "late")]
    assert not shared_gpus(UnreadableTopology("n", "of a newer agent"), pods)
    alone: dict[str, str] = {share_id(uuids[0], 0): "alone"}
    assert not has_shared_gpus(parse_gpu_node(sharing_topology("n", topology, shares=alone)))

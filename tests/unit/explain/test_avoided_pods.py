"""Explanations and what-if questions consider the pods that a pod must avoid."""

from gputopo_explain.pending.model import PendingState
from gputopo_explain.pending.pods import explain_pod
from gputopo_explain.placed.choices import choices
from gputopo_explain.placed.recorded import recorded_placement
from gputopo_explain.placed.replay import ReplayVerdict, replay
from gputopo_explain.whatif import place_live
from gputopo_scheduling.evaluation import BESIDE_AVOIDED
from support.builders.live import cluster, gpu_user
from support.builders.objects import Document, avoiding, pod
from support.builders.requests import pod_view
from support.explain.placed import DGX1, altered, gpu_node, placed_pod


def noisy(name: str, node: str, first: int, count: int = 1) -> Document:
    document = gpu_user(name, node, first, count)
    document["metadata"]["labels"] = {"app": "noisy"}
    return document


def quiet(gpus: int, level: str = "Socket") -> Document:
    return pod("quiet", gpus, annotations=avoiding(level, app="noisy"))


def test_what_if_chooses_gpus_of_the_other_socket() -> None:
    found = place_live(quiet(2), cluster([noisy("a", "n1", 0)], nodes=["n1"]), runners_up=9)
    assert found.chosen is not None
    assert len(found.chosen.matches) == 6
    assert all({*each.gpus} <= {4, 5, 6, 7} for each in found.chosen.matches)
    assert found.options[0].match == found.chosen.matches[0]


def test_pending_pod_names_the_pods_that_would_have_to_end() -> None:
    found = explain_pod(quiet(5), cluster([noisy("a", "n1", 0)], nodes=["n1"]))
    assert found.state is PendingState.WAITING
    assert [group.reason for group in found.groups] == [BESIDE_AVOIDED]
    (release,) = found.releases
    assert [each.pod for each in release.pods] == ["default/a"]


def test_pod_that_has_gpus_and_is_avoided_counts_once() -> None:
    others = [gpu_user("b", "n1", 4, 3)]
    objects = cluster([noisy("a", "n1", 0, 2), *others], nodes=["n1"])
    found = explain_pod(quiet(4, "Node"), objects)
    (release,) = found.releases
    assert [(each.pod, each.gpus) for each in release.pods] == [("default/a", 5)]


def test_replay_considers_only_the_gpus_that_were_allowed() -> None:
    placed = placed_pod(2, busy=(4, 5))
    record = altered(placed, replay={"usable": [0, 1, 2, 3, 6, 7]})
    same = replay(recorded_placement(pod_view(record)), gpu_node())
    assert same.verdict is ReplayVerdict.SAME
    assert same.input is not None
    assert same.input.usable == 0b11001111
    other = altered(placed, replay={"usable": [0, 1, 2, 3]})
    found = replay(recorded_placement(pod_view(other)), gpu_node())
    assert found.verdict is ReplayVerdict.DIFFERENT
    assert found.reasons == ("GPUs: recorded 6, 7; the replay chooses 0, 3",)
    assert found.input is not None
    assert choices(DGX1, found.input).chosen.gpus == (0, 3)

"""The explanation of a pod that has a share of a GPU."""

import json

import pytest

from gputopo.api.names import PLACEMENT_ANNOTATION
from gputopo_cluster.topologies import GpuNode, parse_gpu_node
from gputopo_explain.placed.explanation import NOT_INTENDED, explain_placed
from gputopo_explain.placed.replay import ReplayVerdict
from gputopo_explain.placed.share import share_parts
from support.builders.clusters import shape
from support.builders.live import gpu_user
from support.builders.objects import Document
from support.explain.placed import altered, gpu_node
from support.shares import (
    placed,
    share,
    sharing_cluster,
    sharing_pod,
    sharing_topology,
    two_on_one_gpu,
)


def parts(document: Document, topology: Document) -> dict[str, tuple[str, str]]:
    found = explain_placed(document, topology).share
    assert found is not None
    return {part.name: (part.value, part.why) for part in share_parts(found)}


def test_a_shared_gpu_has_the_prediction_the_other_pods_and_the_limits() -> None:
    _, second, topology = two_on_one_gpu(
        sharing_memory="4Gi", sharing_max_slowdown_percent="30", sharing_if_slow="Move"
    )
    found = explain_placed(second, topology)
    assert found.replay.verdict is ReplayVerdict.SAME, found.replay.reasons
    assert found.share is not None
    assert found.share.summed_speed == 1.6
    assert found.share.slowdowns == [("default/first", 25), ("default/second", 25)]
    assert (found.share.beside, found.share.beside_now) == (["default/first"], ["default/first"])
    shown = parts(second, topology)
    assert shown["device"][1].startswith("predicted summed speed 1.60")
    assert shown["GPU memory"] == (
        "4Gi",
        "annotation gputopo.io/sharing-memory; the limit that MPS enforces",
    )
    assert shown["largest slowdown"][0] == "30 %"
    assert shown["if it is too slow"][0] == "moved, if it came last"
    assert shown["termination"][0] == "by the node, before SIGTERM"


def test_the_first_pod_of_a_gpu_has_defaults_and_the_pods_that_came_later() -> None:
    first, _, topology = two_on_one_gpu()
    found = explain_placed(first, topology)
    assert found.replay.verdict is ReplayVerdict.SAME
    shown = parts(first, topology)
    assert shown["device"][1] == "the GPU was idle"
    assert shown["beside now"][0] == "default/second"
    assert shown["GPU memory"][1].startswith("an equal part of the GPU")
    assert shown["largest slowdown"][0] == "of the installation"
    assert shown["if it is too slow"][0] == "reported"
    [gpu] = found.gpus
    assert (gpu.uuid, gpu.state) == (found.share.id if found.share else "", "as intended")


def test_a_program_that_ends_itself_is_named() -> None:
    _, second, topology = two_on_one_gpu(sharing_termination="Program")
    assert parts(second, topology)["termination"][0] == "by its program"


def test_the_replay_chooses_the_shared_gpu_although_others_are_idle() -> None:
    other = gpu_user("whole", "n1", 0, 2)
    pods = [sharing_pod("first", share(0, 5)), other]
    document = placed(sharing_pod("new"), sharing_cluster(pods))
    found = explain_placed(document, sharing_topology())
    assert found.replay.verdict is ReplayVerdict.SAME, found.replay.reasons
    assert found.replay.match is not None
    assert found.replay.match.gpus == (5,)


def test_the_first_pod_avoids_pods_also_in_the_replay() -> None:
    noisy = gpu_user("whole", "n1", 0, 1)
    noisy["metadata"]["labels"] = {"app": "noisy"}
    avoid = {"gputopo.io/avoid": json.dumps([{"matchLabels": {"app": "noisy"}, "level": "Socket"}])}
    document = placed(sharing_pod("new", annotations=avoid), sharing_cluster([noisy]))
    found = explain_placed(document, sharing_topology())
    assert found.replay.verdict is ReplayVerdict.SAME, found.replay.reasons


def test_gpus_whose_indices_have_gaps_can_be_shared() -> None:
    gaps = shape(1, "n1")
    assert [gpu.index for gpu in gaps.gpus] == [0, 1, 2, 5]
    device = f"{gaps.gpus[3].uuid}::0"
    objects = sharing_cluster(
        [sharing_pod("first", device)], [sharing_topology({device: "first"}, of=gaps)]
    )
    document = placed(sharing_pod("new"), objects)
    found = explain_placed(document, sharing_topology(of=gaps))
    assert found.replay.verdict is ReplayVerdict.SAME, found.replay.reasons
    assert found.share is not None
    assert found.share.gpu in {0, 1, 2, 5}
    assert found.share.memory_bytes is not None


def test_another_share_than_the_intended_one_is_named() -> None:
    first, _, _ = two_on_one_gpu()
    wrong = sharing_topology({share(2): "first"})
    states = {gpu.state for gpu in explain_placed(first, wrong).gpus}
    assert NOT_INTENDED in states


def test_a_share_of_another_gpu_than_the_recorded_one_differs() -> None:
    first, _, topology = two_on_one_gpu()
    replaced = altered(first, replay={"gpus": [7]})
    assert explain_placed(replaced, topology).differs


@pytest.mark.parametrize("topology", [None, gpu_node()])
def test_without_shares_on_the_node_the_memory_is_unknown(topology: GpuNode | None) -> None:
    first, _, _ = two_on_one_gpu()
    found = explain_placed(first, topology)
    assert found.share is not None
    assert found.share.memory_bytes is None
    assert {part.value for part in share_parts(found.share) if part.name == "GPU memory"} == {
        "unknown"
    }


def test_a_pod_without_figures_has_no_share() -> None:
    first, _, topology = two_on_one_gpu()
    del first["metadata"]["annotations"][PLACEMENT_ANNOTATION]
    found = explain_placed(first, topology)
    assert found.share is None
    assert isinstance(parse_gpu_node(topology), GpuNode)

"""The agent gives a pod the GPUs of its own annotation only."""

import json
from dataclasses import replace

import pytest

from gputopo.api.names import GPUS_ANNOTATION
from gputopo_deviceplugin.admit.placement import PlacementError, intended_gpus
from gputopo_kube.document import ObjectKey
from gputopo_kube.pods import PodView

KEY = ObjectKey("default", "a")
CONTAINERS = {"main": ["GPU-1"]}


def pod(**annotation: object) -> PodView:
    written = {
        "uid": "uid-a",
        "node": "n1",
        "generation": 1,
        "containers": CONTAINERS,
        **annotation,
    }
    return PodView("uid-a", KEY, node="n1", annotations={GPUS_ANNOTATION: json.dumps(written)})


def test_a_pod_gets_the_gpus_of_its_own_annotation() -> None:
    assert intended_gpus(pod(), "n1") == {"main": ("GPU-1",)}


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (PodView("uid-a", KEY), "was not placed by gputopo: set schedulerName: gputopo"),
        (
            pod(uid="uid-b"),
            f"annotation {GPUS_ANNOTATION}: uid is uid-b, but the pod's uid is uid-a; ",
        ),
        (pod(generation=-1), f"annotation {GPUS_ANNOTATION}: generation: "),
        (replace(pod(node="n2"), node="n2"), "is bound to node n2, not to this node, n1"),
    ],
)
def test_a_pod_without_gpus_of_its_own_is_rejected(given: PodView, reason: str) -> None:
    with pytest.raises(PlacementError, match=reason):
        intended_gpus(given, "n1")

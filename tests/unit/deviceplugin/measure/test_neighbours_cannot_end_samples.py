"""A user who changes a pod all the time does not stop the samples of the other workloads."""

import json
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any, Final

import pytest

from gputopo.api.names import (
    GPUS_ANNOTATION,
    PROFILE_ANNOTATION,
    PROFILING_ANNOTATION,
    RESOURCE,
    STEPS_SOURCE_ANNOTATION,
)
from gputopo.api.profile import NodeSample
from gputopo.catalogue import named
from gputopo.throughput.message import StepMessage
from gputopo.throughput.phases import DEFAULT_RULES
from gputopo_deviceplugin.admit.usage import GpuUser
from gputopo_deviceplugin.apiserver.node_api import parse_node_pod
from gputopo_deviceplugin.gpus.hardware import NodeHardware
from gputopo_deviceplugin.measure.containers import ContainerKey, measured_containers
from gputopo_deviceplugin.measure.environment import environment_of
from gputopo_deviceplugin.measure.meters import NodeMeters
from gputopo_deviceplugin.metrics import AgentMetrics
from gputopo_kube.pods import PodView
from support.builders.objects import Document, pod

TOPOLOGY = named("dgx1-v100", node="n1")
UUIDS = [gpu.uuid for gpu in TOPOLOGY.gpus]
HARDWARE = NodeHardware(TOPOLOGY, dict.fromkeys(UUIDS), None)
HOURS: Final = 4
STEP_SECONDS: Final = 10

Attack = Callable[[Document, int], None]


def placed(name: str, gpu: int) -> Document:
    """Return a running pod that was bound with the profile of its name."""
    written = {
        "v": 1,
        "uid": f"uid-{name}",
        "node": "n1",
        "generation": 1,
        "containers": {"main": [UUIDS[gpu]]},
        "request": {"profile": name},
    }
    annotations = {
        PROFILE_ANNOTATION: name,
        GPUS_ANNOTATION: json.dumps(written, separators=(",", ":")),
    }
    found = pod(name, node="n1", phase="Running", annotations=annotations, labels={})
    found["status"]["containerStatuses"] = [
        {"name": "main", "imageID": f"sha256:{name}", "state": {"running": {}}}
    ]
    return found


def samples_beside(attack: Attack) -> list[NodeSample]:
    """Return the victim's samples of four hours; the attacker changes its pod each minute."""
    victim, attacker = placed("victim", 0), placed("attacker", 1)
    meters = NodeMeters(DEFAULT_RULES, AgentMetrics().steps, lambda: "2026-01-01T00:00:00Z")
    own, found, views = ContainerKey("uid-victim", "main"), list[NodeSample](), list[PodView]()
    for now in range(0, HOURS * 3600, STEP_SECONDS):
        if now % 60 == 0:
            attack(attacker, now // 60)
            views = [parse_node_pod(each, RESOURCE) for each in (victim, attacker)]
        update(meters, views, now)
        meters.add(own, StepMessage("run", now * 10, float(now)), now)
        found += [each for each in meters.samples if each.profile == "victim"]
        meters.samples.clear()
    return found


def update(meters: NodeMeters, views: list[PodView], now: int) -> None:
    pods = {each.key: each for each in views}
    users = {UUIDS[at]: GpuUser(each.key, "main", each.uid) for at, each in enumerate(views)}
    containers = measured_containers(users, pods, reads_logs=True)
    environments = {
        key: environment_of(each, users, pods, HARDWARE) for key, each in containers.items()
    }
    meters.update(containers, environments, now)


def nothing(attacker: Document, minute: int) -> None:
    """Change nothing."""


def profile(attacker: Document, minute: int) -> None:
    attacker["metadata"]["annotations"][PROFILE_ANNOTATION] = f"other-{minute}"


def no_profile(attacker: Document, minute: int) -> None:
    attacker["metadata"]["annotations"].pop(PROFILE_ANNOTATION, None)
    if minute % 2:
        profile(attacker, minute)


def other_annotations(attacker: Document, minute: int) -> None:
    """Make what the pod requests to measure valid and invalid by turns."""
    source = "SDK" if minute % 2 else "no such source"
    attacker["metadata"]["annotations"][STEPS_SOURCE_ANNOTATION] = source
    attacker["metadata"]["annotations"][PROFILING_ANNOTATION] = "CPUs" if minute % 2 else "x"


def labels(attacker: Document, minute: int) -> None:
    attacker["metadata"]["labels"] = {"minute": str(minute)}


def size_and_image(attacker: Document, minute: int) -> None:
    """Resize the pod, and change its image, which a user may do while it runs."""
    [status] = attacker["status"]["containerStatuses"]
    status["resources"] = {"limits": {"cpu": f"{1 + minute % 7}", "memory": "1Gi"}}
    status["imageID"] = f"sha256:{minute}"


@cache
def undisturbed() -> list[NodeSample]:
    return samples_beside(nothing)


@pytest.mark.parametrize(
    "attack",
    [profile, no_profile, other_annotations, labels, size_and_image],
    ids=lambda each: each.__name__,
)
def test_changes_of_another_pod_each_minute_stop_no_samples(attack: Attack) -> None:
    assert len(undisturbed()) == 26
    assert undisturbed()[0].node_neighbours == ["default/attacker"]
    assert samples_beside(attack) == undisturbed()


def test_each_change_is_one_that_the_agent_sees() -> None:
    attacks: list[Any] = [profile, no_profile, other_annotations, labels, size_and_image]
    for attack in attacks:
        attacker, seen = placed("attacker", 1), []
        for minute in range(4):
            attack(attacker, minute)
            seen.append(json.dumps(attacker))
        assert all(before != after for before, after in pairwise(seen)), attack.__name__

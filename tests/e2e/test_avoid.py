"""Pods with rules about pods to avoid stay apart on real nodes, by the GPUs that agents observe."""

import json
from collections.abc import Mapping, Sequence
from random import Random

import pytest

import workloads
from gputopo.api.names import AVOID_ANNOTATION
from sandbox import Sandbox
from showcase.kubectl import Object, wait_for
from support.property_settings import LONG

pytestmark = pytest.mark.e2e

PODS = 200 if LONG else 40
"""A normal run has fewer pods, because 200 pods take some minutes."""

AT_ONCE = 12
APPS = ("a", "b", "c")
WHERE = Mapping[str, tuple[str, int]]
"""Node and NUMA node of each GPU."""


def _random_pod(chance: Random, number: int, image: str) -> Object:
    rules = [
        {
            "matchLabels": {"app": chance.choice(APPS)},
            "level": chance.choice(("Socket", "Socket", "Socket", "Node")),
        }
        for _ in range(chance.choice((0, 0, 1)))
    ]
    pod = workloads.gpu_pod(
        f"pod-{number}",
        chance.choice((1, 1, 2, 3, 4)),
        image=image,
        annotations={AVOID_ANNOTATION: json.dumps(rules)} if rules else {},
    )
    pod["metadata"]["labels"] = {"app": chance.choice(APPS)}
    return pod


def _sockets(sandbox: Sandbox) -> WHERE:
    return {
        gpu["uuid"]: (topology["metadata"]["name"], gpu["numaNode"])
        for topology in sandbox.kubectl.list("gputopologies")
        for gpu in topology["spec"]["gpus"]
    }


def _observed(sandbox: Sandbox) -> dict[str, list[str]]:
    """Return the GPUs that the agents observe for each pod of the sandbox that is not deleted."""
    found: dict[str, list[str]] = {}
    for topology in sandbox.kubectl.list("gputopologies"):
        for gpu in topology["status"]["gpus"]:
            if gpu.get("namespace") == sandbox.namespace and not gpu.get("podDeleted"):
                found.setdefault(gpu["pod"], []).append(gpu["uuid"])
    return found


def _violations(
    manifests: Mapping[str, Object], gpus: Mapping[str, Sequence[str]], where: WHERE
) -> list[str]:
    found = []
    for one, own in gpus.items():
        text = manifests[one]["metadata"]["annotations"].get(AVOID_ANNOTATION, "[]")
        for rule in json.loads(text):
            size = 1 if rule["level"] == "Node" else 2
            near = {where[uuid][:size] for uuid in own}
            for other, theirs in gpus.items():
                labels = manifests[other]["metadata"]["labels"].items()
                beside = near & {where[uuid][:size] for uuid in theirs}
                if other != one and beside and rule["matchLabels"].items() <= labels:
                    found.append(f"{one} avoids {rule}, but runs beside {other} on {beside}")
    return found


def test_random_pods_never_run_beside_pods_that_they_avoid(sandbox: Sandbox) -> None:
    chance = Random(16)  # noqa: S311 - not a secret
    manifests = [_random_pod(chance, number, sandbox.image) for number in range(PODS)]
    by_name = {each["metadata"]["name"]: each for each in manifests}
    where, created, ran = _sockets(sandbox), 0, set[str]()
    present: set[str] = set()
    while created < PODS or present:
        new = manifests[created : created + AT_ONCE - len(present)]
        if new:
            sandbox.create(*new)
        created += len(new)
        present |= {each["metadata"]["name"] for each in new}
        # One pod runs at the latest when all others have ended: it fits on an idle cluster.
        running = wait_for("a pod runs", lambda: _running(sandbox), timeout_s=330)
        annotated = {each["metadata"]["name"]: workloads.uuids(each) for each in sandbox.pods()}
        placed = {name: uuids for name, uuids in annotated.items() if uuids}
        assert _violations(by_name, placed, where) == []
        assert _violations(by_name, _observed(sandbox), where) == []
        ran |= running
        ended = chance.sample(sorted(running), max(1, len(running) // 2))
        sandbox.delete_pods(ended)
        present -= {*ended}
    print(f"{len(ran)} of {PODS} pods ran, at most {AT_ONCE} at a time, with no rule broken")
    assert len(ran) == PODS


def _running(sandbox: Sandbox) -> set[str]:
    pods = sandbox.pods()
    return {each["metadata"]["name"] for each in pods if workloads.phase(each) == "Running"}

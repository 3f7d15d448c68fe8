"""The judgement of random pods that share GPUs."""

import json
import random
from collections import Counter
from typing import Any

import pytest

from gputopo.api.names import GPUS_ANNOTATION, RESOURCE, SHARING_MEMORY_ANNOTATION
from gputopo.api.shares import share_resource
from sharetest.judge import Findings, PodVerdict, judge_ended, judge_moment, table
from sharetest.pods import RandomPod, draw, manifest

GPU = "GPU-1"


def pod(name: str, device: str, *, memory: str = "1Gi", state: str = "running") -> dict[str, Any]:
    chosen = {"containers": {"main": [device]}}
    annotations = {GPUS_ANNOTATION: json.dumps(chosen), SHARING_MEMORY_ANNOTATION: memory}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "annotations": annotations},
        "status": {"phase": "Running", "containerStatuses": [{"state": {state: {}}}]},
    }


def topology(**observed: str) -> dict[str, Any]:
    shares = [
        {"id": share, "podUID": f"uid-{name}", "pod": name} for name, share in observed.items()
    ]
    return {
        "spec": {"gpus": [{"uuid": GPU, "memory": "4Gi"}]},
        "status": {"sharing": {"maxPodsPerGPU": 2}, "gpus": [{"uuid": GPU, "shares": shares}]},
    }


def judged(*pods: dict[str, Any], **observed: str) -> tuple[int, int, int, int]:
    found = Findings()
    judge_moment(pods, [topology(**observed)], found)
    return (
        len(found.whole_shared),
        len(found.beyond_limit),
        len(found.beyond_memory),
        len(found.differences),
    )


def test_two_shares_of_a_gpu_are_right() -> None:
    pods = pod("a", f"{GPU}::0"), pod("b", f"{GPU}::1")
    assert judged(*pods, a=f"{GPU}::0", b=f"{GPU}::1") == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("devices", "memory", "expected"),
    [
        ((GPU, f"{GPU}::0"), "1Gi", (1, 0, 0, 0)),
        ((GPU, GPU), "1Gi", (1, 0, 0, 0)),
        ((f"{GPU}::0", f"{GPU}::0"), "1Gi", (0, 1, 0, 0)),
        ((f"{GPU}::0", f"{GPU}::1", f"{GPU}::2"), "1Gi", (0, 1, 0, 0)),
        ((f"{GPU}::0", f"{GPU}::1"), "2Gi", (0, 0, 1, 0)),
    ],
)
def test_each_rule_is_judged(
    devices: tuple[str, ...], memory: str, expected: tuple[int, int, int, int]
) -> None:
    pods = [pod(f"p{n}", device, memory=memory) for n, device in enumerate(devices)]
    assert judged(*pods) == expected


def test_other_observed_share_is_a_difference() -> None:
    assert judged(pod("a", f"{GPU}::0"), a=f"{GPU}::1") == (0, 0, 0, 1)


def test_pods_that_do_not_run_do_not_count() -> None:
    waiting = pod("b", f"{GPU}::0", state="waiting")
    assert judged(pod("a", GPU), waiting) == (0, 0, 0, 0)


def test_ended_pods_are_judged_by_what_their_container_saw() -> None:
    one = RandomPod("a", 0, 0, 1.0)
    document = pod("a", f"{GPU}::1")
    document["status"] = {"phase": "Succeeded"}
    assert judge_ended(one, document, f"{GPU}\n0=1M\n").verdict is PodVerdict.RAN
    assert judge_ended(one, document, "GPU-2\n0=1M\n").verdict is PodVerdict.OTHER_DEVICE
    document["status"] = {"phase": "Failed", "reason": "UnexpectedAdmissionError"}
    assert judge_ended(one, document, "").verdict is PodVerdict.REJECTED
    document["status"] = {"phase": "Failed", "containerStatuses": [{"state": {}}]}
    found = judge_ended(one, document, f"{GPU}\n0=1M\nCUDA error 719\n719\n")
    assert (found.verdict, found.detail) == (PodVerdict.FAILED, "None: None CUDA error 719 719")


def test_random_pods_request_a_share_or_whole_gpus() -> None:
    def pods_of(seed: int) -> list[RandomPod]:
        rng = random.Random(seed)  # noqa: S311 - repeatable on purpose
        return [draw(number, rng, sharing=0.5) for number in range(50)]

    pods = pods_of(1)
    assert pods == pods_of(1) != pods_of(2)
    resources = Counter(
        name
        for each in pods
        for name in manifest(each, "image")["spec"]["containers"][0]["resources"]["limits"]
    )
    assert resources.keys() == {RESOURCE, share_resource(RESOURCE)}
    lines = table([], Findings(), Counter({"kubelet": 2}), 3.0)
    assert "kills: kubelet 2" in lines

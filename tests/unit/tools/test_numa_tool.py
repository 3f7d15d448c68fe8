"""The pods of `tools/numa`, and how it judges them."""

import json
import random
from typing import Any

import pytest

from gputopo.api.names import GPUS_ANNOTATION, RESOURCE
from numatest import judge
from numatest.judge import Judged, PodVerdict, PolicyTrial
from numatest.pods import POLICIES, RandomPod, draw, fits_ever, kubelet_changes, manifest

REASON = "0/1 nodes are available: 1 topologyManagerPolicy restricted: 8 GPUs and 1 exclusive CPU"


def made(gpus: int = 2, cpus: int = 0) -> RandomPod:
    return RandomPod("p1", gpus, cpus, 0.5)


def ended(phase: str = "Succeeded", **status: Any) -> dict[str, Any]:
    annotation = json.dumps({"containers": {"main": ["GPU-b", "GPU-a"]}})
    return {
        "metadata": {"annotations": {GPUS_ANNOTATION: annotation}},
        "status": {"phase": phase, **status},
    }


def output(gpus: str = "GPU-b,GPU-a", numa: str = "1", cpus: str = "1") -> str:
    return f"{gpus}\n{numa}\nCpus_allowed_list:\t{cpus}\n"


def verdict(log: str, pod: RandomPod, policy: str = "restricted") -> PodVerdict:
    return judge.judge_ended(pod, ended(), log, policy, 1.0).verdict


def test_a_pod_with_its_gpus_in_rank_order_and_near_cpus_ran() -> None:
    assert verdict(output(), made(cpus=1)) is PodVerdict.RAN
    assert verdict(output(cpus="0-1"), made()) is PodVerdict.RAN


def test_other_gpus_than_annotated_are_a_finding() -> None:
    assert verdict(output(gpus="GPU-a,GPU-b"), made()) is PodVerdict.OVERRULED


def test_far_cpus_are_a_finding_only_where_kubelet_must_align() -> None:
    assert verdict(output(numa="0"), made(cpus=1)) is PodVerdict.FAR_CPUS
    assert verdict(output(numa="0"), made(cpus=1), "best-effort") is PodVerdict.RAN


def test_a_failed_pod_was_rejected_by_kubelet() -> None:
    failed = ended("Failed", reason="TopologyAffinityError", message="no")
    found = judge.judge_ended(made(), failed, "", "restricted", 1.0)
    assert (found.verdict, found.detail) == (PodVerdict.REJECTED, "TopologyAffinityError: no")


def test_a_pending_pod_is_judged_only_if_it_never_fits_and_the_reason_says_so() -> None:
    never = judge.judge_pending(made(8, 1), REASON, "restricted")
    assert never is not None
    assert never.verdict is PodVerdict.NEVER_FITS
    assert judge.judge_pending(made(8, 1), "Insufficient cpu", "restricted") is None
    assert judge.judge_pending(made(2, 1), REASON, "restricted") is None
    assert judge.late(made(2, 1), "?").verdict is PodVerdict.FALSE_REASON


@pytest.mark.parametrize(
    ("policy", "fits"),
    [
        ("none", [True, True, True, True]),
        ("best-effort", [True, True, True, True]),
        ("restricted", [True, True, True, False]),
        ("single-numa-node", [True, True, False, False]),
    ],
)
def test_which_pods_an_idle_node_admits(policy: str, fits: list[bool]) -> None:
    pods = [made(4), made(4, 1), made(5), made(5, 1)]
    assert [fits_ever(policy, pod) for pod in pods] == fits


def test_random_pods_repeat_with_their_seed() -> None:
    first, again = (
        [draw(n, random.Random(3), with_cpus=0.5) for n in range(20)]  # noqa: S311
        for _ in range(2)
    )
    assert first == again
    drawn = [draw(n, random.Random(n), with_cpus=0.5) for n in range(300)]  # noqa: S311
    assert {pod.gpus for pod in drawn} == set(range(1, 9))
    assert {pod.cpus for pod in drawn} == {0, 1}


def test_only_pods_with_a_cpu_are_guaranteed_and_a_single_node_is_selected() -> None:
    limits = manifest(made(cpus=1), "image", None)["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {RESOURCE: 2, "cpu": 1, "memory": "16Mi"}
    plain = manifest(made(), "image", "n2")["spec"]
    assert plain["containers"][0]["resources"]["limits"] == {RESOURCE: 2}
    assert plain["nodeSelector"] == {"kubernetes.io/hostname": "n2"}


def test_each_policy_is_set_with_one_exclusive_cpu() -> None:
    changes = [kubelet_changes(policy, "pod") for policy in POLICIES]
    assert [each["topologyManagerPolicy"] for each in changes] == list(POLICIES)
    assert {each["cpuManagerPolicy"] for each in changes} == {"static"}


def test_the_table_counts_verdicts_and_the_document_names_findings() -> None:
    pods = [
        Judged(made(), PodVerdict.RAN, 1.0),
        Judged(made(cpus=1), PodVerdict.RAN, 3.0),
        Judged(made(8, 1), PodVerdict.NEVER_FITS, None, REASON),
        Judged(made(), PodVerdict.REJECTED, 2.0, "why"),
    ]
    trial = PolicyTrial("restricted", pods, 8.0)
    assert [each.detail for each in trial.findings] == ["why"]
    [_, row] = judge.table([trial])
    assert row == "| restricted | 4 | 2 | 2 | 1 | 0 | 1 | 0 | 0 | 2.0 s | 0.5 |"
    [document] = judge.document([trial])
    assert document["reasons"] == [(REASON, 1)]
    assert len(document["findings"]) == 1
    assert judge.table([PolicyTrial("none", [], 1.0)])[1].count("-") == 1

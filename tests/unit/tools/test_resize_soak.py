"""What the soak of ``tools/resize`` reports as an error, on values that it would read."""

import json
import random
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gputopo.api.profile import GPUProfileStatus
from gputopo.api.tuning import parse_tuned_record
from resizetest.soaking import changes, facts, kubelet, losses, plan, shares, sums
from resizetest.soaking.judge import Judge
from resizetest.soaking.kubelet import InEffect
from resizetest.soaking.model import Expected, Finding, PodSize, Size, pod_size

if TYPE_CHECKING:
    from soaktest.client import Object

UID = "11111111-2222-3333-4444-555555555555"
MEMORY = 64 * 2**20
JOB = Expected("job", "Proportional", 2, Size(50, 50, MEMORY, MEMORY), is_job=True)
FILLER = Expected("filler", "Fixed", 0, Size(300, 0))


def _record(target: int, last: int = 50, **more: Any) -> dict[str, Any]:
    return {
        "v": 1,
        "uid": UID,
        "floor": {"milliCPU": 50, "memory": MEMORY},
        "last": {"milliCPU": last, "memory": MEMORY},
        "target": {"milliCPU": target, "memory": MEMORY},
        "since": "2026-11-22T22:00:00Z",
        "reason": f"{target}m CPU: its share",
        "done": True,
    } | more


def _pod(milli_cpu: int = 50, **more: Any) -> PodSize:
    made = PodSize(
        uid=UID,
        namespace="soak",
        name="job-1",
        owner="job",
        node="n1",
        phase="Running",
        deleting=False,
        qos="Guaranteed",
        restarts=0,
        gpus=2,
        requests=milli_cpu,
        allocated=milli_cpu,
        size=Size(milli_cpu, milli_cpu, MEMORY, MEMORY),
        applied=milli_cpu,
        record=_record(milli_cpu) if milli_cpu != 50 else {},
    )
    return replace(made, **more)


def _judge(*expected: Expected, allocatable: int = 1000) -> Judge:
    judge = Judge("soak", {"n1": (allocatable, 8)})
    for each in expected:
        judge.created(0.0, "n1", each)
    return judge


def _random(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - repeatable on purpose


def _kinds(findings: Iterable[Finding]) -> list[str]:
    return [finding.kind for finding in findings]


def _after(pod: PodSize, *, at: float = 2.0) -> list[Finding]:
    """Return the findings of a pod that was seen as created before."""
    judge = _judge(JOB)
    assert [*judge.see(1.0, _pod())] == []
    return [*judge.see(at, pod)]


def test_pod_of_the_api_server_is_read_with_its_amounts_and_record() -> None:
    manifest: Object = {
        "metadata": {
            "uid": UID,
            "namespace": "soak",
            "name": "job-1",
            "labels": {"gputopo.io/job": "job"},
            "annotations": {"gputopo.io/resources": json.dumps(_record(200))},
        },
        "spec": {
            "nodeName": "n1",
            "containers": [
                {
                    "name": "main",
                    "resources": {
                        "requests": {"cpu": "200m", "memory": "64Mi"},
                        "limits": {"cpu": "0.2", "memory": "67108864", "gputopo.io/gpu": "2"},
                    },
                }
            ],
        },
        "status": {
            "phase": "Running",
            "startTime": "2026-01-01T00:00:00Z",
            "qosClass": "Guaranteed",
            "containerStatuses": [
                {
                    "name": "main",
                    "restartCount": 0,
                    "allocatedResources": {"cpu": "50m"},
                    "resources": {"limits": {"cpu": "50m"}},
                }
            ],
        },
    }
    assert parse_tuned_record(manifest["metadata"]["annotations"], UID) is not None
    assert pod_size(manifest) == _pod(200, allocated=50, applied=50)


def test_pod_that_is_not_bound_has_no_amounts_in_effect() -> None:
    found = pod_size(
        {
            "metadata": {"uid": UID, "namespace": "soak", "name": "a"},
            "spec": {"containers": [{"name": "a"}]},
        }
    )
    assert (found.owner, found.node, found.applied, found.size) == ("a", "", None, Size(0, 0))


def test_sidecars_count_and_other_init_containers_do_not() -> None:
    half = {"resources": {"requests": {"cpu": "100m"}}}
    spec = {
        "containers": [{"name": "main"} | half],
        "initContainers": [
            {"name": "sidecar", "restartPolicy": "Always"} | half,
            {"name": "first"} | half,
        ],
    }
    restarted = {
        "startTime": "2026-01-01T00:00:00Z",
        "initContainerStatuses": [{"name": "sidecar", "restartCount": 2}],
    }
    metadata = {"uid": UID, "namespace": "soak", "name": "a"}
    found = pod_size({"metadata": metadata, "spec": spec, "status": restarted})
    assert (found.requests, found.allocated, found.restarts) == (200, 200, 2)


def test_resize_with_a_record_is_no_error() -> None:
    judge = _judge(JOB)
    raised = _pod(200, allocated=50, applied=50, record=_record(200, done=False))
    for number, pod in enumerate((_pod(phase="Pending", node=""), _pod(), raised, _pod(200))):
        assert [*judge.see(float(number), pod)] == []
    assert (judge.changes.resizes, judge.changes.applied) == (1, 1)


def test_record_may_be_ahead_of_the_spec_in_a_list() -> None:
    judge = _judge(JOB)
    ahead = _pod(200, record=_record(300, last=200, done=False))
    assert [*judge.replace(1.0, [ahead])] == []


@pytest.mark.parametrize(
    ("pod", "text"),
    [
        (_pod(200, record={}), "no record"),
        (_pod(200, record=_record(200, uid="other")), "no record"),
        (_pod(200, record=_record(200, reason="")), "no reason"),
        (_pod(200, record=_record(250)), "its record has 250m"),
        (_pod(200, size=Size(199, 200, MEMORY, MEMORY), requests=199, allocated=199), "200m"),
        (_pod(200, size=Size(200, 200, MEMORY, 2 * MEMORY)), "memory has changed"),
    ],
)
def test_resize_that_the_record_does_not_explain_is_found(pod: PodSize, text: str) -> None:
    (finding,) = _after(pod)
    assert finding.kind == changes.UNEXPLAINED
    assert text in finding.text


def test_resize_of_a_fixed_pod_is_found() -> None:
    judge = _judge(replace(JOB, mode="Fixed"))
    (finding,) = judge.see(1.0, _pod(200))
    assert finding.text.endswith("its mode is Fixed")


def test_resize_without_a_change_of_the_node_is_found() -> None:
    (finding,) = _after(_pod(200), at=200.0)
    assert finding.kind == changes.UNEXPLAINED
    assert finding.text.endswith("199 s after the last cause, job-1 became Running")
    assert _after(_pod(200, record=_record(200, deferrals=1)), at=200.0) == []


def test_resize_after_a_pod_has_left_is_no_error() -> None:
    judge = _judge(JOB)
    assert [*judge.see(1.0, _pod())] == []
    other = _pod(owner="other", name="other", uid="other")
    assert [*judge.see(1.0, other)] == []
    assert [*judge.replace(100.0, [_pod()])] == []
    assert [*judge.see(200.0, _pod(200))] == []


def test_resize_by_another_client_is_no_error_but_a_later_one_of_gputopo_is() -> None:
    judge = _judge(JOB)
    assert [*judge.see(1.0, _pod())] == []
    judge.changes.resized_by_soak(UID, Size(77, 77, MEMORY, MEMORY))
    assert [*judge.see(2.0, _pod(77, record={}))] == []
    (finding,) = judge.see(3.0, _pod(200))
    assert "must be left alone" in finding.text


def test_amounts_that_no_spec_had_are_found() -> None:
    in_effect, allocated = _after(_pod(200, applied=300, allocated=400))
    assert "300m are in effect" in in_effect.text
    assert "400m are allocated" in allocated.text


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"restarts": 1}, changes.RESTARTS),
        ({"qos": "Burstable"}, changes.QOS),
        ({"phase": "Failed", "why": "OutOfcpu"}, changes.REJECTED),
        ({"allocated": 40}, changes.FLOOR),
        ({"applied": 40}, changes.FLOOR),
    ],
)
def test_change_of_a_running_pod_is_found(change: dict[str, Any], kind: str) -> None:
    assert kind in _kinds(_after(_pod(**change)))


def test_pod_that_fails_because_it_is_deleted_is_no_error() -> None:
    assert _after(_pod(phase="Failed", deleting=True, why="Error")) == []


def test_pod_that_kubelet_rejects_for_another_reason_is_no_error() -> None:
    assert _after(_pod(phase="Failed", why="UnexpectedAdmissionError: agent")) == []


def test_spec_below_the_floor_is_found() -> None:
    found = _kinds(_after(_pod(40, allocated=50, applied=50)))
    assert found == [changes.FLOOR, changes.FLOOR]


def test_burstable_pod_may_have_a_request_one_below_its_limit() -> None:
    burstable = replace(JOB, created=Size(50, 100, MEMORY, MEMORY))
    judge = _judge(burstable)
    size = Size(49, 50, MEMORY, MEMORY)
    pod = _pod(49, size=size, applied=50, record=_record(50, last=100), qos="Burstable")
    assert [*judge.see(1.0, pod)] == []


def test_resize_that_does_not_end_is_found_once_its_time_is_over() -> None:
    judge = _judge(JOB)
    pod = _pod(200, record=_record(200, done=False))
    assert [*judge.see(1.0, pod)] == []
    assert [*judge.see(100.0, pod)] == []
    assert _kinds(judge.see(182.0, pod)) == [changes.ENDLESS]
    newer = replace(pod, record=_record(200, done=False, since="2026-11-22T22:05:00Z"))
    assert [*judge.see(183.0, newer)] == []
    assert [*judge.see(400.0, _pod(200))] == []


def test_sum_above_allocatable_is_found_once_it_lasts() -> None:
    found = sums.Sums()
    limit = sums.LIMITS[sums.ALLOCATED]
    assert [*found.see(0.0, sums.ALLOCATED, "n1", 1001, 1000)] == []
    (finding,) = found.see(limit + 0.5, sums.ALLOCATED, "n1", 1001, 1000)
    assert finding == (sums.ABOVE, f"n1, {sums.ALLOCATED}: 1001m of 1000m for 1.5 s")
    assert [*found.see(limit + 1, sums.ALLOCATED, "n1", 1001, 1000)] == []
    assert [*found.see(9.0, sums.ALLOCATED, "n1", 1000, 1000)] == []
    assert [*found.see(10.0, sums.ALLOCATED, "n1", 1001, 1000)] == []
    assert found.longest == {sums.ALLOCATED: limit + 1}


def test_judge_adds_what_the_api_server_reports_of_all_pods_of_a_node() -> None:
    judge = _judge(JOB)
    other = _pod(owner="other", uid="other", requests=900, allocated=100)
    ended = _pod(owner="ended", uid="ended", allocated=900, phase="Succeeded")
    for pod in (_pod(200), other, ended):
        assert [*judge.see(1.0, pod)] == []
    assert judge.sums.highest == {sums.COUNTED: 1.1, sums.REPORTED: 0.3}
    assert _kinds(judge.look(100.0, {})) == [sums.ABOVE]


def test_judge_adds_what_kubelet_and_the_cgroups_have() -> None:
    judge = _judge(JOB)
    assert [*judge.see(1.0, _pod(200))] == []
    recorded = {UID: 1100, "ended": 500}
    groups = [InEffect(UID, 200, 200), InEffect("ended", 900, None)]
    assert [*judge.of_node(2.0, "n1", recorded, groups)] == []
    found = [*judge.of_node(60.0, "n1", recorded, [*groups, InEffect(UID, 0, 40)])]
    assert _kinds(found) == [sums.ABOVE, sums.ABOVE, changes.FLOOR]
    assert found[1].text.endswith("for 58.0 s; ended has 900m, allocated 500m")


def test_shares_follow_the_gpus_and_leave_out_what_others_hold() -> None:
    other = _pod(owner="other", uid="other", gpus=2, requests=400, allocated=400)
    pods = [_pod(), replace(_pod(), uid="pending", phase="Pending", gpus=0), other]
    least = shares.guaranteed(1250, 8, pods, {"job": JOB})
    assert least == {UID: pytest.approx((1250 - 450) / 6 * 2)}


def test_high_floor_of_one_pod_leaves_less_for_the_others() -> None:
    large = replace(JOB, name="large", created=Size(800, 800))
    pods = [_pod(gpus=4), _pod(owner="large", uid="large", gpus=4)]
    least = shares.guaranteed(1000, 8, pods, {"job": JOB, "large": large})
    assert least == {UID: pytest.approx(200), "large": pytest.approx(800)}


@pytest.mark.parametrize(
    ("expected", "cpus"),
    [
        (JOB, 250),
        (replace(JOB, most=120), 120),
        (replace(JOB, mode="Auto"), 250),
        (replace(JOB, mode="Auto", enough=100), 100),
        (replace(JOB, mode="Auto", enough=20), 50),
        (replace(JOB, mode="Auto", learns=True), 50),
    ],
)
def test_guarantee_is_the_share_or_what_is_as_fast(expected: Expected, cpus: float) -> None:
    least = shares.guaranteed(1000, 8, [_pod()], {"job": expected})
    assert least == {UID: pytest.approx(cpus)}


@pytest.mark.parametrize(
    "pod", [_pod(deleting=True), _pod(phase="Pending"), _pod(record=_record(50, pinned=True))]
)
def test_pod_that_cannot_be_sized_now_is_guaranteed_nothing(pod: PodSize) -> None:
    assert shares.guaranteed(1000, 8, [pod], {"job": JOB}) == {}


def test_lack_of_the_share_is_found_once_it_lasts() -> None:
    judge = _judge(JOB)
    assert [*judge.see(1.0, _pod(200))] == []
    assert [*judge.look(1.0, {})] == []
    assert _kinds(judge.look(152.0, {})) == [shares.SHARE]
    assert [*judge.look(153.0, {})] == []
    judge.changes.cause(153.0, "n1", "another pod has left")
    assert [*judge.see(154.0, _pod(245))] == []
    assert [*judge.look(154.0, {})] == []
    assert judge.shortages.longest == 152.0


def test_lack_after_a_raise_that_failed_is_only_counted() -> None:
    judge = _judge(JOB)
    for at in (1.0, 152.0):
        assert [*judge.see(at, _pod(200, record=_record(200, deferrals=1)))] == []
        assert [*judge.look(at, {})] == []
    assert judge.shortages.excused == {UID}


def test_job_that_never_runs_is_lost() -> None:
    judge = _judge(FILLER)
    assert [*judge.look(149.0, {})] == []
    assert _kinds(judge.look(151.0, {})) == [losses.LOST]


def test_job_whose_pod_is_gone_is_lost() -> None:
    judge = _judge(JOB)
    assert [*judge.see(1.0, _pod())] == []
    assert [*judge.look(1.0, {})] == []
    assert [*judge.see(2.0, _pod(), deleted=True)] == []
    assert [*judge.look(3.0, {})] == []
    assert _kinds(judge.look(14.0, {})) == [losses.LOST]
    judge.losses.deleted("job")
    assert [*judge.look(15.0, {})] == []
    assert judge.losses.waits == {"job": 1.0}


def test_failed_gpujob_is_lost() -> None:
    assert _kinds(_judge(JOB).look(1.0, {"job": "Failed"})) == [losses.LOST]


def test_weight_and_quota_of_a_cgroup_are_those_of_its_request() -> None:
    for milli_cpu in range(10, 2000, 7):
        found = kubelet.parse_group("a", milli_cpu * 1024 // 1000, milli_cpu * 100, 100_000)
        assert found == InEffect("a", milli_cpu, milli_cpu)


def test_checkpoint_of_kubelet_without_pods_is_empty() -> None:
    assert kubelet.parse_checkpoint(json.dumps({"data": "{}", "checksum": 1})) == {}


def test_seed_determines_all_jobs_and_every_kind_occurs() -> None:
    def first(seed: int) -> list[plan.Offer]:
        return [*islice(plan.offers(_random(seed), "n1", 1500, 8, 0), 300)]

    assert first(1) == first(1) != first(2)
    assert {offer.item.kind for offer in first(1)} == {*plan.KINDS}
    assert any(offer.item.resized_after for offer in first(1))


def test_all_jobs_of_the_soak_fit_with_their_shares() -> None:
    present: list[plan.Item] = []
    for offer in islice(plan.offers(_random(1), "n1", 1500, 8, 0), 300):
        if offer.fits(present):
            present.append(offer.item)
    assert sum(item.expected.gpus for item in present) == 6
    assert sum(item.expected.created.request for item in present) < 1500


def test_facts_of_the_soak_have_the_speed_of_their_law() -> None:
    status = GPUProfileStatus.model_validate(facts.status("hungry", 400, 1))
    assert status.facts is not None
    for fact in status.facts.cpus:
        rates = {point.milli_cpu: point.micro_steps_per_second for point in fact.points}
        assert rates[100] == pytest.approx(2.5e6, rel=0.01)
        assert rates[800] == pytest.approx(1e7, rel=0.01)
    assert [fact.gpus for fact in status.facts.cpus] == [1, 2]


def test_cgroup_of_a_failed_creation_is_not_in_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubelet, "_CGROUPS", tmp_path)
    pods = tmp_path / "gputopo-n1" / "kubepods" / "burstable"
    for container, processes, weight in (("a" * 64, "12\n", "102"), ("b" * 64, "", "1024")):
        folder = pods / f"pod{UID}" / container
        folder.mkdir(parents=True)
        files = {"cpu.shares": weight, "cpu.cfs_quota_us": "10000", "cpu.cfs_period_us": "100000"}
        for name, value in (files | {"cgroup.procs": processes}).items():
            (folder / name).write_text(value)
    assert [(each.request, each.limit) for each in kubelet.in_effect("gputopo-n1")] == [(100, 100)]

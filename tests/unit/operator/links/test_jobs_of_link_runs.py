"""The Jobs of the runs that measure links differ from the child Job only in what they measure."""

import re
from dataclasses import replace

import pytest

from gputopo.api.link_runs import LinkRunResult
from gputopo.api.names import (
    JOB_LABEL,
    LINK_RESULT_ANNOTATION,
    LINK_RUN_LABEL,
    PATTERN_ANNOTATION,
    POLICY_ANNOTATION,
    PROFILE_ANNOTATION,
    PROFILING_ANNOTATION,
    RESOURCES_MAX_ANNOTATION,
    RESOURCES_MODE_ANNOTATION,
    SENSITIVITY_ANNOTATION,
)
from gputopo_operator.decision.link_run_job import RUN_VARIABLE, link_run_name
from gputopo_operator.model.jobs import LinkSet
from support.builders.gpujobs import container, template
from support.operator.cluster_states import START
from support.operator.link_situation import BEST, WORST, LinkSituation
from support.profiling.pods import sample

SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"


def test_runs_differ_from_the_job_only_in_what_they_measure(job: LinkSituation) -> None:
    job.place(BEST).measure(BEST, 12.0)
    best, worst = job.runs[BEST], job.runs[WORST]
    for run, kind, policy in ((best, "Best", "Preserve"), (worst, "Worst", "Weakest")):
        [owner] = run["metadata"]["ownerReferences"]
        assert owner["uid"] == "uid-train"
        assert run["metadata"]["labels"] == {JOB_LABEL: "train", LINK_RUN_LABEL: kind}
        assert run["spec"]["backoffLimit"] == 0
        assert run["spec"]["activeDeadlineSeconds"] == (1 if run is best else 600)
        pod = run["spec"]["template"]
        assert pod["metadata"]["labels"][LINK_RUN_LABEL] == kind
        annotations = pod["metadata"]["annotations"]
        assert annotations[POLICY_ANNOTATION] == policy
        assert annotations[SENSITIVITY_ANNOTATION] == "Sensitive"
        assert annotations[PROFILE_ANNOTATION] == "resnet50"
        assert PROFILING_ANNOTATION not in annotations
        assert {"name": RUN_VARIABLE, "value": kind} in pod["spec"]["containers"][0]["env"]
    assert "nodeSelector" not in best["spec"]["template"]["spec"]
    assert worst["spec"]["template"]["spec"]["nodeSelector"] == {"kubernetes.io/hostname": "n1"}
    assert best["spec"]["suspend"] is True
    assert worst["spec"]["suspend"] is False


def test_runs_have_the_cpus_of_the_template_until_they_end() -> None:
    own = template(container("main", resources={"limits": {"cpu": "8"}}))
    resources = {"mode": "Auto", "min": {"cpu": "500m"}, "max": {"cpu": 16}}
    job = LinkSituation(template=own, resources=resources)
    job.reconcile()
    pod = job.runs[BEST]["spec"]["template"]
    assert pod["spec"]["containers"][0]["resources"]["limits"]["cpu"] == "8"
    assert not {RESOURCES_MODE_ANNOTATION, RESOURCES_MAX_ANNOTATION} & set(
        pod["metadata"]["annotations"]
    )


def test_ended_run_that_a_queue_resumes_ends_after_a_second(job: LinkSituation) -> None:
    job.place(BEST).measure(BEST, 12.0)
    assert job.runs[BEST]["spec"]["suspend"] is True
    assert job.runs[BEST]["spec"]["activeDeadlineSeconds"] == 1


def test_runs_have_no_priority_and_keep_selector_and_variables_of_the_template() -> None:
    own = template(container("main", env=[{"name": "A", "value": "b"}]), nodeSelector={"pool": "x"})
    own["spec"]["priorityClassName"] = "high"
    job = LinkSituation(template=own, priorityClassName="high")
    job.reconcile()
    job.place(BEST).measure(BEST, 12.0)
    pod = job.runs[WORST]["spec"]["template"]["spec"]
    assert "priorityClassName" not in pod
    assert pod["nodeSelector"] == {"pool": "x", "kubernetes.io/hostname": "n1"}
    assert pod["containers"][0]["env"][0] == {"name": "A", "value": "b"}


@pytest.mark.parametrize(
    ("communication", "placed", "expected"),
    [
        ({}, "Star", "Star"),
        ({"pattern": "Auto"}, "Star", "Star"),
        ({}, "Torus", None),
        ({"pattern": "Chain"}, "Chain", "Chain"),
    ],
)
def test_second_run_has_the_pattern_for_which_the_first_was_placed(
    communication: dict[str, str], placed: str, expected: str | None
) -> None:
    job = LinkSituation(communication=communication)
    job.reconcile()
    job.place(BEST, pattern=placed).measure(BEST, 12.0)
    annotations = job.runs[WORST]["spec"]["template"]["metadata"]["annotations"]
    assert annotations.get(PATTERN_ANNOTATION) == expected


def test_long_name_of_a_job_is_shortened() -> None:
    names = {link_run_name("a" * 60 + suffix, kind) for suffix in "bc" for kind in LinkSet}
    assert len(names) == 4
    assert {len(name) for name in names} == {63}


@pytest.mark.parametrize("kind", list(LinkSet))
def test_shortened_name_of_a_run_is_valid(kind: LinkSet) -> None:
    for length in range(1, 60):
        for sign in ".-":
            found = link_run_name(f"{'a' * length}{sign}".ljust(63, "b"), kind)
            assert len(found) <= 63
            assert re.fullmatch(SUBDOMAIN, found), found


def test_rejected_run_lets_the_job_start() -> None:
    job = LinkSituation()
    job.errors = replace(job.errors, link_run="exceeded quota: jobs")
    job.reconcile()
    assert job.is_started()
    assert "rejected: exceeded quota: jobs" in job.message()


def test_rejected_second_run_lets_the_job_start(job: LinkSituation) -> None:
    job.place(BEST)
    job.errors = replace(job.errors, link_run="exceeded quota: jobs")
    job.samples["uid-train-links-best-1"] = [sample(8000, 12.0)]
    job.runs[BEST]["metadata"]["annotations"] = {
        LINK_RESULT_ANNOTATION: LinkRunResult(result="Measured", time=START, node="n1").dump()
    }
    job.reconcile()
    assert job.condition("Profiled") == ("False", "NotPossible")


def test_job_of_another_owner_is_not_changed(job: LinkSituation) -> None:
    job.runs[BEST]["metadata"]["ownerReferences"] = []
    before = dict(job.runs[BEST]["spec"])
    job.reconcile()
    assert job.runs[BEST]["spec"] == before
    assert f"Job {BEST} exists, but this GPUJob does not own it" in job.message()


def test_deleted_job_of_the_first_run_is_created_again(job: LinkSituation) -> None:
    job.place(BEST).measure(BEST, 12.0)
    job.place(WORST, chosen=12_000).measure(WORST, 8.0)
    del job.runs[BEST]
    assert job.plan().create_link_run is not None


def test_deleted_gpujob_is_left_to_garbage_collection(job: LinkSituation) -> None:
    job.job["metadata"]["deletionTimestamp"] = START
    plan = job.plan()
    assert plan.create_link_run is None
    assert plan.create_job is None


def test_invalid_template_is_rejected_before_a_run() -> None:
    job = LinkSituation(template=template(nodeName="n1"))
    job.reconcile()
    assert job.condition("Accepted") == ("False", "SpecRefused")
    assert job.runs == {}

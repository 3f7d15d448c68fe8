"""Before a job starts, two short runs measure the best and the worst links of one node."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from gputopo.api.annotations import PlacementAnnotation, parse_facts
from gputopo.api.link_runs import LinkRunResult, LinksResult
from gputopo.api.names import (
    JOB_LABEL,
    LINK_RESULT_ANNOTATION,
    LINK_RUN_LABEL,
    PLACEMENT_ANNOTATION,
    POLICY_ANNOTATION,
    PROFILE_ANNOTATION,
    PROFILING_ANNOTATION,
    RESOURCES_MAX_ANNOTATION,
    RESOURCES_MODE_ANNOTATION,
    SENSITIVITY_ANNOTATION,
)
from gputopo.api.profile import GPUProfile, GPUProfileSpec, GPUProfileStatus, Sample
from gputopo.profiles.comparable import MIN_SAMPLES
from gputopo.profiles.update import updated_status
from gputopo.runtime.times import timestamp
from gputopo.sensitivity.resolve import SENSITIVE_FROM_PERCENT
from gputopo_operator.decision.link_run_job import RUN_VARIABLE, link_run_name
from gputopo_operator.decision.link_runs import PLACE_SECONDS, POLL_SECONDS, STORE_SECONDS
from gputopo_operator.model import LinkSet
from gputopo_operator.parse import QUEUE_LABEL, parse_pod_samples
from support.builders.gpujobs import GPUS, container, exited, job_pod, template
from support.operator.cluster_states import START, Situation
from support.profiling.pods import sample

BEST, WORST = "train-links-best", "train-links-worst"
LINKS = {"measure": ["Links"], "maxSeconds": 600}


class LinkSituation(Situation):
    """A GPUJob that measures links."""

    def __init__(self, **spec: Any) -> None:
        fields = {"workload": {"profile": "resnet50"}, "profiling": LINKS, **spec}
        super().__init__(**{name: value for name, value in fields.items() if value is not None})
        self.profile = GPUProfile()

    def after(self, seconds: int) -> "LinkSituation":
        """Let time pass."""
        now = datetime.fromisoformat(self.now) + timedelta(seconds=seconds)
        self.now = timestamp(now)
        return self

    def place(self, name: str, *, chosen: int = 48_000, worst: int = 12_000) -> "LinkSituation":
        """Start the pod of a run on GPUs with these physical bandwidths."""
        pod = job_pod(self.runs[name], f"{name}-1", node="n1", gpus=GPUS, phase="Running")
        figures = PlacementAnnotation(
            policy="Preserve",
            pattern="Ring",
            sensitive=True,
            reason="Declared",
            physical_mb_per_s=chosen,
            physical_worst_mb_per_s=worst,
            physical_best_mb_per_s=48_000,
            aggregate_mb_per_s=100_000,
            preserved_mb_per_s=0,
        )
        pod["metadata"]["annotations"][PLACEMENT_ANNOTATION] = figures.dump()
        self.pods.append(pod)
        self.reconcile()
        return self

    def measure(self, name: str, rate: float, *, samples: int = MIN_SAMPLES) -> "LinkSituation":
        """Let the agent take samples of a run."""
        self.samples[f"uid-{name}-1"] = self.taken(name, rate, samples)
        self.reconcile()
        return self

    def taken(self, name: str, rate: float, samples: int = MIN_SAMPLES) -> list[Sample]:
        """Return samples of a run."""
        return [
            sample(
                8000,
                rate,
                pod_uid=f"uid-{name}-1",
                at=minute,
                gpus=3,
                effective_mb_per_s=48_000 if name == BEST else 12_000,
            )
            for minute in range(samples)
        ]

    def learn(self) -> "LinkSituation":
        """Let the operator compute the status of the GPUProfile from all samples."""
        assert self.profile is not None
        status = updated_status(
            self.profile.status,
            self.profile.spec,
            [each for found in self.samples.values() for each in found],
            name="resnet50",
            generation=1,
            now=self.now,
        )
        self.profile = self.profile.model_copy(update={"status": status})
        self.reconcile()
        return self

    def store(self) -> "LinkSituation":
        """Let the operator store all samples in the GPUProfile."""
        assert self.profile is not None
        status = GPUProfileStatus(
            samples=[each for found in self.samples.values() for each in found]
        )
        self.profile = self.profile.model_copy(update={"status": status})
        self.reconcile()
        return self

    def result(self, name: str) -> str:
        """Return the recorded result of a run."""
        text = self.runs[name]["metadata"]["annotations"][LINK_RESULT_ANNOTATION]
        parsed = LinkRunResult.parse(text)
        assert parsed is not None
        return parsed.result

    def links(self) -> LinksResult:
        """Return the result that the child Job has."""
        assert self.child is not None
        found = LinksResult.parse(self.child["metadata"]["annotations"][LINK_RESULT_ANNOTATION])
        assert found is not None
        return found

    def is_started(self) -> bool:
        return self.child is not None

    def message(self, type_: str = "Profiled") -> str:
        [found] = [each for each in self.status.conditions if each.type == type_]
        return found.message


@pytest.fixture
def job() -> LinkSituation:
    situation = LinkSituation()
    situation.reconcile()
    return situation


def test_job_starts_after_two_measured_runs(job: LinkSituation) -> None:
    assert list(job.runs) == [BEST]
    assert not job.is_started()
    job.after(10).place(BEST)
    job.after(100).measure(BEST, 12.0)
    assert job.result(BEST) == "Measured"
    assert list(job.runs) == [BEST, WORST]
    assert not job.is_started()
    job.after(10).place(WORST, chosen=12_000)
    job.after(100).measure(WORST, 8.0)
    assert not job.is_started()
    job.store()
    assert job.is_started()
    assert job.links() == LinksResult(
        result="Done",
        message="12 steps/s with 48 GB/s, 8 steps/s with 12 GB/s: the worst links make the job "
        "50 % slower; it waited 220 s for both runs on node n1",
    )
    assert job.condition("Profiled") == ("True", "Done")
    assert job.message().startswith("Links: 12 steps/s with 48 GB/s")
    assert job.condition("Accepted") == ("True", "JobCreated")


def test_conditions_show_the_measurement(job: LinkSituation) -> None:
    assert job.condition("Profiled") == ("False", "MeasuringLinks")
    assert job.message() == f"Links: Job {BEST} waits for idle GPUs"
    assert job.condition("Accepted") == ("True", "MeasuringLinks")
    assert job.condition("Placed") == ("False", "MeasuringLinks")
    assert job.status.phase == "Pending"
    job.place(BEST)
    assert job.message() == f"Links: Job {BEST} waits for samples"
    assert job.status.placements == []


def test_events_name_the_runs_and_their_results() -> None:
    job = LinkSituation()
    created = job.plan()
    assert [event.reason for event in created.events] == ["Accepted", "LinkRunCreated"]
    job.reconcile()
    job.place(BEST)
    job.samples["uid-train-links-best-1"] = [sample(8000, 1.0)] * MIN_SAMPLES
    [event] = job.plan().events
    assert (event.reason, event.note) == ("LinkRunEnded", f"ended Job {BEST}: Measured")


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


def test_long_name_of_a_job_is_shortened() -> None:
    names = {link_run_name("a" * 60 + suffix, kind) for suffix in "bc" for kind in LinkSet}
    assert len(names) == 4
    assert {len(name) for name in names} == {63}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"gpusPerReplica": 1}, "spec.gpusPerReplica: 1 GPU uses no links"),
        ({"workload": None}, "spec.workload.profile: missing"),
        ({"labels": {QUEUE_LABEL: "research"}}, f"metadata.labels[{QUEUE_LABEL}]: a queue"),
    ],
)
def test_job_that_cannot_measure_links_starts_at_once(spec: dict[str, Any], expected: str) -> None:
    job = LinkSituation(**spec)
    job.reconcile()
    assert job.runs == {}
    assert job.condition("Profiled") == ("False", "NotPossible")
    assert expected in job.message()


def test_known_links_are_not_measured() -> None:
    job = LinkSituation()
    job.profile = GPUProfile(spec=GPUProfileSpec(bandwidth_sensitivity_percent=20))
    job.reconcile()
    assert job.condition("Profiled") == ("True", "Known")
    assert job.message() == "Links: the GPUProfile declares 20 %"
    assert job.runs == {}


@pytest.mark.parametrize(
    ("gpus", "sensitivity", "runs"), [(3, "Sensitive", 0), (3, "Unknown", 1), (2, "Sensitive", 1)]
)
def test_measured_fact_for_the_same_number_of_gpus_is_enough(
    gpus: int, sensitivity: str, runs: int
) -> None:
    fact = {"gpus": gpus, "percent": 40, "lowPercent": 30, "highPercent": 50, "samples": 8}
    facts = {"gpuModel": "V100", "links": [{**fact, "sensitivity": sensitivity}]}
    job = LinkSituation()
    job.profile = GPUProfile.model_validate({"status": {"facts": facts}})
    job.reconcile()
    assert len(job.runs) == runs
    if not runs:
        assert job.message() == "Links: the GPUProfile knows 40 % (30..50)"


def test_missing_profile_is_created_before_the_runs() -> None:
    job = LinkSituation()
    job.profile = None
    plan = job.plan()
    assert plan.create_profile == "resnet50"
    assert plan.create_link_run is not None


def test_run_without_idle_gpus_is_given_up(job: LinkSituation) -> None:
    job.after(PLACE_SECONDS - 1).reconcile()
    assert job.plan().recheck_after_seconds == 1
    assert not job.is_started()
    job.after(1).reconcile()
    assert job.result(BEST) == "NotPlaced"
    assert job.condition("Profiled") == ("False", "NotPlaced")
    assert job.is_started()


def test_second_run_without_idle_gpus_is_given_up(job: LinkSituation) -> None:
    job.place(BEST).measure(BEST, 12.0)
    job.after(PLACE_SECONDS).reconcile()
    assert job.result(WORST) == "NotPlaced"
    assert job.condition("Profiled") == ("False", "NotPlaced")


@pytest.mark.parametrize(("chosen", "worst"), [(48_000, 40_000), (12_000, 12_000)])
def test_node_with_equal_links_is_not_measured(job: LinkSituation, chosen: int, worst: int) -> None:
    job.place(BEST, chosen=chosen, worst=worst)
    assert job.result(BEST) == "NoContrast"
    assert job.condition("Profiled") == ("False", "NoContrast")


def test_second_run_on_good_links_is_not_measured(job: LinkSituation) -> None:
    job.place(BEST).measure(BEST, 12.0)
    job.place(WORST, chosen=44_000)
    assert job.result(WORST) == "NoContrast"


def test_placement_without_bandwidths_is_not_measured(job: LinkSituation) -> None:
    job.pods.append(job_pod(job.runs[BEST], "train-links-best-1", node="n1", gpus=GPUS))
    job.reconcile()
    assert job.result(BEST) == "NoContrast"


def test_time_limit_of_both_runs_ends_the_measurement(job: LinkSituation) -> None:
    job.place(BEST)
    job.after(599).reconcile()
    assert not job.is_started()
    job.after(1).reconcile()
    assert job.result(BEST) == "TimeLimit"
    assert "maxSeconds" in job.message()


def test_second_run_is_not_begun_after_the_time_limit(job: LinkSituation) -> None:
    job.place(BEST)
    best_pod = job.pods[-1]
    job.samples["uid-train-links-best-1"] = [sample(8000, 12.0)] * MIN_SAMPLES
    job.write(job.plan())
    job.pods.append(best_pod)  # the pod ends slowly
    job.reconcile()
    assert job.message() == f"Links: waiting until the pod of Job {BEST} has ended"
    assert job.plan().recheck_after_seconds == 600
    job.after(600).reconcile()
    assert WORST not in job.runs
    assert job.condition("Profiled") == ("False", "TimeLimit")


def test_program_that_ends_before_a_sample_is_reported(job: LinkSituation) -> None:
    job.place(BEST)
    job.pods[-1]["status"] = exited(1)
    job.reconcile()
    assert job.result(BEST) == "Ended"
    assert "see the logs of the run" in job.message()


@pytest.mark.parametrize("name", [BEST, WORST])
def test_run_that_ended_while_no_operator_ran_is_over(job: LinkSituation, name: str) -> None:
    job.place(BEST)
    if name == WORST:
        job.measure(BEST, 12.0)
    failed = {"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": ""}
    job.runs[name]["status"] = {"conditions": [failed]}
    job.reconcile()
    assert job.condition("Profiled") == ("False", "Ended")


def test_job_waits_for_its_profile_a_short_time_only(job: LinkSituation) -> None:
    job.place(BEST).measure(BEST, 12.0)
    job.place(WORST, chosen=12_000).measure(WORST, 8.0)
    assert job.message() == "Links: waiting until the GPUProfile has the samples of both runs"
    assert job.plan().recheck_after_seconds == POLL_SECONDS
    job.after(STORE_SECONDS - 1)
    assert job.plan().recheck_after_seconds == 1
    job.after(-STORE_SECONDS + 1)
    job.profile = None
    job.after(STORE_SECONDS).reconcile()
    assert job.condition("Profiled") == ("True", "Done")


def test_suspended_job_is_measured_when_it_is_resumed() -> None:
    job = LinkSituation(suspend=True)
    job.reconcile()
    assert job.status.phase == "Suspended"
    assert job.message() == "Links: the job is suspended"
    assert job.runs == {}
    job.job["spec"]["suspend"] = False
    job.reconcile()
    assert list(job.runs) == [BEST]


def test_suspending_the_job_ends_the_measurement(job: LinkSituation) -> None:
    job.place(BEST)
    job.job["spec"]["suspend"] = True
    job.reconcile()
    assert job.result(BEST) == "Stopped"
    assert job.child is not None
    assert job.child["spec"]["suspend"] is True
    assert job.status.phase == "Suspended"


def test_links_that_become_known_between_the_runs_end_the_measurement(job: LinkSituation) -> None:
    job.place(BEST)
    job.profile = GPUProfile(spec=GPUProfileSpec(bandwidth_sensitivity_percent=20))
    job.reconcile()
    assert job.result(BEST) == "Stopped"
    assert job.condition("Profiled") == ("False", "Stopped")


def test_run_whose_first_sample_makes_the_links_known_continues(job: LinkSituation) -> None:
    job.place(BEST).measure(BEST, 12.0)
    job.place(WORST, chosen=12_000).measure(WORST, 8.0, samples=1)
    job.learn()
    assert job.runs[WORST]["spec"]["suspend"] is False
    job.measure(WORST, 8.0).learn()
    assert job.condition("Profiled") == ("True", "Done")


def test_links_that_become_known_before_the_second_run_has_a_sample_end_it(
    job: LinkSituation,
) -> None:
    job.place(BEST).measure(BEST, 12.0)
    job.place(WORST, chosen=12_000)
    job.profile = GPUProfile(spec=GPUProfileSpec(bandwidth_sensitivity_percent=20))
    job.reconcile()
    assert job.result(WORST) == "Stopped"


def test_second_run_with_a_sample_ends_if_the_job_is_suspended(job: LinkSituation) -> None:
    job.place(BEST).measure(BEST, 12.0)
    job.place(WORST, chosen=12_000).measure(WORST, 8.0, samples=1)
    job.job["spec"]["suspend"] = True
    job.reconcile()
    assert job.result(WORST) == "Stopped"


def test_pods_of_the_job_get_the_fact_of_both_runs(job: LinkSituation) -> None:
    job.place(BEST).measure(BEST, 12.0)
    job.place(WORST, chosen=12_000).measure(WORST, 8.0).learn()
    assert job.child is not None
    annotations = job.child["spec"]["template"]["metadata"]["annotations"]
    facts = parse_facts(annotations)
    assert facts is not None
    assert facts.links[3].percent == 50
    assert facts.links[3].samples == 2 * MIN_SAMPLES
    assert facts.links[3].low >= SENSITIVE_FROM_PERCENT


def test_job_waits_until_its_profile_has_every_sample(job: LinkSituation) -> None:
    job.place(BEST).measure(BEST, 12.0)
    job.place(WORST, chosen=12_000).measure(WORST, 8.0, samples=1)
    job.learn()
    second = job.pods[-1]
    job.samples["uid-train-links-worst-1"] = job.taken(WORST, 8.0)
    job.write(job.plan())
    job.pods.append(second)  # the pod ends slowly
    job.reconcile()
    assert job.message() == "Links: waiting until the GPUProfile has the samples of both runs"
    job.learn()
    assert job.is_started()


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


def test_child_job_that_is_created_again_is_not_measured_again(job: LinkSituation) -> None:
    job.after(PLACE_SECONDS).reconcile()
    job.child, job.runs = None, {}
    job.reconcile()
    assert job.runs == {}
    assert job.message() == "Links: links are measured only before the Job is first created"


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


def test_job_that_measures_links_and_cpus_reports_both() -> None:
    job = LinkSituation(profiling={"measure": ["CPUs", "Links"]})
    job.reconcile()
    job.after(PLACE_SECONDS).reconcile()
    assert job.condition("Profiled") == ("False", "NotPlaced")
    assert job.message().endswith("; CPUs: waiting for the first sample")


def test_valid_samples_of_each_pod_are_sorted_by_time() -> None:
    first, second = (sample(1000, rate, at=at) for rate, at in ((1.0, 5), (2.0, 9)))
    samples = [second.to_json(), first.to_json(), {"podUID": "uid-train"}]
    assert parse_pod_samples({"status": {"samples": samples}}) == {"uid-train": [first, second]}
    assert parse_pod_samples({}) == {}


def test_invalid_result_annotation_is_ignored() -> None:
    assert LinksResult.parse("{") is None
    assert LinksResult.parse(None) is None


def test_run_goes_on_until_it_has_three_samples() -> None:
    job = LinkSituation()
    job.reconcile()
    job.place(BEST)
    job.samples[f"uid-{BEST}-1"] = [sample(8000, 12.0), sample(8000, 12.0, at=1)]
    job.reconcile()
    assert job.message() == f"Links: Job {BEST} waits for samples"
    job.measure(BEST, 12.0)
    assert job.result(BEST) == "Measured"


def test_at_half_of_the_time_limit_one_sample_is_enough() -> None:
    job = LinkSituation()
    job.reconcile()
    job.place(BEST)
    job.samples[f"uid-{BEST}-1"] = [sample(8000, 12.0)]
    job.after(300).reconcile()
    assert job.result(BEST) == "Measured"

"""Links are not measured, or not to the end, if this is impossible or no longer needed."""

import pytest

from gputopo.api.profile import GPUProfile, GPUProfileSpec
from gputopo.profiles.comparable import MIN_SAMPLES
from gputopo_operator.decision.link_runs import PLACE_SECONDS
from support.builders.gpujobs import GPUS, exited, job_pod
from support.operator.link_situation import BEST, WORST, LinkSituation
from support.profiling.pods import sample


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

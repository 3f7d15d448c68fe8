"""The pure parts of the experiments with the queue, on values."""

from dataclasses import replace

import pytest

from gputopo.api.v1alpha1 import GPUJobSpec
from resizetest import queue_definition, queue_jobs
from resizetest.queue_definition import ORDERS, JobRun, QueuedJob
from resizetest.queue_jobs import GPUS, JOBS

SMALL, LARGE = QueuedJob("small", 2, 10, 10), QueuedJob("large", 8, 20, 20)


def runs(order: str, extra_seconds: float = 4.0) -> list[JobRun]:
    """The runs of the ten jobs; the first two were created long before the others."""
    created = [-78.0, -46.0, *(number - 20.0 for number in range(8))]
    jobs = [replace(job, created=at) for job, at in zip(JOBS, created, strict=True)]
    return queue_definition.expected_runs(order, jobs, GPUS, 0.0, extra_seconds)


@pytest.mark.parametrize(
    ("order", "started"),
    [
        ("FIFO", "q t f k b w m h d z"),
        ("SRTF", "m h w d b t q f k z"),
        ("LAS", "k f b w h m d t q z"),
        ("FTF", "m h w q b t d f k z"),
    ],
)
def test_each_order_has_its_own_starts_by_the_definition(order: str, started: str) -> None:
    assert queue_definition.names(runs(order)) == started


@pytest.mark.parametrize("order", ORDERS)
def test_some_seconds_of_delay_change_no_order(order: str) -> None:
    late = {queue_definition.names(runs(order, seconds)) for seconds in (2.0, 4.0, 6.0)}
    assert len(late) == 1


def test_mean_completion_of_srtf_is_shorter_than_of_fifo() -> None:
    fifo, srtf = (
        queue_definition.mean_completion_seconds(runs(order), 0.0) for order in ("FIFO", "SRTF")
    )
    assert srtf < 0.8 * fifo


def test_runs_by_the_definition_are_in_order() -> None:
    for order in ORDERS:
        assert queue_definition.starts_out_of_order(order, runs(order), GPUS, 0.0) == []


def test_start_before_a_job_that_fits_is_out_of_order() -> None:
    found = [JobRun(LARGE, 0.0, 20.0), JobRun(SMALL, 20.0, 30.0)]
    assert queue_definition.starts_out_of_order("SRTF", found, GPUS, 0.0) == [
        "large before small, which needs 2 of 8 free GPUs"
    ]
    assert queue_definition.starts_out_of_order("FIFO", found, GPUS, 0.0) == []


def test_jobs_of_one_decision_have_no_order() -> None:
    found = [JobRun(replace(LARGE, gpus=2), 0.0, 20.0), JobRun(SMALL, 0.9, 10.0)]
    assert queue_definition.starts_out_of_order("SRTF", found, GPUS, 0.0) == []
    late = [found[0], JobRun(SMALL, 1.1, 11.0)]
    assert len(queue_definition.starts_out_of_order("SRTF", late, GPUS, 0.0)) == 1


def test_gpus_that_have_just_become_free_may_still_count_as_used() -> None:
    # GPUs of "first" are free from 8 s on, and 2 are free all the time.
    first = JobRun(QueuedJob("first", 6, 8, 8), 0.0, 8.0)
    found = [first, JobRun(replace(SMALL, created=1.0), 10.0, 20.0), JobRun(LARGE, 20.0, 40.0)]
    assert queue_definition.starts_out_of_order("FIFO", found, GPUS, 5.0) == []
    assert len(queue_definition.starts_out_of_order("FIFO", found, GPUS, 1.0)) == 1


def test_positions_may_differ_only_where_the_order_changes_at_about_that_time() -> None:
    # FTF: both have the same ratio 20 s after their creation: (20 + 10) / 10 and (20 + 10) / 10.
    near = QueuedJob("near", 2, 10, 10)
    far = QueuedJob("far", 2, 20, 20, created=-20.0)
    assert near.key("FTF", 20.0) == far.key("FTF", 20.0) == -3.0
    assert queue_definition.agrees("FTF", [near, far], 19.5, 1.0)
    assert queue_definition.agrees("FTF", [far, near], 20.5, 1.0)
    assert not queue_definition.agrees("FTF", [near, far], 10.0, 1.0)
    assert not queue_definition.agrees("SRTF", [far, near], 20.0, 1.0)


def test_manifest_states_gpus_and_expected_duration() -> None:
    manifest = queue_jobs.sleeper(JOBS[0], "n3", "busybox")
    spec = GPUJobSpec.model_validate(manifest["spec"])
    assert (spec.gpus_per_replica, spec.expected.duration_seconds) == (4, 44)
    pod = manifest["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"kubernetes.io/hostname": "n3"}
    assert "sleep 24" in pod["containers"][0]["command"][-1]

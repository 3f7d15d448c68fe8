"""The tool that compares an ensemble with simple ways: its figures from ended pods."""

from datetime import UTC, datetime

import pytest

from ensembletest.members import five, gpu_job, manifest
from ensembletest.ways import Outcome, Run, Way, gpus_each, run_of, table
from gputopo.api.ensemble import GPUEnsembleSpec

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def test_run_of_a_pod_starts_and_ends_with_its_program() -> None:
    state = {"startedAt": "2026-01-01T00:00:03Z", "finishedAt": "2026-01-01T00:01:03Z"}
    pod = {
        "metadata": {"labels": {"gputopo.io/job": "slow"}},
        "status": {"containerStatuses": [{"state": {"terminated": state}}]},
    }
    assert run_of(pod, BEGAN, 4) == Run("slow", 4, 3.0, 63.0)


def test_idle_part_counts_gpus_that_no_program_has() -> None:
    runs = [Run("a", 4, 0, 50), Run("b", 8, 50, 100)]
    found = Outcome(Way.ENSEMBLE, 8, runs)
    assert found.makespan == 100
    assert found.idle == pytest.approx(0.25)
    lines = list(table([found, Outcome(Way.ONE_GPU_EACH, 8, [Run("a", 1, 0, 200)])]))
    assert lines[1].split() == ["ensemble", "100", "1.00", "25%"]
    assert lines[2].split() == ["one-gpu-each", "200", "2.00", "88%"]
    assert "  b                 8    50   100" in lines


@pytest.mark.parametrize(
    ("way", "most", "gpus"),
    [
        (Way.ONE_GPU_EACH, 16, 1),
        (Way.EQUAL_SHARES, 16, 3),
        (Way.ONE_AFTER_THE_OTHER, 16, 8),
        (Way.ONE_AFTER_THE_OTHER, 4, 4),
    ],
)
def test_simple_ways_give_each_member_the_same_number(way: Way, most: int, gpus: int) -> None:
    assert gpus_each(way, most, 5) == gpus


def test_members_are_a_valid_ensemble_and_valid_gpujobs() -> None:
    members = five(60)
    spec = manifest("search", members, "image", maxGPUs=16, itemsPerEpoch=1)["spec"]
    assert [each.name for each in GPUEnsembleSpec.model_validate(spec).members] == [
        each.name for each in members
    ]
    job = gpu_job(members[1], "image", 3)
    assert (job["metadata"]["name"], job["spec"]["gpusPerReplica"]) == ("early", 3)
    assert members[0].rate(4) / members[0].rate(1) == pytest.approx(4 / 1.12)

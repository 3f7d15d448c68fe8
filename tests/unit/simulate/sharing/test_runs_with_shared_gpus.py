"""Jobs share GPUs event by event; every value can be computed by hand."""

import pytest

from gputopo_simulate.errors import SimulationError
from gputopo_simulate.sharing.model import FinishedSharedJob, FirstChoice, OneGpuJob
from gputopo_simulate.sharing.policies import POLICIES, PolicySettings
from gputopo_simulate.sharing.run import SharingRunSettings, run
from support.sharing import three

A, B, C = "A (x)", "B", "C"


def simulated(
    policy: str, *jobs: tuple[float, str, float], gpus: int = 1, known: float = 1.0
) -> tuple[FinishedSharedJob, ...]:
    """Run jobs of arrival, model and seconds alone."""
    numbered = [OneGpuJob(number, *job) for number, job in enumerate(jobs)]
    settings = SharingRunSettings(policy, gpus, PolicySettings(known_share=known))
    return run(numbered, three(), settings).jobs


def test_jobs_run_one_after_the_other_without_sharing() -> None:
    first, second = simulated("never", (0, A, 1000), (5, B, 500))
    assert (first.start, first.end, second.start, second.end) == (0, 1000, 1000, 1500)
    assert (second.completion, second.slowdown, second.stretch) == (1495, 2.99, 1)


def test_speeds_are_the_measured_ones_while_two_jobs_share() -> None:
    """From 100 on A runs at 0.9 and B at 0.8; B has 0.2 * 800 s left when A ends at 1100."""
    first, second = simulated("perfect", (0, A, 1000), (100, B, 1000))
    assert first.end == pytest.approx(100 + 900 / 0.9)
    assert second.end == pytest.approx(1100 + 200)
    assert first.gpu == second.gpu == 0
    assert second.stretch == pytest.approx(1.2)


def test_empty_gpus_are_used_first() -> None:
    for policy in POLICIES:
        found = simulated(policy, (0, A, 1000), (0, A, 1000), gpus=2)
        assert [job.gpu for job in found] == [0, 1]
        assert {job.first_choice for job in found} == {FirstChoice.NOT_NEEDED}


def test_job_shares_with_the_job_of_the_highest_gain() -> None:
    """A beside A has 2.0, A beside B 1.7."""
    found = simulated("speed", (0, B, 9000), (0, A, 9000), (10, A, 100), gpus=2)
    assert found[2].gpu == 1


def test_gpu_takes_two_jobs_at_most() -> None:
    found = simulated("always", (0, A, 1000), (0, A, 1000), (0, A, 500))
    assert [job.start for job in found] == [0, 0, 1000]


def test_pair_that_does_not_fit_is_never_shared() -> None:
    for policy in POLICIES:
        found = simulated(policy, (0, B, 1000), (0, B, 1000))
        assert [job.start for job in found] == [0, 1000]
        assert found[1].first_choice is FirstChoice.RIGHT


def test_wrong_decisions_are_counted() -> None:
    always = simulated("always", (0, B, 1000), (0, C, 1000))
    never = simulated("never", (0, B, 1000), (0, A, 1000))
    assert always[1].first_choice is FirstChoice.SHARED_WRONG
    assert never[1].first_choice is FirstChoice.WAITED_WRONG
    assert simulated("perfect", (0, B, 1000), (0, A, 1000))[1].first_choice is FirstChoice.RIGHT
    assert simulated("never", (0, B, 1000), (0, C, 1000))[1].first_choice is FirstChoice.RIGHT


def test_job_behind_one_that_waits_may_share() -> None:
    """C cannot share with B, but A can; the thesis stops at the first rejection."""
    jobs = (0, B, 1000), (1, C, 100), (2, A, 100)
    assert simulated("perfect", *jobs)[2].start == 2
    assert simulated("thesis", *jobs)[2].start > 1000


def test_thesis_decides_by_measured_delta() -> None:
    """A and C have a delta of (0.1 + 0.5) / (1 / 1.2) = 0.72, and a summed speed of 1.6."""
    jobs = (0, A, 1000), (0, C, 1000)
    assert simulated("thesis", *jobs)[1].start == 1000
    assert simulated("delta", *jobs)[1].start == 1000
    assert simulated("speed", *jobs)[1].start == 0


def test_unknown_pair_is_not_shared_and_a_trial_is_ended() -> None:
    """B and C lose: after 120 s C leaves, loses 60 s, and waits for the end of B."""
    jobs = (0, B, 1000), (0, C, 1000)
    assert [job.start for job in simulated("speed", *jobs, known=0)] == [0, 1000]
    first, second = simulated("trial", *jobs, known=0)
    assert first.end == pytest.approx(120 + 1000 - 120 * 0.4)
    assert second.end == pytest.approx(first.end + 1000 + 60 - 120 * 0.4)
    assert (second.start, second.moves) == (0, 1)


def test_ended_pair_is_not_tried_again() -> None:
    found = simulated("trial", (0, B, 1000), (0, C, 1000), (2000, B, 1000), (2900, C, 50), known=0)
    assert found[3].moves == 0
    assert sum(job.moves for job in found) == 1


def test_measured_pair_becomes_known() -> None:
    """After A and B have shared for 120 s, the next pair of them is no trial."""
    jobs = (0, A, 200), (0, B, 200), (3000, A, 50), (3000, B, 50)
    assert [job.moves for job in simulated("trial", *jobs, known=0)] == [0, 0, 0, 0]


def test_limit_of_the_jobs_is_kept() -> None:
    """B takes 25 % longer beside A, and A 11 % longer beside B."""
    jobs = [OneGpuJob(0, 0, A, 1000), OneGpuJob(1, 0, B, 1000)]
    for policy in ("perfect", "speed"):
        for limit, start in ((25, 0), (24, 1000)):
            rules = PolicySettings(known_share=1, max_slowdown_percent=limit)
            found = run(jobs, three(), SharingRunSettings(policy, 1, rules)).jobs
            assert found[1].start == start


def test_progress_is_reported() -> None:
    seen: list[tuple[int, int]] = []
    jobs = [OneGpuJob(0, 0, A, 10)]
    run(jobs, three(), SharingRunSettings("never", 1), lambda *done: seen.append(done))
    assert seen == [(0, 1), (1, 1)]


@pytest.mark.parametrize(
    ("jobs", "gpus", "message"),
    [
        ([], 1, "jobs: the list is empty"),
        ([OneGpuJob(3, 0, "X", 1)], 1, "job 3: model: 'X' was not measured"),
        ([OneGpuJob(3, 0, A, 0)], 1, "job 3: seconds: 0; must be above 0"),
        ([OneGpuJob(3, 0, A, 1), OneGpuJob(3, 0, A, 1)], 1, "job 3: id: used by another job"),
        ([OneGpuJob(3, 0, A, 1)], 0, "gpus: 0; must be at least 1"),
    ],
)
def test_invalid_input_is_rejected(jobs: list[OneGpuJob], gpus: int, message: str) -> None:
    with pytest.raises(SimulationError, match=message):
        run(jobs, three(), SharingRunSettings("never", gpus))

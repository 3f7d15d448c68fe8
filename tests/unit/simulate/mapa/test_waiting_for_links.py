import pytest

from gputopo.catalogue import named
from gputopo.patterns.model import ring
from gputopo_simulate.errors import SimulationError
from gputopo_simulate.mapa.generate import generate
from gputopo_simulate.mapa.model import Queueing, SimulatedJob, SimulationResult
from gputopo_simulate.mapa.run import MapaSettings, run
from gputopo_simulate.mapa.summary import JobGroup, effective_gb_per_s, jobs_in_group
from gputopo_simulate.mapa.timelaw import BandwidthTime, FixedTime, TimeLaw
from gputopo_simulate.mapa.waiting import PossibleEnd, WaitingRule, expected_residual, should_wait

SEEN = [10.0, 10.0, 20.0, 20.0]


def waits_with(
    observed: list[float] = SEEN,
    *,
    theta: float = 1,
    free: int = 2,
    slowdown: float = 3,
    ends: tuple[PossibleEnd, ...] = (PossibleEnd(age=5, slowdown=1),),
) -> bool:
    return should_wait(
        WaitingRule(theta), observed, gpus=2, free=free, slowdown=slowdown, ends=ends
    )


def test_job_waits_if_that_saves_more_gpu_time_than_it_idles() -> None:
    # saved: 2 GPUs * 15 * (3 - 1) = 60; the running job lasts 10 more: 2 idle GPUs lose 20
    assert waits_with()
    assert waits_with(free=5)
    assert not waits_with(free=6)
    assert not waits_with(theta=3)


def test_job_does_not_wait_for_links_that_are_no_better() -> None:
    assert not waits_with(slowdown=1)
    assert not waits_with(ends=(PossibleEnd(age=5, slowdown=3),))


def test_job_that_probably_ends_first_counts_most() -> None:
    soon_better = (PossibleEnd(age=19, slowdown=1), PossibleEnd(age=1, slowdown=3))
    late_better = (PossibleEnd(age=19, slowdown=3), PossibleEnd(age=1, slowdown=1))
    assert waits_with(free=8, ends=soon_better)
    assert not waits_with(free=8, ends=late_better)


def test_job_does_not_wait_before_another_has_ended_or_if_none_runs() -> None:
    assert not waits_with([])
    assert not waits_with(ends=())


def test_job_that_is_older_than_all_finished_ones_is_expected_to_end_at_once() -> None:
    assert expected_residual(SEEN, 25) == 0
    assert waits_with(free=100, ends=(PossibleEnd(age=25, slowdown=1),))


def job(number: int, gpus: int, service: float, *, sensitive: bool = True) -> SimulatedJob:
    return SimulatedJob(number, ring(gpus), 0, service, sensitive)


def on_dgx1(
    jobs: list[SimulatedJob], waiting: WaitingRule | None, law: TimeLaw | None = None
) -> SimulationResult:
    settings = MapaSettings(time_law=law or BandwidthTime(), waiting=waiting)
    return run({"n": named("dgx1-v100")}, jobs, settings)


# Eight jobs that use all GPUs of the node.
FILLERS = [job(number, 1, service, sensitive=False) for number, service in enumerate([10] * 8)]


def crowded(last: SimulatedJob) -> list[SimulatedJob]:
    """Return jobs after which only GPUs 0 and 5, which have no link, are free for ``last``.

    GPU 3, which has links to both, becomes free soon after.
    """
    filled = run({"n": named("dgx1-v100")}, FILLERS, MapaSettings())
    job_on = {finished.gpus[0]: finished.job.id for finished in filled.jobs}
    ends = {0: 10.0, 5: 10.0, 3: 12.0}
    lengths = {job_on[gpu]: ends.get(gpu, 40.0) for gpu in job_on}
    return [
        *(job(number, 1, lengths[number], sensitive=False) for number in range(8)),
        last,
    ]


def test_sensitive_job_waits_for_a_linked_gpu() -> None:
    jobs = crowded(job(8, 2, 20))
    at_once, patient = (on_dgx1(jobs, rule).jobs[8] for rule in (None, WaitingRule()))
    assert (at_once.start, set(at_once.gpus)) == (10, {0, 5})
    assert (patient.start, set(patient.gpus)) == (12, {0, 3})
    assert patient.end < at_once.end


@pytest.mark.parametrize(
    "last", [job(8, 2, 20, sensitive=False), job(8, 1, 20)], ids=["insensitive", "one GPU"]
)
def test_insensitive_job_never_waits(last: SimulatedJob) -> None:
    assert on_dgx1(crowded(last), WaitingRule()).jobs[8].start == 10


def test_no_job_waits_with_fixed_times() -> None:
    assert on_dgx1(crowded(job(8, 2, 20)), WaitingRule(), FixedTime()).jobs[8].start == 10


def test_no_job_waits_longer_than_the_limit() -> None:
    last = on_dgx1(crowded(job(8, 2, 20)), WaitingRule(max_mean_times=0.1)).jobs[8]
    assert (last.start, set(last.gpus)) == (11, {0, 5})


def test_waiting_raises_the_worst_bandwidth_and_shortens_the_run_on_a_torus() -> None:
    jobs = generate(5, 300)
    results = [
        run({"n": named("torus-2d-16")}, jobs, MapaSettings(time_law=BandwidthTime(), waiting=rule))
        for rule in (None, WaitingRule())
    ]
    worst = [min(effective_gb_per_s(jobs_in_group(one, JobGroup.SENSITIVE))) for one in results]
    assert worst[1] > worst[0]
    assert results[1].makespan < results[0].makespan


@pytest.mark.parametrize(
    ("nodes", "queueing", "message"),
    [
        (2, Queueing.FIFO, "wait: not possible with 2 nodes; leave out --wait or use one node"),
        (1, Queueing.SKIP_AHEAD, "wait: not possible with --backfill; leave out one of them"),
    ],
)
def test_waiting_with_several_nodes_or_skip_ahead_is_rejected(
    nodes: int, queueing: Queueing, message: str
) -> None:
    fleet = {f"n{place}": named("summit", node=str(place)) for place in range(nodes)}
    with pytest.raises(SimulationError, match=message):
        run(fleet, [job(0, 1, 1)], MapaSettings(queueing=queueing, waiting=WaitingRule()))

import pytest

from gputopo.patterns.model import ring
from gputopo_simulate.mapa.generate import Mix, generate
from gputopo_simulate.mapa.model import Queueing, Result, SimulatedJob, SimulationError
from gputopo_simulate.mapa.run import Settings, run
from gputopo_simulate.mapa.statistics import Group, effective_gb_per_s, of_group
from gputopo_simulate.mapa.timelaw import ByBandwidth, FixedService, TimeLaw
from gputopo_simulate.mapa.waiting import Ending, Waiting, expected_residual, pays
from gputopo_topologies.catalogue import named

SEEN = [10.0, 10.0, 20.0, 20.0]


def pays_with(
    observed: list[float] = SEEN,
    *,
    theta: float = 1,
    free: int = 2,
    slowdown: float = 3,
    endings: tuple[Ending, ...] = (Ending(age=5, slowdown=1),),
) -> bool:
    return pays(Waiting(theta), observed, gpus=2, free=free, slowdown=slowdown, endings=endings)


def test_waiting_pays_where_it_saves_more_gpu_time_than_it_idles() -> None:
    # saved: 2 GPUs * 15 * (3 - 1) = 60; the running job lasts 10 more: 2 idle GPUs lose 20
    assert pays_with()
    assert pays_with(free=5)
    assert not pays_with(free=6)
    assert not pays_with(theta=3)


def test_waiting_does_not_pay_for_what_would_be_no_better() -> None:
    assert not pays_with(slowdown=1)
    assert not pays_with(endings=(Ending(age=5, slowdown=3),))


def test_who_will_probably_end_first_counts_most() -> None:
    soon_better = (Ending(age=19, slowdown=1), Ending(age=1, slowdown=3))
    late_better = (Ending(age=19, slowdown=3), Ending(age=1, slowdown=1))
    assert pays_with(free=8, endings=soon_better)
    assert not pays_with(free=8, endings=late_better)


def test_nothing_pays_before_a_job_has_ended_or_while_none_runs() -> None:
    assert not pays_with([])
    assert not pays_with(endings=())


def test_a_job_that_has_outlasted_all_is_expected_to_end_at_once() -> None:
    assert expected_residual(SEEN, 25) == 0
    assert pays_with(free=100, endings=(Ending(age=25, slowdown=1),))


def job(number: int, gpus: int, service: float, *, sensitive: bool = True) -> SimulatedJob:
    return SimulatedJob(number, ring(gpus), 0, service, sensitive)


def on_dgx1(
    jobs: list[SimulatedJob], waiting: Waiting | None, law: TimeLaw | None = None
) -> Result:
    settings = Settings(time_law=law or ByBandwidth(), waiting=waiting)
    return run({"n": named("dgx1-v100")}, jobs, settings)


# Two ends of a PCIe pair come free while all else runs on: 0 and 5 are not linked.
HOLDERS = [job(number, 1, service, sensitive=False) for number, service in enumerate([10] * 8)]


def crowded(last: SimulatedJob) -> list[SimulatedJob]:
    """Return jobs that leave only unlinked GPUs to ``last``, and better ones soon after."""
    held = run({"n": named("dgx1-v100")}, HOLDERS, Settings())
    holder_of = {finished.gpus[0]: finished.job.id for finished in held.jobs}
    ends = {0: 10.0, 5: 10.0, 3: 12.0}
    lengths = {holder_of[gpu]: ends.get(gpu, 40.0) for gpu in holder_of}
    return [
        *(job(number, 1, lengths[number], sensitive=False) for number in range(8)),
        last,
    ]


def test_a_sensitive_job_waits_for_a_linked_gpu() -> None:
    jobs = crowded(job(8, 2, 20))
    at_once, patient = (on_dgx1(jobs, rule).jobs[8] for rule in (None, Waiting()))
    assert (at_once.start, set(at_once.gpus)) == (10, {0, 5})
    assert (patient.start, set(patient.gpus)) == (12, {0, 3})
    assert patient.end < at_once.end


@pytest.mark.parametrize(
    "last", [job(8, 2, 20, sensitive=False), job(8, 1, 20)], ids=["insensitive", "one GPU"]
)
def test_jobs_that_links_do_not_matter_to_never_wait(last: SimulatedJob) -> None:
    assert on_dgx1(crowded(last), Waiting()).jobs[8].start == 10


def test_no_job_waits_under_a_law_that_bandwidth_does_not_change() -> None:
    assert on_dgx1(crowded(job(8, 2, 20)), Waiting(), FixedService()).jobs[8].start == 10


def test_no_job_waits_longer_than_it_may() -> None:
    last = on_dgx1(crowded(job(8, 2, 20)), Waiting(most_mean_times=0.1)).jobs[8]
    assert (last.start, set(last.gpus)) == (11, {0, 5})


def test_waiting_lifts_the_worst_bandwidth_and_shortens_the_run_on_a_torus() -> None:
    jobs = generate(5, Mix())
    outcomes = [
        run({"n": named("torus-2d-16")}, jobs, Settings(time_law=ByBandwidth(), waiting=rule))
        for rule in (None, Waiting())
    ]
    worst = [min(effective_gb_per_s(of_group(one, Group.SENSITIVE))) for one in outcomes]
    assert worst[1] > worst[0]
    assert outcomes[1].makespan < outcomes[0].makespan


@pytest.mark.parametrize(
    ("nodes", "queueing", "told"),
    [
        (2, Queueing.FIFO, "waiting: on 2 nodes is not yet supported"),
        (1, Queueing.SKIP_AHEAD, "waiting: with skip-ahead is not yet supported"),
    ],
)
def test_waiting_where_it_was_never_tried_is_refused(
    nodes: int, queueing: Queueing, told: str
) -> None:
    fleet = {f"n{place}": named("summit", node=str(place)) for place in range(nodes)}
    with pytest.raises(SimulationError, match=told):
        run(fleet, [job(0, 1, 1)], Settings(queueing=queueing, waiting=Waiting()))

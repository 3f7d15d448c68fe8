"""Every job finishes, and none before its shortest possible time, for any list of jobs."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from gputopo.sizing.orders import ORDERS
from gputopo_simulate.synergy.mechanisms import GUARANTEE_SHARES, MECHANISMS
from gputopo_simulate.synergy.model import SimulatedCluster, TrainingJob
from gputopo_simulate.synergy.released import program
from gputopo_simulate.synergy.released.program import run_as_released
from gputopo_simulate.synergy.run import SynergySettings, run
from support.synergy import models

CLUSTER = SimulatedCluster(servers=2, gpus=8, cpus=24, memory_gb=500)
ROUND_SECONDS = 300.0

queues = st.lists(
    st.tuples(
        st.sampled_from(sorted(models())),
        st.sampled_from([1, 1, 1, 2, 4, 8, 16]),
        st.integers(0, 20_000),
        st.integers(60, 30_000),
    ),
    min_size=1,
    max_size=40,
)


def jobs_of(queue: Sequence[tuple[str, int, int, int]]) -> list[TrainingJob]:
    return [
        TrainingJob(
            number,
            models()[name],
            gpus,
            arrival_s,
            max(1, int(seconds / models()[name].step_seconds)),
        )
        for number, (name, gpus, arrival_s, seconds) in enumerate(queue)
    ]


def shortest_seconds(job: TrainingJob) -> float:
    best = max(job.model.matrix(job.gpus).best, job.model.matrices[1].best)
    return job.iterations * job.model.step_seconds / best


@given(
    queue=queues,
    order=st.sampled_from(sorted(ORDERS)),
    mechanism=st.sampled_from(sorted(MECHANISMS.keys() - {"opt"})),
    round_seconds=st.sampled_from([None, ROUND_SECONDS]),
)
def test_every_job_finishes_and_none_before_its_shortest_time(
    queue: list[tuple[str, int, int, int]], order: str, mechanism: str, round_seconds: float | None
) -> None:
    jobs = jobs_of(queue)
    runnable_only = mechanism in GUARANTEE_SHARES
    settings = SynergySettings(
        ORDERS[order],
        MECHANISMS[mechanism],
        runnable_only=runnable_only,
        round_seconds=round_seconds,
    )
    finished = run(CLUSTER, jobs, settings)
    assert sorted(each.id for each in finished) == [each.id for each in jobs]
    for each in finished:
        assert each.jct_seconds >= shortest_seconds(jobs[each.id]) * (1 - 1e-9)
    ends = [each.finish_seconds for each in finished]
    assert ends == sorted(ends)
    assert run(CLUSTER, jobs[::-1], settings) == finished


@given(queue=queues, mechanism=st.sampled_from(sorted(GUARANTEE_SHARES - {"opt"})))
def test_job_that_always_runs_is_never_slower_than_with_its_share(
    queue: list[tuple[str, int, int, int]], mechanism: str
) -> None:
    """The first job of the queue takes at most the time it takes alone with its share."""
    jobs = jobs_of(queue)
    first = min(jobs, key=lambda each: (each.arrival_seconds, each.id))
    settings = SynergySettings(
        ORDERS["fifo"], MECHANISMS[mechanism], runnable_only=True, round_seconds=None
    )
    done = {each.id: each for each in run(CLUSTER, jobs, settings)}[first.id]
    assert done.jct_seconds <= first.iterations * first.model.step_seconds * (1 + 1e-9)


@given(
    queue=queues,
    order=st.sampled_from(sorted(program.ORDERS)),
    mechanism=st.sampled_from(sorted(program.MECHANISMS)),
)
def test_every_job_finishes_with_a_round_as_released(
    queue: list[tuple[str, int, int, int]], order: str, mechanism: str
) -> None:
    jobs = jobs_of(queue)
    finished = run_as_released(CLUSTER, jobs, order, mechanism)
    assert sorted(each.id for each in finished) == [each.id for each in jobs]
    for each in finished:
        assert each.jct_seconds >= shortest_seconds(jobs[each.id]) - ROUND_SECONDS
    assert len({each.finish_seconds % ROUND_SECONDS for each in finished}) == 1

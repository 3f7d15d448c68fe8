"""Whatever jobs there are: nobody ends before its best, and nobody is forgotten."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from gputopo.sizing.orders import ORDERS
from gputopo_simulate.synergy.mechanisms import GUARANTEE_SHARES, MECHANISMS
from gputopo_simulate.synergy.model import Cluster, TrainingJob
from gputopo_simulate.synergy.released import program
from gputopo_simulate.synergy.released.program import run_as_released
from gputopo_simulate.synergy.run import Settings, run
from support.synergy import models

CLUSTER = Cluster(servers=2, gpus=8, cpus=24, memory_gb=500)
ROUNDS_OF = 300.0

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
            number, models()[name], gpus, arrival_s, max(1, int(seconds / models()[name].step_s))
        )
        for number, (name, gpus, arrival_s, seconds) in enumerate(queue)
    ]


def shortest_s(job: TrainingJob) -> float:
    best = max(job.model.matrix(job.gpus).best, job.model.matrices[1].best)
    return job.iterations * job.model.step_s / best


@given(
    queue=queues,
    order=st.sampled_from(sorted(ORDERS)),
    allocation=st.sampled_from(sorted(MECHANISMS.keys() - {"opt"})),
    round_s=st.sampled_from([None, ROUNDS_OF]),
)
def test_every_job_ends_and_none_before_its_best(
    queue: list[tuple[str, int, int, int]], order: str, allocation: str, round_s: float | None
) -> None:
    jobs = jobs_of(queue)
    in_turn = allocation in GUARANTEE_SHARES
    settings = Settings(ORDERS[order], MECHANISMS[allocation], in_turn=in_turn, round_s=round_s)
    finished = run(CLUSTER, jobs, settings)
    assert sorted(each.id for each in finished) == [each.id for each in jobs]
    for each in finished:
        assert each.jct_s >= shortest_s(jobs[each.id]) * (1 - 1e-9)
    ends = [each.finish_s for each in finished]
    assert ends == sorted(ends)
    assert run(CLUSTER, jobs[::-1], settings) == finished


@given(queue=queues, allocation=st.sampled_from(sorted(GUARANTEE_SHARES - {"opt"})))
def test_who_is_always_among_those_that_run_is_never_slower_than_by_shares(
    queue: list[tuple[str, int, int, int]], allocation: str
) -> None:
    """The first in the queue keeps its promise all the way: at worst its time alone."""
    jobs = jobs_of(queue)
    first = min(jobs, key=lambda each: (each.arrival_s, each.id))
    settings = Settings(ORDERS["fifo"], MECHANISMS[allocation], in_turn=True, round_s=None)
    done = {each.id: each for each in run(CLUSTER, jobs, settings)}[first.id]
    assert done.jct_s <= first.iterations * first.model.step_s * (1 + 1e-9)


@given(
    queue=queues,
    order=st.sampled_from(sorted(program.ORDERS)),
    allocation=st.sampled_from(sorted(program.MECHANISMS)),
)
def test_as_released_every_job_ends_at_the_end_of_a_round(
    queue: list[tuple[str, int, int, int]], order: str, allocation: str
) -> None:
    jobs = jobs_of(queue)
    finished = run_as_released(CLUSTER, jobs, order, allocation)
    assert sorted(each.id for each in finished) == [each.id for each in jobs]
    for each in finished:
        assert each.jct_s >= shortest_s(jobs[each.id]) - ROUNDS_OF
    assert len({each.finish_s % ROUNDS_OF for each in finished}) == 1

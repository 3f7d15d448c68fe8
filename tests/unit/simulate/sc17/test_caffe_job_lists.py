"""Job lists are parsed or rejected, and generated jobs follow the paper's distributions."""

from collections import Counter
from itertools import pairwise
from statistics import fmean

import pytest

from gputopo_simulate.errors import SimulationError
from gputopo_simulate.sc17.generate import CaffeLoad, generate
from gputopo_simulate.sc17.joblists import authors_list, parse_jobs
from gputopo_simulate.sc17.model import CaffeJob
from support.sc17 import jobs_of, shipped

HEADER = "id,arrival_s,net,batch,gpus,min_utility\n"


def test_rows_become_jobs() -> None:
    text = f"# a comment\n{HEADER}3,1.5,bvlc_alexnet,4,2,0.5\n"
    assert parse_jobs(text) == (CaffeJob(3, 1.5, "bvlc_alexnet", 4, 2, 0.5),)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("-1,0,a,1,1,0", "line 2, id: '-1' is not in 0"),
        ("1,soon,a,1,1,0", "line 2, arrival_s: 'soon' is not a number"),
        ("1,0,,1,1,0", "line 2, net: is missing"),
        ("1,0,a,0,1,0", "line 2, batch: '0' is not in 1"),
        ("1,0,a,1,65,0", "line 2, gpus: '65' is not in 1..64"),
        ("1,0,a,1,1,1.1", "line 2, min_utility: '1.1' is not in 0..1"),
    ],
)
def test_invalid_cell_is_rejected(row: str, message: str) -> None:
    with pytest.raises(SimulationError, match=message):
        parse_jobs(f"{HEADER}{row}\n")


def test_released_list_differs_from_the_papers_table_in_three_networks() -> None:
    paper, released = jobs_of("table1"), jobs_of("six")
    assert [job.id for job, other in zip(paper, released, strict=True) if job != other] == [1, 2]
    assert [job.net.removeprefix("bvlc_") for job in paper] == [
        *("alexnet", "googlenet", "alexnet"),
        *("alexnet", "alexnet", "alexnet"),  # the last is CaffeRef in the paper
    ]
    assert [job.gpus for job in paper] == [1, 1, 1, 2, 2, 2]
    assert [job.min_utility for job in paper] == [0.3, 0.3, 0.3, 0.5, 0.5, 0.5]


def test_list_of_a_hundred_jobs_is_complete() -> None:
    assert [job.id for job in jobs_of("hundred")] == list(range(100))


def test_unknown_list_is_rejected() -> None:
    with pytest.raises(SimulationError, match="list: 'ten' is not one of table1, six, hundred"):
        authors_list("ten", shipped("sc17_workloads.csv"))


def test_equal_seeds_give_equal_jobs() -> None:
    load = CaffeLoad(50)
    assert generate(7, load) == generate(7, load) != generate(8, load)


def test_generated_jobs_follow_the_distributions() -> None:
    jobs = generate(1, CaffeLoad(20_000, jobs_per_minute=10))
    assert jobs[-1].arrival / len(jobs) == pytest.approx(6, rel=0.03)
    shares = {
        batch: count / len(jobs) for batch, count in Counter(job.batch for job in jobs).items()
    }
    assert shares[1] == pytest.approx(0.9**3, abs=0.01)
    assert shares[4] == pytest.approx(3 * 0.1 * 0.9**2, abs=0.01)
    assert shares[64] == pytest.approx(3 * 0.1**2 * 0.9, abs=0.01)
    assert set(shares) == {1, 4, 64, 128}
    assert fmean(job.gpus for job in jobs) == pytest.approx(1 + 2 * 0.39, abs=0.02)
    assert fmean(job.net == "bvlc_googlenet" for job in jobs) == pytest.approx(0.2, abs=0.02)
    assert min(job.min_utility for job in jobs) >= 0.3
    assert max(job.min_utility for job in jobs) <= 0.52


def test_gaps_between_arrivals_are_exponential() -> None:
    jobs = generate(2, CaffeLoad(20_000, jobs_per_minute=60))
    gaps = [after.arrival - before.arrival for before, after in pairwise(jobs)]
    assert fmean(gap > 1 for gap in gaps) == pytest.approx(0.368, abs=0.02)

"""Job lists of Synergy, and lists that are rejected."""

import pytest

from gputopo_simulate.errors import SimulationError
from gputopo_simulate.synergy.joblists import parse_jobs
from gputopo_simulate.synergy.model import TrainingJob
from support.synergy import models, trace

HEADER = "job,model,gpus,arrival_s,iterations\n"


def test_columns_may_have_any_order_and_other_columns_are_ignored() -> None:
    text = "trace,iterations,job,arrival_s,model,gpus\nx,9,7,1.5,lstm,2\n"
    assert parse_jobs(text, models()) == (TrainingJob(7, models()["lstm"], 2, 1.5, 9),)


def test_traces_of_the_authors_have_a_hundred_jobs() -> None:
    assert [len(trace(name)) for name in ("static", "dynamic")] == [100, 100]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("job,model,gpus,arrival_s\n0,lstm,1,0\n", "jobs: line 1: no column iterations in"),
        (f"{HEADER}0,lstn,1,0,9\n", "jobs: line 2, model: 'lstn' is not one of alexnet,"),
        (f"{HEADER}0,lstn,1,0,9\n", "; did you mean lstm?"),
        (f"{HEADER}0,zzz,1,0,9\n", "vae"),
        (f"{HEADER}-1,lstm,1,0,9\n", "jobs: line 2, job: '-1' is not in 0..1e+09"),
        (f"{HEADER}a,lstm,1,0,9\n", "jobs: line 2, job: 'a' is not a whole number"),
        (f"{HEADER}0,lstm,0,0,9\n", "jobs: line 2, gpus: '0' is not in 1..1e+06"),
        (f"{HEADER}0,lstm,1.5,0,9\n", "jobs: line 2, gpus: '1.5' is not a whole number"),
        (f"{HEADER}0,lstm,1_0,0,9\n", "jobs: line 2, gpus: '1_0' is not a whole number"),
        (f"{HEADER}0,lstm,1,٣,9\n", "jobs: line 2, arrival_s: '٣' is not a number"),
        (f"{HEADER}0,lstm,1,-1,9\n", "jobs: line 2, arrival_s: '-1' is not in 0..1e+15"),
        (f"{HEADER}0,lstm,1,inf,9\n", "jobs: line 2, arrival_s: 'inf' is not in"),
        (f"{HEADER}0,lstm,1,0,0\n", "jobs: line 2, iterations: '0' is not in 1..1e+12"),
        (f"{HEADER}0,lstm,1,0,\n", "jobs: line 2, iterations: is missing"),
    ],
)
def test_rejected_list_is_reported_with_line_column_and_value(text: str, message: str) -> None:
    with pytest.raises(SimulationError) as rejected:
        parse_jobs(text, models())
    assert message in str(rejected.value)


def test_empty_list_is_rejected() -> None:
    with pytest.raises(SimulationError, match="jobs: the list is empty"):
        parse_jobs(HEADER, models())

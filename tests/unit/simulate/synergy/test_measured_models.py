"""The measured models, and tables that are rejected."""

import pytest

from gputopo.sensitivity.demand import Demand, saturating_demand
from gputopo_simulate.errors import SimulationError
from gputopo_simulate.synergy.measured import parse_matrices, parse_models
from support.synergy import SHIPPED, matrices, models

HEADER = (
    "model,profiled_gpus,cpu_gpu_ratio,best_cpus_per_gpu,best_mem_gb_per_gpu,batch,"
    "speedup_at_best,iter_time_s\n"
)
CELLS = "model,cpus,mem_gb,rel_throughput\n"


def test_demands_of_the_matrices_equal_those_of_the_authors() -> None:
    stated = {
        "alexnet": (12, 125),
        "deepspeech": (3, 62.5),
        "m5": (6, 187.5),
        "mobilenet": (6, 62.5),
        "res18": (9, 62.5),
        "res50": (4, 62.5),
        "shufflenet": (12, 125),
        "gnmt": (1, 20.83),
    }
    for name, (cpus, memory_gb) in stated.items():
        assert saturating_demand(models()[name].matrices[1]) == Demand(cpus, memory_gb)


def test_every_model_has_its_measured_matrix_and_its_step() -> None:
    assert models().keys() == matrices().keys()
    assert all(models()[name].matrices[1] == matrix for name, matrix in matrices().items())
    assert models()["lstm"].step_seconds == 0.011


def test_several_gpus_have_their_own_matrix() -> None:
    two = models()["alexnet"].matrix(2)
    assert not two.is_scaled
    assert (two.cpus, two.memory_gb) == ((6, 18), (125,))
    assert two.throughput == ((1,), (2.33,))


def test_other_numbers_of_gpus_are_scaled_from_one() -> None:
    eight = models()["alexnet"].matrix(8)
    assert eight.is_scaled
    assert eight == models()["alexnet"].matrices[1].scaled_to(8)


def test_model_may_need_less_than_its_share() -> None:
    two = models()["gnmt"].matrix(2)
    assert two.at(2, 125) == two.best == 1
    assert two.at(1, 125) == 0


def test_file_of_the_authors_table_gives_the_same_models() -> None:
    text = (SHIPPED / "synergy_models.csv").read_text(encoding="utf-8")
    assert parse_models(text, matrices()) == models()


def test_models_without_matrix_have_two_points() -> None:
    text = f"{HEADER}alexnet,1,3,10,100,512,2.5,0.6\nmine,1,4,2,100,8,3,0.1\n"
    found = parse_models(text, matrices())
    assert found["alexnet"].matrices[1].throughput == ((1.0, 1.0), (1.0, 2.5))
    mine = found["mine"].matrices[1]
    assert (mine.cpus, mine.memory_gb) == ((2, 4), (62.5, 100))
    assert mine.throughput == ((0, 3), (1, 3))


def test_storage_bandwidth_is_given_or_equals_memory() -> None:
    """In the authors' profiles of one GPU both are the same number, in MB/s and GB."""
    assert models()["alexnet"].storage_mb_per_s_per_gpu == 125
    head, row = f"{HEADER.strip()},storage_mb_per_s_per_gpu", "mine,1,4,2,100,8,3,0.1"
    assert parse_models(f"{head}\n{row},7.5\n", {})["mine"].storage_mb_per_s_per_gpu == 7.5
    assert parse_models(f"{head}\n{row},0\n", {})["mine"].storage_mb_per_s_per_gpu == 0
    with pytest.raises(SimulationError, match="line 2, storage_mb_per_s_per_gpu: '-1' is not in 0"):
        parse_models(f"{head}\n{row},-1\n", {})


def test_comments_empty_lines_and_other_columns_are_ignored() -> None:
    text = f"# mine\n\n{CELLS.strip()},note\na,1,20,0.5,x\n\na,2,20,1,y\n"
    assert parse_matrices(text)["a"].throughput == ((0.5,), (1,))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "models: line 1: no column model in ''"),
        ("model,model\n", "models: line 1: column model occurs twice"),
        (HEADER, "models: the table is empty"),
        (f"{HEADER}a,1,3\n", "models: line 2: 3 columns; expected 8"),
        (f"{HEADER},1,3,6,62.5,8,1,1\n", "models: line 2, model: is missing"),
        (f"{HEADER}a,x,3,6,62.5,8,1,1\n", "profiled_gpus: 'x' is not a whole number"),
        (f"{HEADER}a,0,3,6,62.5,8,1,1\n", "profiled_gpus: '0' is not in 1..1024"),
        (f"{HEADER}a,1,3,6,62.5,8,0.5,1\n", "speedup_at_best: '0.5' is not in 1..1e+15"),
        (f"{HEADER}a,1,3,6,62.5,8,nan,1\n", "speedup_at_best: 'nan' is not in"),
        (f"{HEADER}a,1,3,6,62.5,8,1,{'9' * 99}\n", f"iter_time_s: '{'9' * 79}... is not in"),
        (f"{HEADER}a,1,3,6,62.5,8,1,1e400\n", "iter_time_s: '1e400' is not in"),
        (f"{HEADER}a,2,3,6,62.5,8,1,1\n", "models: a: no row with profiled_gpus 1"),
        (f'{HEADER}"a,1\n', "models: line 2: unexpected end of data"),
        (
            f"{HEADER}a,1,3,6,62.5,8,1,1\na,1,3,6,62.5,8,2,1\n",
            "line 3, profiled_gpus: second row for 1 GPUs and 3 CPUs per GPU",
        ),
    ],
)
def test_invalid_tables_of_models_are_rejected_with_line_column_and_value(
    text: str, message: str
) -> None:
    with pytest.raises(SimulationError) as rejected:
        parse_models(text, {})
    assert message in str(rejected.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{CELLS}a,1,20,1\na,1,20,2\n", "matrices: line 3, mem_gb: second row for 1 CPUs"),
        (f"{CELLS}a,1,20,1\na,2,40,2\n", "matrices: a: no row for 1 CPUs and 40 GB"),
        (f"{CELLS}a,0,20,1\n", "matrices: a: cpus: 0.0 is not a positive number"),
        (f"{CELLS}a,1,20,-1\n", "matrices: line 2, rel_throughput: '-1' is not in 0..1e+15"),
    ],
)
def test_invalid_matrices_are_rejected_with_line_column_and_value(text: str, message: str) -> None:
    with pytest.raises(SimulationError) as rejected:
        parse_matrices(text)
    assert message in str(rejected.value)

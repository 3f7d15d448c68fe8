"""The models and traces of Synergy's authors."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path

from gputopo.sensitivity.matrix import SensitivityMatrix
from gputopo_simulate.synergy.joblists import parse_jobs
from gputopo_simulate.synergy.measured import MeasuredModel, parse_matrices, parse_models
from gputopo_simulate.synergy.model import SimulatedCluster, TrainingJob

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
DATA = ROOT / "tests/data/synergy"
SHIPPED = files("gputopo_simulate.synergy") / "data"

FOUR_SERVERS = SimulatedCluster(servers=4, gpus=8, cpus=24, memory_gb=500)
SIXTEEN_SERVERS = SimulatedCluster(servers=16, gpus=8, cpus=24, memory_gb=500)


@cache
def matrices() -> Mapping[str, SensitivityMatrix]:
    return parse_matrices((SHIPPED / "synergy_throughput_matrix.csv").read_text(encoding="utf-8"))


@cache
def models() -> Mapping[str, MeasuredModel]:
    text = (SHIPPED / "synergy_models.csv").read_text(encoding="utf-8")
    return parse_models(text, matrices())


@cache
def trace(name: str) -> tuple[TrainingJob, ...]:
    """Return the 100 jobs of the ``static`` or the ``dynamic`` trace."""
    return parse_jobs((EXAMPLES / f"synergy-{name}.csv").read_text(), models())


def job(
    number: int, model: str = "res18", gpus: int = 1, arrival_seconds: float = 0, hours: float = 1
) -> TrainingJob:
    """Return a job that runs ``hours`` with its proportional share."""
    known = models()[model]
    return TrainingJob(
        number, known, gpus, arrival_seconds, round(hours * 3600 / known.step_seconds)
    )

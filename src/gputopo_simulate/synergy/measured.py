"""Measured training models by name: their sensitivity and the duration of a training step.

The authors of Synergy measured the models of their table 4. ``data/`` contains their results in
two tables. ``synergy_throughput_matrix.csv`` has the complete matrix of each model with one GPU.
``synergy_models.csv`` has rows for 1, 2 and 4 GPUs. Each row has three values: the *best share*
(the least CPUs and memory with full throughput), the speed-up of the best share over the
proportional share, and the duration of a training step with the proportional share.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gputopo.sensitivity.matrix import SensitivityMatrix
from gputopo_simulate.errors import SimulationError
from gputopo_simulate.tables import TableRow, rows

SHARE_GB_PER_GPU: Final = 62.5
"""Memory of the proportional share on the authors' servers (500 GB, 8 GPUs)."""

_DEMANDS: Final = (
    "model",
    "profiled_gpus",
    "cpu_gpu_ratio",
    "best_cpus_per_gpu",
    "best_mem_gb_per_gpu",
    "speedup_at_best",
    "iter_time_s",
)
_STORAGE: Final = "storage_mb_per_s_per_gpu"
_CELLS: Final = ("model", "cpus", "mem_gb", "rel_throughput")
_MAX_GPUS: Final = 1024


@dataclass(frozen=True, slots=True)
class MeasuredProfile:
    """Measurement of a training model for one number of GPUs and one ratio of CPUs to GPUs.

    Attributes:
        cpus_per_gpu: CPUs per GPU of the proportional share.
        best_cpus_per_gpu: the least CPUs with which the model has full throughput.
        best_memory_gb_per_gpu: the least memory with full throughput, in 10^9 bytes.
        speed_up: full throughput, relative to that with the proportional share.
        step_seconds: seconds of a training step with the proportional share.
        storage_mb_per_s_per_gpu: rate of reads from storage at full throughput.
    """

    gpus: int
    cpus_per_gpu: float
    best_cpus_per_gpu: float
    best_memory_gb_per_gpu: float
    speed_up: float
    step_seconds: float
    storage_mb_per_s_per_gpu: float

    def matrix(self) -> SensitivityMatrix:
        """Return the matrix of two points: proportional share (throughput 1) and best share."""
        share = (self.cpus_per_gpu * self.gpus, SHARE_GB_PER_GPU * self.gpus)
        best = (self.best_cpus_per_gpu * self.gpus, self.best_memory_gb_per_gpu * self.gpus)
        cpus, memory_gb = (sorted({one, other}) for one, other in zip(share, best, strict=True))
        known = ((share, 1.0), (best, self.speed_up))
        throughput = [
            [
                max(
                    (speed for (c, m), speed in known if c <= count and m <= amount),
                    default=0.0,
                )
                for amount in memory_gb
            ]
            for count in cpus
        ]
        return SensitivityMatrix.rising(self.gpus, cpus, memory_gb, throughput)


@dataclass(frozen=True, slots=True)
class MeasuredModel:
    """All measurements of one training model.

    Attributes:
        step_seconds: seconds of a training step with throughput 1. In the authors' measurements,
            this is the throughput with the proportional share.
        matrices: measured matrices by number of GPUs.
        storage_mb_per_s_per_gpu: rate of reads from storage for one GPU at full throughput.
        profiles: one for each number of GPUs and ratio of CPUs to GPUs.
    """

    name: str
    step_seconds: float
    matrices: Mapping[int, SensitivityMatrix]
    storage_mb_per_s_per_gpu: float
    profiles: tuple[MeasuredProfile, ...]

    def matrix(self, gpus: int) -> SensitivityMatrix:
        """Return the matrix for a number of GPUs: measured, or :meth:`scaled_matrix`.

        :attr:`SensitivityMatrix.is_scaled` is true for a scaled matrix.
        """
        return self.matrices.get(gpus) or self.scaled_matrix(gpus)

    def scaled_matrix(self, gpus: int) -> SensitivityMatrix:
        """Return the matrix with the fewest GPUs, scaled to this number of GPUs."""
        return self.matrices[min(self.matrices)].scaled_to(gpus)


def parse_matrices(text: str) -> dict[str, SensitivityMatrix]:
    """Parse a table with the columns model, cpus, mem_gb and rel_throughput; return 1-GPU matrices.

    Raises:
        SimulationError: if the table is invalid, or a cell is missing or repeated.
    """
    cells: dict[str, dict[tuple[float, float], float]] = defaultdict(dict)
    for row in rows("matrices", text, _CELLS):
        key = (row.number("cpus", 0), row.number("mem_gb", 0))
        own = cells[row.text("model")]
        if key in own:
            raise row.error("mem_gb", f"second row for {key[0]:g} CPUs and {key[1]:g} GB")
        own[key] = row.number("rel_throughput", 0)
    return {name: _matrix(name, own) for name, own in cells.items()}


def parse_models(text: str, measured: Mapping[str, SensitivityMatrix]) -> dict[str, MeasuredModel]:
    """Return the models of a table with the columns of ``synergy_models.csv``.

    The column ``storage_mb_per_s_per_gpu`` is optional. Its default is the number in the column
    ``best_mem_gb_per_gpu``: in the authors' profiles of one GPU, both columns have equal numbers.

    ``measured`` has complete matrices for one GPU. A model gets its complete matrix only if the
    highest throughput in this matrix is the ``speedup_at_best`` in the model's row for one GPU. All
    other matrices have only two points: the proportional share and the best share.

    Raises:
        SimulationError: if the table is invalid, or a model has no row for one GPU.
    """
    found: dict[str, list[MeasuredProfile]] = defaultdict(list)
    for row in rows("models", text, _DEMANDS, (_STORAGE,)):
        profiles, profile = found[row.text("model")], _profile(row)
        if _key(profile) in map(_key, profiles):
            raise row.error(
                "profiled_gpus",
                f"second row for {profile.gpus} GPUs and {profile.cpus_per_gpu:g} CPUs per GPU",
            )
        profiles.append(profile)
    if not found:
        raise SimulationError("models: the table is empty")
    return {name: _model(name, profiles, measured) for name, profiles in found.items()}


def _matrix(name: str, cells: Mapping[tuple[float, float], float]) -> SensitivityMatrix:
    cpus = sorted({count for count, _ in cells})
    memory_gb = sorted({amount for _, amount in cells})
    missing = [(c, m) for c in cpus for m in memory_gb if (c, m) not in cells]
    if missing:
        count, amount = missing[0]
        raise SimulationError(f"matrices: {name}: no row for {count:g} CPUs and {amount:g} GB")
    throughput = [[cells[count, amount] for amount in memory_gb] for count in cpus]
    try:
        return SensitivityMatrix.rising(1, cpus, memory_gb, throughput)
    except ValueError as error:
        raise SimulationError(f"matrices: {name}: {error}") from None


def _profile(row: TableRow) -> MeasuredProfile:
    least = 1e-6
    best_memory_gb = row.number("best_mem_gb_per_gpu", least)
    return MeasuredProfile(
        gpus=row.whole("profiled_gpus", 1, _MAX_GPUS),
        cpus_per_gpu=row.number("cpu_gpu_ratio", least),
        best_cpus_per_gpu=row.number("best_cpus_per_gpu", least),
        best_memory_gb_per_gpu=best_memory_gb,
        speed_up=row.number("speedup_at_best", 1),
        step_seconds=row.number("iter_time_s", least),
        storage_mb_per_s_per_gpu=row.number(_STORAGE, 0)
        if _STORAGE in row.cells
        else best_memory_gb,
    )


def _key(profile: MeasuredProfile) -> tuple[int, float]:
    return profile.gpus, profile.cpus_per_gpu


def _model(
    name: str, profiles: Sequence[MeasuredProfile], measured: Mapping[str, SensitivityMatrix]
) -> MeasuredModel:
    singles = [profile for profile in profiles if profile.gpus == 1]
    if not singles:
        raise SimulationError(f"models: {name}: no row with profiled_gpus 1")
    reference = min(singles, key=lambda profile: profile.cpus_per_gpu)
    own = measured.get(name)
    matrices = {
        profile.gpus: profile.matrix()
        for profile in profiles
        if profile.cpus_per_gpu == reference.cpus_per_gpu
    }
    if own is not None and own.best == reference.speed_up:
        matrices[1] = own
    storage = reference.storage_mb_per_s_per_gpu
    return MeasuredModel(name, reference.step_seconds, matrices, storage, tuple(profiles))

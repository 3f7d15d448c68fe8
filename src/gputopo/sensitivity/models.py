"""What is known of models by name: their sensitivity, and how long a step takes.

The authors of Synergy measured the models of their table 4; their figures are in
``data/``, as two tables. ``synergy_throughput_matrix.csv`` has the whole matrix of one GPU.
``synergy_models.csv`` has for 1, 2 and 4 GPUs the best share, how much faster the job is
with it than with the proportional one, and the seconds of a step with the latter.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gputopo.sensitivity.matrix import SensitivityMatrix
from gputopo.sensitivity.tables import Row, TableError, rows

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
_MOST_GPUS: Final = 1024


@dataclass(frozen=True, slots=True)
class Profile:
    """What was measured with one GPU count, on servers with one ratio of CPUs to GPUs.

    Attributes:
        cpus_per_gpu: CPUs of the proportional share.
        best_cpus_per_gpu: the least that saturates the model, with the memory beside it.
        best_memory_gb_per_gpu: in 10^9 bytes.
        speed_up: throughput with that over the throughput with the proportional share.
        step_s: seconds of a step with the proportional share.
        storage_mb_per_s_per_gpu: what it reads from storage at its best.
    """

    gpus: int
    cpus_per_gpu: float
    best_cpus_per_gpu: float
    best_memory_gb_per_gpu: float
    speed_up: float
    step_s: float
    storage_mb_per_s_per_gpu: float

    def matrix(self) -> SensitivityMatrix:
        """Return the two points that it knows, relative to the proportional share."""
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
class Model:
    """A model by its name.

    Attributes:
        step_s: seconds of a step where its matrices say 1.
        matrices: by the GPU counts that were measured; 1 is one of them.
        storage_mb_per_s_per_gpu: what it reads from storage at its best with one GPU.
        profiles: one for each GPU count and ratio of CPUs to GPUs.
    """

    name: str
    step_s: float
    matrices: Mapping[int, SensitivityMatrix]
    storage_mb_per_s_per_gpu: float
    profiles: tuple[Profile, ...]

    def matrix(self, gpus: int) -> SensitivityMatrix:
        """Return its sensitivity: as measured with so many GPUs, else scaled from one.

        :attr:`SensitivityMatrix.is_scaled` tells which.
        """
        return self.matrices.get(gpus) or self.matrices[1].scaled_to(gpus)


def parse_matrices(text: str) -> dict[str, SensitivityMatrix]:
    """Return the matrices of a table with columns model, cpus, mem_gb, rel_throughput; 1 GPU.

    Raises:
        TableError: on a table that is none, or that lacks a cell or has it twice.
    """
    cells: dict[str, dict[tuple[float, float], float]] = defaultdict(dict)
    for row in rows("matrices", text, _CELLS):
        key = (row.number("cpus", 0), row.number("mem_gb", 0))
        own = cells[row.text("model")]
        if key in own:
            raise row.refusal("mem_gb", f"a second row for {key[0]:g} CPUs and {key[1]:g} GB")
        own[key] = row.number("rel_throughput", 0)
    return {name: _matrix(name, own) for name, own in cells.items()}


def parse_models(text: str, measured: Mapping[str, SensitivityMatrix]) -> dict[str, Model]:
    """Return the models of a table with the columns of ``synergy_models.csv``.

    One more may be there, ``storage_mb_per_s_per_gpu``; without it a model reads as many MB/s
    as its best has GB, which is how it is in the authors' profiles of one GPU.

    A model that is in ``measured`` has that matrix for one GPU, if the two agree about its
    best; all else is known at two points, the proportional share and the best.

    Raises:
        TableError: on a table that is none, or a model without a row of one GPU.
    """
    found: dict[str, list[Profile]] = defaultdict(list)
    for row in rows("models", text, _DEMANDS, (_STORAGE,)):
        profiles, profile = found[row.text("model")], _profile(row)
        if _key(profile) in map(_key, profiles):
            raise row.refusal(
                "profiled_gpus",
                f"a second row for {profile.gpus} GPUs and {profile.cpus_per_gpu:g} CPUs per GPU",
            )
        profiles.append(profile)
    if not found:
        raise TableError("models: the table is empty")
    return {name: _model(name, profiles, measured) for name, profiles in found.items()}


def _matrix(name: str, cells: Mapping[tuple[float, float], float]) -> SensitivityMatrix:
    cpus = sorted({count for count, _ in cells})
    memory_gb = sorted({amount for _, amount in cells})
    missing = [(c, m) for c in cpus for m in memory_gb if (c, m) not in cells]
    if missing:
        count, amount = missing[0]
        raise TableError(f"matrices: {name}: no row for {count:g} CPUs and {amount:g} GB")
    throughput = [[cells[count, amount] for amount in memory_gb] for count in cpus]
    try:
        return SensitivityMatrix.rising(1, cpus, memory_gb, throughput)
    except ValueError as error:
        raise TableError(f"matrices: {name}: {error}") from None


def _profile(row: Row) -> Profile:
    least = 1e-6
    best_memory_gb = row.number("best_mem_gb_per_gpu", least)
    return Profile(
        gpus=row.whole("profiled_gpus", 1, _MOST_GPUS),
        cpus_per_gpu=row.number("cpu_gpu_ratio", least),
        best_cpus_per_gpu=row.number("best_cpus_per_gpu", least),
        best_memory_gb_per_gpu=best_memory_gb,
        speed_up=row.number("speedup_at_best", 1),
        step_s=row.number("iter_time_s", least),
        storage_mb_per_s_per_gpu=row.number(_STORAGE, 0)
        if _STORAGE in row.cells
        else best_memory_gb,
    )


def _key(profile: Profile) -> tuple[int, float]:
    return profile.gpus, profile.cpus_per_gpu


def _model(
    name: str, profiles: Sequence[Profile], measured: Mapping[str, SensitivityMatrix]
) -> Model:
    singles = [profile for profile in profiles if profile.gpus == 1]
    if not singles:
        raise TableError(f"models: {name}: no row with profiled_gpus 1")
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
    return Model(name, reference.step_s, matrices, storage, tuple(profiles))

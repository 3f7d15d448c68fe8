"""Simulations of Synergy as they are asked for on the command line."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from gputopo.runtime.messages import quoted
from gputopo.sensitivity.models import Model, parse_matrices, parse_models
from gputopo.sizing.orders import ORDERS
from gputopo_cli.shared import words
from gputopo_cli.shared.errors import InputError
from gputopo_cli.shared.files import read_text
from gputopo_simulate.percentiles import interpolated, nearest
from gputopo_simulate.progress import ProgressCallback
from gputopo_simulate.synergy.comparison.solver import SolverMissingError
from gputopo_simulate.synergy.generate import JobLoad, generate
from gputopo_simulate.synergy.joblists import parse_jobs
from gputopo_simulate.synergy.mechanisms import GUARANTEE_SHARES, MECHANISMS
from gputopo_simulate.synergy.model import (
    ROUND_SECONDS,
    FinishedTrainingJob,
    SimulatedCluster,
    TrainingJob,
)
from gputopo_simulate.synergy.released import program
from gputopo_simulate.synergy.report import (
    JobHours,
    RunFigures,
    job_hours,
    logged_hours,
    run_figures,
)
from gputopo_simulate.synergy.run import SynergySettings, run, sensitivity

_MOST_JOBS: Final = 100_000
_MOST_SERVERS: Final = 10_000
_MOST_GPUS: Final = 64
_LEAST: Final = 0.001
_MOST: Final = 1_000_000
_SPLIT_PARTS: Final = 3


@dataclass(frozen=True, slots=True)
class Course:
    """The options that ``synergy simulate`` and ``synergy compare`` share, as they stand."""

    jobs: str | None
    generate: str | None
    jobs_per_hour: str
    split: str
    seed: str
    models: str | None
    servers: str
    gpus: str
    cpus: str
    memory_gb: str
    storage_mb_per_s: str | None
    decide: str
    monitor: str | None


@dataclass(frozen=True, slots=True)
class Monitored:
    """Jobs whose figures are told: ids from ``first`` to before ``last``; all if None."""

    first: int | None
    last: int | None

    def has(self, number: int) -> bool:
        """Return whether the job of this id is one of them."""
        return self.first is None or self.last is None or self.first <= number < self.last


@dataclass(frozen=True, slots=True)
class Run:
    """One run and its figures; as released both are those of that program's log.

    Attributes:
        finished: by id.
        monitored: those that the figures are of.
    """

    order: str
    allocation: str
    as_released: bool
    finished: tuple[JobHours, ...]
    monitored: tuple[JobHours, ...]
    figures: RunFigures


@dataclass(frozen=True, slots=True)
class Stage:
    """A course made ready: everything was read and found good.

    Attributes:
        in_words: what is run, for people.
    """

    cluster: SimulatedCluster
    jobs: tuple[TrainingJob, ...]
    round_seconds: float | None
    monitored: Monitored
    in_words: str

    def run(
        self,
        order: str,
        allocation: str,
        *,
        as_released: bool,
        progress: ProgressCallback | None = None,
    ) -> Run:
        """Run the jobs.

        Raises:
            InputError: as released there is no such allocation.
            SynergyError: on jobs that the cluster cannot run.
        """
        if as_released:
            finished = self._as_released(order, allocation, progress)
        else:
            finished = self._as_asked(order, allocation, progress)
        in_hours, percentile = (logged_hours, nearest) if as_released else (job_hours, interpolated)
        by_id = tuple(sorted(map(in_hours, finished)))
        monitored = tuple(job for job in by_id if self.monitored.has(job.id))
        found = run_figures(monitored, percentile)
        return Run(order, allocation, as_released, by_id, monitored, found)

    def _as_asked(
        self, order: str, allocation: str, progress: ProgressCallback | None
    ) -> tuple[FinishedTrainingJob, ...]:
        settings = SynergySettings(
            order=ORDERS[order],
            mechanism=MECHANISMS[allocation],
            runnable_only=allocation in GUARANTEE_SHARES,
            round_seconds=self.round_seconds,
        )
        try:
            return run(self.cluster, self.jobs, settings, progress)
        except SolverMissingError as error:
            raise InputError(f"allocation: {allocation}: {error}") from None

    def _as_released(
        self, order: str, allocation: str, progress: ProgressCallback | None
    ) -> tuple[FinishedTrainingJob, ...]:
        if allocation not in program.MECHANISMS:
            raise InputError(
                f"allocation: {allocation} is not there with --as-released, only"
                f" {', '.join(program.MECHANISMS)}"
            )
        if self.round_seconds is None:
            raise InputError("decide: events is not there with --as-released, which has rounds")
        if self.cluster.storage_mb_per_s < math.inf:
            raise InputError("storage-mb-per-s: not there with --as-released, where it never lacks")
        return program.run_as_released(self.cluster, self.jobs, order, allocation, progress)

    @property
    def scaled(self) -> tuple[str, ...]:
        """Models and GPU counts that were not measured but scaled from one GPU, in words."""
        kinds = {(job.model.name, job.gpus): job for job in self.jobs}
        return tuple(
            f"{name} with {gpus} GPUs"
            for (name, gpus), job in sorted(kinds.items())
            if sensitivity(job, self.cluster).is_scaled
        )


def stage(course: Course) -> Stage:
    """Read what a course names.

    Raises:
        InputError: on options that are no good or do not go together.
        TableError: on a list of jobs or models that is no good.
        SynergyError: on a list without a job, or a split that is none.
    """
    models = _models(course.models)
    jobs, jobs_in_words = _jobs(course, models)
    cluster = SimulatedCluster(
        servers=words.whole_number(course.servers, "servers", 1, _MOST_SERVERS),
        gpus=words.whole_number(course.gpus, "gpus", 1, _MOST_GPUS),
        cpus=_number(course.cpus, "cpus"),
        memory_gb=_number(course.memory_gb, "memory-gb"),
        storage_mb_per_s=_storage(course.storage_mb_per_s),
    )
    ready = Stage(
        cluster=cluster,
        jobs=jobs,
        round_seconds=ROUND_SECONDS if course.decide == "rounds" else None,
        monitored=_monitored(course.monitor),
        in_words=f"{jobs_in_words} on {_in_words(cluster)}",
    )
    if not any(ready.monitored.has(job.id) for job in jobs):
        raise InputError(f"monitor: {course.monitor} has none of the jobs")
    return ready


def _in_words(cluster: SimulatedCluster) -> str:
    amounts = [f"{cluster.gpus} GPUs", f"{cluster.cpus:g} CPUs", f"{cluster.memory_gb:g} GB"]
    if cluster.storage_mb_per_s < math.inf:
        amounts.append(f"{cluster.storage_mb_per_s:g} MB/s")
    return f"{cluster.servers} servers of {', '.join(amounts[:-1])} and {amounts[-1]}"


def _models(path: str | None) -> Mapping[str, Model]:
    shipped = files("gputopo.sensitivity") / "data"
    matrices = (shipped / "synergy_throughput_matrix.csv").read_text(encoding="utf-8")
    if path is None:
        text = (shipped / "synergy_models.csv").read_text(encoding="utf-8")
    else:
        text = read_text(path, "models")
    return parse_models(text, parse_matrices(matrices))


def _jobs(course: Course, models: Mapping[str, Model]) -> tuple[tuple[TrainingJob, ...], str]:
    if (course.jobs is None) == (course.generate is None):
        raise InputError("jobs: either --jobs FILE or --generate N is needed")
    if course.jobs is not None:
        jobs = parse_jobs(read_text(course.jobs, "jobs"), models)
        return jobs, f"{len(jobs)} jobs of {course.jobs}"
    load = JobLoad(
        jobs=words.whole_number(course.generate or "", "generate", 1, _MOST_JOBS),
        jobs_per_hour=_number(course.jobs_per_hour, "jobs-per-hour"),
        split=_split(course.split),
    )
    seed = words.whole_number(course.seed, "seed")
    in_words = f"{load.jobs} jobs of seed {seed}, {load.jobs_per_hour:g} an hour"
    return generate(seed, load, models), in_words


def _split(text: str) -> tuple[int, int, int]:
    parts = text.split(",")
    if len(parts) != _SPLIT_PARTS:
        raise InputError(f"split: {quoted(text)} is not three percentages, as 20,70,10")
    image, language, speech = (words.whole_number(part.strip(), "split", 0, 100) for part in parts)
    if image + language + speech != 100:  # noqa: PLR2004 - per cent
        raise InputError(f"split: {text} is {image + language + speech} per cent, not 100")
    return image, language, speech


def _monitored(text: str | None) -> Monitored:
    if text is None:
        return Monitored(None, None)
    first, colon, last = text.partition(":")
    if not colon:
        raise InputError(f"monitor: {quoted(text)} is not FIRST:LAST, as 4000:5000")
    found = words.whole_number(first, "monitor"), words.whole_number(last, "monitor")
    return Monitored(*found)


def _storage(text: str | None) -> float:
    return math.inf if text is None else _number(text, "storage-mb-per-s")


def _number(text: str, field: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise InputError(f"{field}: {quoted(text)} is not a number") from None
    if not _LEAST <= value <= _MOST:
        raise InputError(f"{field}: {quoted(text)} is not in {_LEAST:g}..{_MOST}")
    return value

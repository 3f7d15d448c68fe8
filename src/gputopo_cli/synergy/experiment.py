"""Load the inputs of Synergy's simulator, and run it with any queue order and mechanism."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import NamedTuple

from gputopo.runtime.messages import quoted
from gputopo.sizing.orders import ORDERS
from gputopo_cli.shared.arguments import parse_integer, parse_percentages, reject_generator_options
from gputopo_cli.shared.errors import InputError
from gputopo_cli.shared.files import read_text
from gputopo_cli.synergy.options import QueueOptions
from gputopo_simulate.percentiles import interpolated, nearest
from gputopo_simulate.progress import ProgressCallback
from gputopo_simulate.synergy.active import sensitivity
from gputopo_simulate.synergy.comparison.solver import SolverMissingError
from gputopo_simulate.synergy.generate import JobLoad, generate
from gputopo_simulate.synergy.joblists import parse_jobs
from gputopo_simulate.synergy.learnt import parse_learnt_models
from gputopo_simulate.synergy.measured import MeasuredModel, parse_matrices, parse_models
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
from gputopo_simulate.synergy.run import SynergySettings, run


class RunRequest(NamedTuple):
    """The order and mechanism of a run, and whether it simulates Synergy's released program."""

    order: str
    allocation: str
    as_released: bool

    @property
    def name(self) -> str:
        """The mechanism, with ", as released" if the run simulates Synergy's released program."""
        return f"{self.allocation}{', as released' if self.as_released else ''}"


def list_runs(
    orders: Iterable[str], allocations: Iterable[str], *, as_released: bool
) -> list[RunRequest]:
    """Return a run per order and mechanism; ``as_released`` adds runs of Synergy's own program."""
    return [
        RunRequest(order, allocation, released)
        for order in orders
        for allocation in allocations
        for released in ((False, True) if as_released else (False,))
        if not released or allocation in program.MECHANISMS
    ]


@dataclass(frozen=True, slots=True)
class CompletedRun:
    """One run with its statistics.

    Attributes:
        finished: all jobs, by ID.
        monitored: the jobs whose statistics are shown.
    """

    request: RunRequest
    finished: tuple[JobHours, ...]
    monitored: tuple[JobHours, ...]
    figures: RunFigures


@dataclass(frozen=True, slots=True)
class QueueExperiment:
    """A simulation whose inputs are loaded and valid.

    Attributes:
        round_seconds: seconds between two decisions; None to decide when a job arrives or ends.
        monitored: IDs of the jobs whose statistics are shown.
        description: what runs, in words.
    """

    cluster: SimulatedCluster
    jobs: tuple[TrainingJob, ...]
    round_seconds: float | None
    monitored: frozenset[int]
    description: str

    def run(self, request: RunRequest, report: ProgressCallback | None = None) -> CompletedRun:
        """Simulate the jobs.

        Raises:
            InputError: if Synergy's released program does not support the request, or ``opt`` needs
                a solver that is not installed.
            SimulationError: if the cluster cannot run the jobs.
        """
        if request.as_released:
            finished = self._run_as_released(request, report)
            by_id = tuple(sorted(map(logged_hours, finished)))
        else:
            by_id = tuple(sorted(map(job_hours, self._run(request, report))))
        monitored = tuple(job for job in by_id if job.id in self.monitored)
        percentile = nearest if request.as_released else interpolated
        return CompletedRun(request, by_id, monitored, run_figures(monitored, percentile))

    def _run(
        self, request: RunRequest, report: ProgressCallback | None
    ) -> tuple[FinishedTrainingJob, ...]:
        settings = SynergySettings(
            order=ORDERS[request.order],
            mechanism=MECHANISMS[request.allocation],
            runnable_only=request.allocation in GUARANTEE_SHARES,
            round_seconds=self.round_seconds,
        )
        try:
            return run(self.cluster, self.jobs, settings, report)
        except SolverMissingError as error:
            raise InputError(f"allocation: {request.allocation}: {error}") from None

    def _run_as_released(
        self, request: RunRequest, report: ProgressCallback | None
    ) -> tuple[FinishedTrainingJob, ...]:
        order, allocation, _ = request
        if allocation not in program.MECHANISMS:
            raise InputError(
                f"allocation: {allocation} is not available with --as-released, only"
                f" {', '.join(program.MECHANISMS)}"
            )
        if self.round_seconds is None:
            raise InputError("decide: events is not available with --as-released, only rounds")
        if self.cluster.storage_mb_per_s < math.inf:
            raise InputError("storage-mb-per-s: not available with --as-released")
        if not all(job.model.profiles for job in self.jobs):
            raise InputError("profiles: not available with --as-released")
        return program.run_as_released(self.cluster, self.jobs, order, allocation, report)

    @property
    def scaled(self) -> tuple[str, ...]:
        """Jobs such as ``res50 with 4 GPUs`` whose throughput is scaled from that of 1 GPU."""
        kinds = {(job.model.name, job.gpus): job for job in self.jobs}
        return tuple(
            f"{name} with {gpus} GPUs"
            for (name, gpus), job in sorted(kinds.items())
            if sensitivity(job, self.cluster).is_scaled
        )


def prepare_experiment(options: QueueOptions) -> QueueExperiment:
    """Load models and jobs.

    Raises:
        InputError: if options are invalid or contradict each other.
        SimulationError: if the list of jobs or models is invalid, or there is no job.
    """
    jobs, description = _load_jobs(options, _load_models(options))
    storage = options.storage_mb_per_s
    cluster = SimulatedCluster(
        servers=options.servers,
        gpus=options.gpus,
        cpus=options.cpus,
        memory_gb=options.memory_gb,
        storage_mb_per_s=math.inf if storage is None else storage,
    )
    return QueueExperiment(
        cluster=cluster,
        jobs=jobs,
        round_seconds=ROUND_SECONDS if options.decide == "rounds" else None,
        monitored=_select_monitored(options.monitor, jobs),
        description=f"{description} on {_describe(cluster)}",
    )


def _describe(cluster: SimulatedCluster) -> str:
    amounts = [f"{cluster.gpus} GPUs", f"{cluster.cpus:g} CPUs", f"{cluster.memory_gb:g} GB"]
    if cluster.storage_mb_per_s < math.inf:
        amounts.append(f"{cluster.storage_mb_per_s:g} MB/s")
    return f"{cluster.servers} servers of {', '.join(amounts[:-1])} and {amounts[-1]}"


def _load_models(options: QueueOptions) -> Mapping[str, MeasuredModel]:
    if options.profiles is not None:
        if options.models is not None:
            raise InputError("profiles: cannot be combined with --models")
        return parse_learnt_models(read_text(options.profiles, "profiles"))
    data = files("gputopo_simulate.synergy") / "data"
    matrices = (data / "synergy_throughput_matrix.csv").read_text(encoding="utf-8")
    if options.models is None:
        text = (data / "synergy_models.csv").read_text(encoding="utf-8")
    else:
        text = read_text(options.models, "models")
    return parse_models(text, parse_matrices(matrices))


def _load_jobs(
    options: QueueOptions, models: Mapping[str, MeasuredModel]
) -> tuple[tuple[TrainingJob, ...], str]:
    if options.jobs is not None and options.generate is None:
        reject_generator_options(
            seed=options.seed, jobs_per_hour=options.jobs_per_hour, split=options.split
        )
        jobs = parse_jobs(read_text(options.jobs, "jobs"), models)
        return jobs, f"{len(jobs)} jobs of {options.jobs}"
    if options.jobs is None and options.generate is not None:
        rate = 9 if options.jobs_per_hour is None else options.jobs_per_hour
        split = parse_percentages("20,70,10" if options.split is None else options.split, "split")
        load = JobLoad(jobs=options.generate, jobs_per_hour=rate, split=split)
        seed = 42 if options.seed is None else options.seed
        description = f"{options.generate} jobs of seed {seed}, {rate:g} an hour"
        return generate(seed, load, models), description
    raise InputError("jobs: either --jobs FILE or --generate N is required")


def _select_monitored(text: str | None, jobs: Iterable[TrainingJob]) -> frozenset[int]:
    """Return the job IDs in a range such as ``4000:5000``, which includes 4000 but not 5000."""
    ids = frozenset(job.id for job in jobs)
    if text is None:
        return ids
    first, colon, last = text.partition(":")
    if not colon:
        raise InputError(f"monitor: {quoted(text)} is not FIRST:LAST, for example 4000:5000")
    least, end = parse_integer(first, "monitor"), parse_integer(last, "monitor")
    found = frozenset(number for number in ids if least <= number < end)
    if not found:
        raise InputError(f"monitor: {text}: no job has an ID in this range")
    return found

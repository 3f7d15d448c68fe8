"""Run simulations of the SC '17 paper and write their jobs and statistics (``gputopo sc17``)."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from gputopo.topology.model import indices_of
from gputopo_cli.sc17.experiment import CaffeExperiment, prepare_experiment
from gputopo_cli.sc17.options import CaffeOptions
from gputopo_cli.shared import output
from gputopo_cli.shared.progress import progress_bar
from gputopo_simulate.sc17.model import FinishedCaffeJob, Sc17Result
from gputopo_simulate.sc17.released import program
from gputopo_simulate.sc17.report import decision_times, figures, figures_document, job_document

_COLUMNS = ("MAKESPAN s>", "SLOW JOBS>", "SLOWDOWN %>", "MEAN WAIT s>", "MAX WAIT s>")
_TIMES = ("DECISION p50 ms>", "p99 ms>")


def write_simulation(
    options: CaffeOptions, policy: str, form: str, output_file: str | None, *, as_released: bool
) -> None:
    """Simulate the jobs and write the result."""
    experiment = prepare_experiment(options, as_released=as_released)
    with progress_bar() as report:
        run = experiment.run_as_released if as_released else experiment.run
        result = run(policy, report)
    if form == "json":
        document = {
            "runs": experiment.description,
            "asReleased": as_released,
            **figures_document(result),
            "jobs": [job_document(job) for job in result.jobs],
        }
        output.write_json(document, output_file)
    else:
        name = _name(policy, as_released=as_released)
        output.show(_simulation_lines(experiment, name, result), output_file)


def write_comparison(
    options: CaffeOptions,
    policies: Sequence[str],
    form: str,
    output_file: str | None,
    *,
    as_released: bool,
) -> None:
    """Simulate all policies, and write the statistics."""
    experiment = prepare_experiment(options, as_released=as_released)
    released = [name for name in policies if as_released and name in program.POLICIES]
    with progress_bar() as report:
        # First the released program, which rejects some of the options.
        as_program = [(name, True, experiment.run_as_released(name, report)) for name in released]
        runs = [(name, False, experiment.run(name, report)) for name in policies] + as_program
    if form == "json":
        results = [
            {"asReleased": is_released, **figures_document(run)} for _, is_released, run in runs
        ]
        document = {"runs": experiment.description, "results": results}
        output.write_json(document, output_file)
    else:
        named = [(_name(name, as_released=is_released), run) for name, is_released, run in runs]
        output.show(_comparison_lines(experiment, named), output_file)


def _name(policy: str, *, as_released: bool) -> str:
    return f"{policy}{', as released' if as_released else ''}"


def _simulation_lines(
    experiment: CaffeExperiment, name: str, result: Sc17Result
) -> Iterator[RenderableType]:
    yield Text(f"{experiment.description}, {name}", "bold")
    yield Text()
    columns = ("JOB>", "MACHINE>", "GPUS", "ARRIVAL s>", "START s>", "END s>", "SLOWDOWN %>")
    rows = map(_job_cells, result.jobs)
    yield output.table(*columns, "UTILITY FOR JOB>", "FOR CLUSTER>", rows=rows)
    yield Text()
    yield output.table(*_COLUMNS, *_time_columns([result]), rows=[_cells(result)])


def _job_cells(finished: FinishedCaffeJob) -> tuple[str, ...]:
    times = (finished.job.arrival, finished.start, finished.end)
    return (
        str(finished.job.id),
        str(finished.machine),
        ", ".join(map(str, indices_of(finished.gpus))),
        *(f"{seconds:.1f}" for seconds in times),
        _percent(finished.slowdown),
        f"{finished.job_utility:.3f}",
        f"{finished.utility:.3f}",
    )


def _comparison_lines(
    experiment: CaffeExperiment, runs: Sequence[tuple[str, Sc17Result]]
) -> Iterator[RenderableType]:
    yield Text(experiment.description, "bold")
    yield Text("slow: over 10 % slower than alone on the best GPUs")
    yield Text()
    columns = ("POLICY", *_COLUMNS, *_time_columns([run for _, run in runs]))
    yield output.table(*columns, rows=[(name, *_cells(run)) for name, run in runs])


def _time_columns(runs: Sequence[Sc17Result]) -> tuple[str, ...]:
    return _TIMES if any(run.decision_seconds for run in runs) else ()


def _cells(result: Sc17Result) -> tuple[str, ...]:
    found, times = figures(result.jobs), decision_times(result)
    measured = () if times is None else (f"{times.p50_ms:.3f}", f"{times.p99_ms:.3f}")
    return (
        f"{found.makespan:.1f}",
        str(found.slow_jobs),
        _percent(found.mean_slowdown),
        f"{found.mean_wait:.1f}",
        f"{found.max_wait:.1f}",
        *measured,
    )


def _percent(slowdown: float) -> str:
    """Return a slowdown as a cell; rounding can make it slightly less than 0."""
    return f"{max(0.0, 100 * slowdown):.1f}"

"""Run simulations of Synergy and write their jobs and statistics (``gputopo synergy``)."""

from collections.abc import Iterator, Sequence
from dataclasses import astuple

from rich.console import RenderableType
from rich.text import Text

from gputopo_cli.shared import output
from gputopo_cli.shared.output import format_number
from gputopo_cli.shared.progress import progress_bar
from gputopo_cli.synergy.experiment import (
    CompletedRun,
    QueueExperiment,
    RunRequest,
    prepare_experiment,
)
from gputopo_cli.synergy.options import QueueOptions
from gputopo_simulate.synergy.report import figures_document, job_document

_COLUMNS = ("MAKESPAN>", "MEAN JCT>", "MEDIAN>", "99 %>")


def write_simulation(
    options: QueueOptions, request: RunRequest, form: str, output_file: str | None
) -> None:
    """Simulate the jobs and write the result."""
    experiment = prepare_experiment(options)
    with progress_bar() as report:
        run = experiment.run(request, report)
    if form == "json":
        document = {
            "jobs": [job_document(job) for job in run.finished],
            **_statistics_document(run),
            "scaled": [] if request.as_released else list(experiment.scaled),
        }
        output.write_json(document, output_file)
    else:
        output.show(_simulation_lines(experiment, run), output_file)


def write_comparison(
    options: QueueOptions,
    requests: Sequence[RunRequest],
    plots: str | None,
    form: str,
    output_file: str | None,
) -> None:
    """Simulate all queue orders and mechanisms, write the statistics and, if requested, plots."""
    experiment = prepare_experiment(options)
    with progress_bar() as report:
        runs = [experiment.run(request, report) for request in requests]
    if plots is not None:
        from gputopo_cli.synergy.plots import plot_completion_times

        plot_completion_times(runs, experiment.description, plots)
    if form == "json":
        document = {
            "runs": experiment.description,
            "scaled": list(experiment.scaled),
            "results": [_statistics_document(run) for run in runs],
        }
        output.write_json(document, output_file)
    else:
        output.show(_comparison_lines(experiment, runs), output_file)


def _statistics_document(run: CompletedRun) -> dict[str, object]:
    return {
        "order": run.request.order,
        "allocation": run.request.allocation,
        "asReleased": run.request.as_released,
        "monitored": len(run.monitored),
        **figures_document(run.figures),
    }


def _simulation_lines(experiment: QueueExperiment, run: CompletedRun) -> Iterator[RenderableType]:
    yield Text(f"{experiment.description}, {run.request.order}, {run.request.name}", "bold")
    yield Text()
    rows = [
        (str(job.id), *map(format_number, (job.arrival, job.finish, job.jct)))
        for job in run.finished
    ]
    yield output.table("JOB>", "ARRIVAL h>", "FINISH h>", "JCT h>", rows=rows)
    yield Text()
    yield output.table(*_COLUMNS, rows=[_cells(run)])
    yield from _notes(experiment, [run])


def _comparison_lines(
    experiment: QueueExperiment, runs: Sequence[CompletedRun]
) -> Iterator[RenderableType]:
    yield Text(experiment.description, "bold")
    yield Text(f"hours, over {len(runs[0].monitored)} jobs")
    yield Text()
    columns = ("ORDER", "ALLOCATION", *_COLUMNS, "SPEED-UP>")
    yield output.table(*columns, rows=_comparison_rows(runs))
    yield from _notes(experiment, runs)


def _comparison_rows(runs: Sequence[CompletedRun]) -> Iterator[tuple[str, ...]]:
    """Yield a row per run. It ends with the speed-up over the first run with the same order."""
    first: dict[tuple[str, bool], float] = {}
    for run in runs:
        request, mean_jct = run.request, run.figures.mean_jct
        base = first.setdefault((request.order, request.as_released), mean_jct)
        yield request.order, request.name, *_cells(run), f"{base / mean_jct:.2f}"


def _cells(run: CompletedRun) -> tuple[str, ...]:
    return tuple(f"{hours:.2f}" for hours in astuple(run.figures))


def _notes(experiment: QueueExperiment, runs: Sequence[CompletedRun]) -> Iterator[RenderableType]:
    if experiment.scaled and not all(run.request.as_released for run in runs):
        yield Text(f"\nscaled from one GPU, not measured: {', '.join(experiment.scaled)}")

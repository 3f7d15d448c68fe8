"""Run one simulation and write its jobs and statistics (``gputopo simulate``)."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from gputopo.placement.model import PolicyName
from gputopo_cli.shared import output
from gputopo_cli.shared.arguments import to_word
from gputopo_cli.shared.errors import InputError
from gputopo_cli.shared.output import format_number
from gputopo_cli.shared.progress import progress_bar
from gputopo_cli.simulate.experiment import prepare_experiment
from gputopo_cli.simulate.options import LiveSimulationOptions, SimulationOptions
from gputopo_cli.simulate.tables import quartile_table
from gputopo_simulate.mapa.model import FinishedSimulatedJob, SimulationResult
from gputopo_simulate.mapa.report import document
from gputopo_simulate.mapa.summary import JobGroup, summarize


def write_simulation(
    options: SimulationOptions,
    live: LiveSimulationOptions,
    seed: int | None,
    policy: PolicyName,
    form: str,
    output_file: str | None,
) -> None:
    """Simulate the jobs and write the result.

    Raises:
        InputError: if an option is invalid, or is only valid with --live.
    """
    if live != LiveSimulationOptions():
        raise InputError("live: --assume-seconds and --context need --live")
    experiment = prepare_experiment(options, None if seed is None else (seed,))
    with progress_bar() as report:
        result = experiment.run(experiment.lists[0], policy, report)
    if form == "json":
        output.write_json({**document(result), "policy": to_word(policy)}, output_file)
    else:
        output.show(result_lines(experiment.description, result), output_file)


def result_lines(description: str, result: SimulationResult) -> Iterator[RenderableType]:
    """Yield the jobs and statistics of a run, with a text about its inputs."""
    yield Text(f"{description}, policy {to_word(result.policy)}", "bold")
    yield Text()
    columns = ("JOB", "NODE", "GPUS", "START>", "END>", "SENSITIVE", "EFFECTIVE GB/s>")
    yield output.table(*columns, rows=map(_row, result.jobs))
    yield Text()
    groups = (JobGroup.SENSITIVE, JobGroup.INSENSITIVE)
    rows = [(f"{group} jobs", summarize(result, group).effective_gb_per_s) for group in groups]
    yield quartile_table("EFFECTIVE GB/s", rows)
    yield Text()
    total = summarize(result)
    makespan, throughput = format_number(total.makespan), format_number(total.throughput)
    yield Text(f"makespan {makespan}, {throughput} jobs per unit of time")


def _row(finished: FinishedSimulatedJob) -> tuple[str, ...]:
    return (
        str(finished.job.id),
        finished.node,
        ",".join(map(str, finished.gpus)),
        format_number(finished.start),
        format_number(finished.end),
        "yes" if finished.job.sensitive else "no",
        output.format_gb_per_s(finished.effective_mb_per_s),
    )

"""What ``gputopo simulate`` says."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from gputopo.placement.model import PolicyName
from gputopo_cli.shared import figures, output, words
from gputopo_cli.simulate.setup import Course, Stage, progress, stage
from gputopo_simulate.mapa.model import FinishedSimulatedJob, SimulationResult
from gputopo_simulate.mapa.report import document
from gputopo_simulate.mapa.summary import JobGroup, summarize


def simulate(
    course: Course, seed: str, policy: PolicyName, form: str, output_file: str | None
) -> None:
    """Write what becomes of each job."""
    ready = stage(course, (words.whole_number(seed, "seed"),))
    with progress() as tell:
        result = ready.run(ready.lists[0], policy, tell)
    if form == "json":
        output.write_json({**document(result), "policy": words.word(policy)}, output_file)
    else:
        output.show(_lines(ready, result), output_file)


def _lines(ready: Stage, result: SimulationResult) -> Iterator[RenderableType]:
    yield Text(f"{ready.in_words}, policy {words.word(result.policy)}", "bold")
    yield Text()
    columns = ("JOB", "NODE", "GPUS", "START>", "END>", "SENSITIVE", "EFFECTIVE GB/s>")
    yield output.table(*columns, rows=map(_row, result.jobs))
    yield Text()
    yield figures.distribution("EFFECTIVE GB/s", _effective(result))
    yield Text()
    whole = summarize(result)
    makespan, throughput = figures.short(whole.makespan), figures.short(whole.throughput)
    yield Text(f"makespan {makespan}, {throughput} jobs per unit of time")


def _row(finished: FinishedSimulatedJob) -> tuple[str, ...]:
    return (
        str(finished.job.id),
        finished.node,
        ",".join(map(str, finished.gpus)),
        figures.short(finished.start),
        figures.short(finished.end),
        "yes" if finished.job.sensitive else "no",
        output.figure(finished.effective_mb_per_s),
    )


def _effective(result: SimulationResult) -> Iterator[tuple[str, figures.Quartiles | None]]:
    for group in (JobGroup.SENSITIVE, JobGroup.INSENSITIVE):
        yield f"{group} jobs", summarize(result, group).effective_gb_per_s

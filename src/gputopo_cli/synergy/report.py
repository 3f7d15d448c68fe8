"""What ``gputopo synergy`` says."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import RenderableType
from rich.text import Text

from gputopo_cli.shared import figures, output
from gputopo_cli.simulate.setup import progress
from gputopo_cli.synergy.setup import Course, Run, Stage, stage
from gputopo_simulate.synergy.released import program
from gputopo_simulate.synergy.report import figures_document, job_document

_COLUMNS = ("MAKESPAN>", "MEAN JCT>", "MEDIAN>", "99 %>")


@dataclass(frozen=True, slots=True)
class Choice:
    """What ``synergy compare`` runs."""

    orders: tuple[str, ...]
    allocations: tuple[str, ...]
    as_released: bool

    def runs(self) -> Iterator[tuple[str, str, bool]]:
        """Yield order, allocation, and whether as released."""
        for order in self.orders:
            for allocation in self.allocations:
                yield order, allocation, False
                if self.as_released and allocation in program.MECHANISMS:
                    yield order, allocation, True


def simulate(
    course: Course,
    order: str,
    allocation: str,
    *,
    as_released: bool,
    form: str,
    output_file: str | None,
) -> None:
    """Write what becomes of each job."""
    ready = stage(course)
    with progress() as tell:
        done = ready.run(order, allocation, as_released=as_released, progress=tell)
    if form == "json":
        output.write_json(_document(ready, done), output_file)
    else:
        output.show(_lines(ready, done), output_file)


def compare(
    course: Course, choice: Choice, *, plots: str | None, form: str, output_file: str | None
) -> None:
    """Write the figures of several runs side by side, and draw them if asked."""
    ready = stage(course)
    with progress() as tell:
        runs = [
            ready.run(order, allocation, as_released=as_released, progress=tell)
            for order, allocation, as_released in choice.runs()
        ]
    if plots is not None:
        from gputopo_cli.synergy.plots import draw

        draw(runs, ready.in_words, plots)
    if form == "json":
        document = {"runs": ready.in_words, "scaled": list(ready.scaled)}
        output.write_json(document | {"results": [_figures(run) for run in runs]}, output_file)
    else:
        output.show(_comparison(ready, runs), output_file)


def _document(ready: Stage, done: Run) -> dict[str, object]:
    return {
        "jobs": [job_document(job) for job in done.finished],
        **_figures(done),
        "scaled": [] if done.as_released else list(ready.scaled),
    }


def _figures(done: Run) -> dict[str, object]:
    return {
        "order": done.order,
        "allocation": done.allocation,
        "asReleased": done.as_released,
        "monitored": len(done.monitored),
        **figures_document(done.figures),
    }


def _lines(ready: Stage, done: Run) -> Iterator[RenderableType]:
    yield Text(f"{ready.in_words}, {_name(done)}", "bold")
    yield Text()
    yield output.table("JOB>", "ARRIVAL h>", "FINISH h>", "JCT h>", rows=_rows(done))
    yield Text()
    yield output.table(*_COLUMNS, rows=[_cells(done)])
    yield from _notes(ready, [done])


def _rows(done: Run) -> Iterator[tuple[str, ...]]:
    for job in done.finished:
        hours = (job.arrival, job.finish, job.jct)
        yield str(job.id), *map(figures.short, hours)


def _comparison(ready: Stage, runs: Sequence[Run]) -> Iterator[RenderableType]:
    yield Text(ready.in_words, "bold")
    yield Text(f"hours, over {len(runs[0].monitored)} jobs")
    yield Text()
    yield output.table("ORDER", "ALLOCATION", *_COLUMNS, "SPEED-UP>", rows=_compared(runs))
    yield from _notes(ready, runs)


def _compared(runs: Sequence[Run]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each run; its mean time is compared with that of the order's first."""
    first: dict[tuple[str, bool], float] = {}
    for run in runs:
        base = first.setdefault((run.order, run.as_released), run.figures.mean_jct)
        name = f"{run.allocation}{', as released' if run.as_released else ''}"
        yield run.order, name, *_cells(run), f"{base / run.figures.mean_jct:.2f}"


def _cells(run: Run) -> tuple[str, ...]:
    found = run.figures
    return tuple(
        f"{hours:.2f}"
        for hours in (found.makespan, found.mean_jct, found.median_jct, found.p99_jct)
    )


def _notes(ready: Stage, runs: Sequence[Run]) -> Iterator[RenderableType]:
    if ready.scaled and not all(run.as_released for run in runs):
        yield Text(f"\nscaled from one GPU, not measured: {', '.join(ready.scaled)}")


def _name(done: Run) -> str:
    return f"{done.order}, {done.allocation}{', as released' if done.as_released else ''}"

"""Simulate policies on the same job lists and write their statistics (``gputopo sharing``)."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from gputopo_cli.shared import output
from gputopo_cli.shared.changes import format_change
from gputopo_cli.shared.progress import progress_bar
from gputopo_cli.sharing.options import SharingOptions
from gputopo_cli.sharing.pairs import find_models, load_pairs
from gputopo_simulate.progress import ProgressCallback
from gputopo_simulate.sharing.generate import OneGpuLoad, generate
from gputopo_simulate.sharing.measured import MeasuredPairs
from gputopo_simulate.sharing.model import SharingResult
from gputopo_simulate.sharing.policies import PolicySettings
from gputopo_simulate.sharing.report import (
    PolicyComparison,
    compare,
    comparison_document,
)
from gputopo_simulate.sharing.run import SharingRunSettings, run


def write_comparison(
    options: SharingOptions,
    policies: Sequence[str],
    plots: str | None,
    form: str,
    output_file: str | None,
) -> None:
    """Simulate all policies on all job lists, write the statistics and, if requested, a plot."""
    pairs = load_pairs(options.pairs)
    models = find_models(options.models, pairs)
    with progress_bar() as report:
        runs = [
            list(_runs(options, pairs, models, policies, seed, report))
            for seed in range(1, options.seeds + 1)
        ]
    title = _title(options, len(models))
    if plots is not None:
        from gputopo_cli.sharing.plots import plot_completion

        plot_completion(runs, title, plots)
    compared = compare(runs)
    if form == "json":
        results = [comparison_document(each) for each in compared]
        output.write_json({"runs": title, "results": results}, output_file)
    else:
        output.show(_lines(title, compared), output_file)


def _runs(
    options: SharingOptions,
    pairs: MeasuredPairs,
    models: Sequence[str],
    policies: Sequence[str],
    seed: int,
    report: ProgressCallback | None,
) -> Iterator[SharingResult]:
    """Yield the result of each policy on the job list of one seed."""
    rates = {model: pairs.rate(model) for model in models}
    load = OneGpuLoad(options.jobs, rates, options.load, options.gpus, options.steps)
    jobs = generate(seed, load)
    rules = PolicySettings(options.margin, options.known / 100, options.max_slowdown, seed)
    for policy in policies:
        yield run(jobs, pairs, SharingRunSettings(policy, options.gpus, rules), report)


def _title(options: SharingOptions, models: int) -> str:
    arrivals = f"load {options.load:g}" if options.load else "all at once"
    gpus = f"{options.gpus} GPU{'s' if options.gpus > 1 else ''}"
    lists = f"{options.seeds} list{'s' if options.seeds > 1 else ''}"
    kinds = f"{models} model{'s' if models > 1 else ''}"
    return f"{options.jobs} jobs of {kinds} on {gpus}, {arrivals}, {lists}"


def _lines(title: str, compared: Sequence[PolicyComparison]) -> Iterator[RenderableType]:
    yield Text(title, "bold")
    yield Text(f"changes against {compared[0].policy}, with the 95 % interval over the lists")
    yield Text()
    columns = ("POLICY", "MAKESPAN h>", "CHANGE %>", "MEAN COMPLETION h>", "CHANGE %>")
    more = ("P99 SLOWDOWN>", "RUN TIME>", "DECISIONS %>", "WRONG %>", "ENDED>")
    yield output.table(*columns, *more, rows=map(_cells, compared))


def _cells(compared: PolicyComparison) -> tuple[str, ...]:
    mean = compared.mean
    return (
        compared.policy,
        _hours(mean.makespan),
        format_change(compared.makespan),
        _hours(mean.completion),
        format_change(compared.completion),
        f"{mean.p99_slowdown:.2f}",
        f"{mean.stretch:.2f}",
        f"{100 * mean.choices:.1f}",
        f"{100 * mean.wrong:.1f}" if mean.choices else "-",
        f"{mean.moves:.1f}",
    )


def _hours(hours: float) -> str:
    """Return hours with four digits or more, because jobs can take seconds or weeks."""
    return f"{hours:.{1 if hours >= 100 else 2 if hours >= 1 else 4}f}"  # noqa: PLR2004

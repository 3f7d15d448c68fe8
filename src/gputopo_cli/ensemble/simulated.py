"""Simulate random ensembles and write their statistics (``gputopo ensemble simulate``)."""

import time
from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from gputopo.ensemble.model import EnsembleSettings
from gputopo_cli.ensemble.nodes import parse_equal_nodes, parse_range
from gputopo_cli.ensemble.options import EnsembleOptions
from gputopo_cli.shared import output
from gputopo_cli.shared.arguments import parse_words
from gputopo_cli.shared.changes import format_change
from gputopo_cli.shared.progress import progress_bar
from gputopo_simulate.ensemble.generate import EnsembleLaw
from gputopo_simulate.ensemble.policies import EnsemblePolicy
from gputopo_simulate.ensemble.report import (
    EnsembleComparison,
    compare,
    comparison_document,
)
from gputopo_simulate.ensemble.run import EnsembleExperiment, EnsembleResult, simulate
from gputopo_simulate.progress import ProgressCallback


def write_comparison(
    options: EnsembleOptions, plots: str | None, form: str, output_file: str | None
) -> None:
    """Simulate all policies on all ensembles, write the statistics and draw the first ensemble."""
    words = parse_words(options.policies, "policies", [policy.value for policy in EnsemblePolicy])
    policies = [EnsemblePolicy(word) for word in words]
    experiment = _experiment(options)
    with progress_bar() as report:
        results = _simulated(experiment, policies, options, report)
    title = _title(options, experiment)
    if plots is not None:
        from gputopo_cli.ensemble.plots import plot_runs

        runs = {each.policy.value: each.runs for each in results[0]}
        plot_runs(runs, experiment.cluster(), title, plots)
    compared = compare(results)
    if form == "json":
        documents = [comparison_document(each) for each in compared]
        output.write_json({"runs": title, "results": documents}, output_file)
    else:
        output.show(_lines(title, compared), output_file)


def _experiment(options: EnsembleOptions) -> EnsembleExperiment:
    nodes, gpus = parse_equal_nodes(options.nodes)
    return EnsembleExperiment(
        models=options.models,
        nodes=nodes,
        gpus_per_node=gpus,
        law=EnsembleLaw(epochs=parse_range(options.epochs, "epochs"), noise=options.noise / 100),
        settings=EnsembleSettings(
            one_node=options.one_node, restart_seconds=float(options.restart_seconds)
        ),
    )


def _simulated(
    experiment: EnsembleExperiment,
    policies: Sequence[EnsemblePolicy],
    options: EnsembleOptions,
    report: ProgressCallback | None,
) -> list[list[EnsembleResult]]:
    clock = time.process_time if options.plan_times else None
    results: list[list[EnsembleResult]] = []
    for seed in range(1, options.seeds + 1):
        own: list[EnsembleResult] = []
        for policy in policies:
            own.append(simulate(experiment, policy, seed, clock))
            if report:
                report(len(results) * len(policies) + len(own), options.seeds * len(policies))
        results.append(own)
    return results


def _title(options: EnsembleOptions, experiment: EnsembleExperiment) -> str:
    where = "one node each" if options.one_node else "any nodes"
    seeds = f"{options.seeds} ensemble{'s' if options.seeds > 1 else ''}"
    models = f"{options.models} model{'s' if options.models > 1 else ''}"
    size = f"{experiment.nodes} nodes of {experiment.gpus_per_node} GPUs"
    return f"{models} of {options.epochs} epochs on {size}, {where}, {seeds}"


def _lines(title: str, compared: Sequence[EnsembleComparison]) -> Iterator[RenderableType]:
    yield Text(title, "bold")
    yield Text(
        f"changes against {compared[0].policy.value}, with the 95 % interval over the ensembles;"
        f" no policy can be below {compared[0].bound:.1f} h"
    )
    yield Text()
    columns = ("POLICY", "MAKESPAN h>", "CHANGE %>", "IDLE %>", "WORST IDLE %>")
    more = ("FLOTILLAS>", "NODE BORDERS>", "RESTARTS>", "PLAN s>")
    yield output.table(*columns, *more, rows=map(_cells, compared))


def _cells(compared: EnsembleComparison) -> tuple[str, ...]:
    return (
        compared.policy.value,
        f"{compared.makespan:.1f}",
        format_change(compared.change),
        f"{100 * compared.idle:.1f}",
        f"{100 * compared.worst_idle:.1f}",
        f"{compared.flotillas:.1f}",
        f"{compared.borders:.0f}",
        f"{compared.restarts:.0f}",
        "-" if compared.plan_seconds is None else f"{compared.plan_seconds:.2f}",
    )

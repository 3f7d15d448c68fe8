"""Plan an ensemble and write the plan (``gputopo ensemble plan``)."""

from collections.abc import Iterator, Sequence
from math import inf

from rich.console import RenderableType
from rich.text import Text

from gputopo.ensemble.flotilla import Flotilla
from gputopo.ensemble.model import EnsembleSettings, NodeGpuCount
from gputopo.ensemble.plan import EnsemblePlan, plan_ensemble
from gputopo.ensemble.preprocessing import PreprocessorChoice, preprocessor_cores
from gputopo.ensemble.timeline import MemberRun
from gputopo_cli.ensemble.document import EnsembleFileSpec, LoadedEnsemble, load_ensemble
from gputopo_cli.ensemble.nodes import parse_nodes
from gputopo_cli.ensemble.options import PlanOptions
from gputopo_cli.shared import output

_SECONDS_PER_HOUR = 3600


def write_plan(
    path: str,
    nodes: str,
    options: PlanOptions,
    plots: str | None,
    form: str,
    output_file: str | None,
) -> None:
    """Plan the ensemble of a file, write the plan and, if requested, draw it."""
    cluster = parse_nodes(nodes)
    loaded = load_ensemble(path, options.profiles)
    plan = plan_ensemble(loaded.members, cluster, _settings(loaded.spec, options))
    title = _title(loaded, cluster, plan)
    if plots is not None:
        from gputopo_cli.ensemble.plots import plot_runs

        plot_runs({"plan": plan.runs}, cluster, title, plots)
    if form == "json":
        output.write_json(_document(title, plan, loaded.spec), output_file)
    else:
        output.show(_lines(title, plan, loaded.spec), output_file)


def _settings(spec: EnsembleFileSpec, options: PlanOptions) -> EnsembleSettings:
    default = EnsembleSettings()
    percent = spec.spread_percent if options.spread is None else options.spread
    return EnsembleSettings(
        max_gpus=spec.max_gpus,
        max_gpus_per_member=spec.max_gpus_per_member,
        one_node=not options.several_nodes,
        spread=default.spread if percent is None else percent / 100,
        pace=spec.pace,
        reference_parts=(1.0,) if options.paper else default.reference_parts,
        lockstep=spec.preprocessing is not None and spec.preprocessing.shared,
        unknown=spec.unknown_rates,
    )


def _title(loaded: LoadedEnsemble, cluster: Sequence[NodeGpuCount], plan: EnsemblePlan) -> str:
    gpus = sum(node.gpus for node in cluster)
    count = len(loaded.members)
    members = f"{count} member{'s' if count > 1 else ''}"
    nodes = f"{len(cluster)} node{'s' if len(cluster) > 1 else ''}"
    end = "end unknown" if plan.seconds == inf else f"ends after {_hours(plan.seconds)} h"
    return f"{members} on {gpus} GPUs of {nodes}, {end}"


def _lines(title: str, plan: EnsemblePlan, spec: EnsembleFileSpec) -> Iterator[RenderableType]:
    yield Text(title, "bold")
    yield Text()
    columns = ("FLOTILLA>", "MEMBER", "GPUS>", "NODES", "ITEMS/s>", "START h>", "END h>", "REASON")
    yield output.table(*columns, rows=_rows(plan))
    yield Text()
    totals = ("FLOTILLA>", "MEMBERS>", "GPUS>", "IDLE>", "SPREAD %>", "PREPROCESSING")
    yield output.table(*totals, rows=_flotilla_rows(plan, spec))


def _rows(plan: EnsemblePlan) -> Iterator[tuple[str, ...]]:
    runs = {run.placement.member: run for run in plan.runs}
    for number, flotilla in enumerate(plan.flotillas, 1):
        for member in flotilla.members:
            run = runs.get(member.name)
            yield (
                str(number),
                member.name,
                str(member.gpus),
                _nodes(run) if run else "-",
                "-" if member.rate is None else f"{member.rate:.4g}",
                _hours(run.start) if run else "-",
                "-" if run is None or run.end is None else _hours(run.end),
                member.reason,
            )
    for unplanned in plan.unplanned:
        yield ("-", unplanned.name, "-", "-", "-", "-", "-", unplanned.reason)


def _nodes(run: MemberRun) -> str:
    return ", ".join(f"{node.name}: {node.gpus}" for node in run.placement.nodes)


def _flotilla_rows(plan: EnsemblePlan, spec: EnsembleFileSpec) -> Iterator[tuple[str, ...]]:
    for number, flotilla in enumerate(plan.flotillas, 1):
        choice = _preprocessing(flotilla, spec)
        yield (
            str(number),
            str(len(flotilla.members)),
            str(flotilla.gpus),
            str(flotilla.idle),
            f"{100 * flotilla.spread:.0f}",
            "-" if choice is None else choice.reason or f"{choice.cores} cores",
        )


def _preprocessing(flotilla: Flotilla, spec: EnsembleFileSpec) -> PreprocessorChoice | None:
    if spec.preprocessing is None:
        return None
    rates = [member.rate for member in flotilla.members if member.rate is not None]
    throughput = spec.preprocessing.throughput
    return preprocessor_cores(rates, throughput, items_are_shared=spec.preprocessing.shared)


def _document(title: str, plan: EnsemblePlan, spec: EnsembleFileSpec) -> dict[str, object]:
    return {
        "runs": title,
        "seconds": None if plan.seconds == inf else plan.seconds,
        "flotillas": [_flotilla_document(each, plan, spec) for each in plan.flotillas],
        "unplanned": [
            {"name": each.name, "reason": each.reason, "needsProfile": each.needs_profile}
            for each in plan.unplanned
        ],
    }


def _flotilla_document(
    flotilla: Flotilla, plan: EnsemblePlan, spec: EnsembleFileSpec
) -> dict[str, object]:
    runs = {run.placement.member: run for run in plan.runs}
    choice = _preprocessing(flotilla, spec)
    return {
        "reference": flotilla.reference,
        "spread": flotilla.spread,
        "idleGPUs": flotilla.idle,
        "preprocessorCores": choice and choice.cores,
        "members": [
            {
                "name": member.name,
                "gpus": member.gpus,
                "itemsPerSecond": member.rate,
                "reason": member.reason,
                **_run_document(runs.get(member.name)),
            }
            for member in flotilla.members
        ],
    }


def _run_document(run: MemberRun | None) -> dict[str, object]:
    nodes = () if run is None else run.placement.nodes
    return {
        "nodes": {node.name: node.gpus for node in nodes},
        "startSeconds": run and run.start,
        "endSeconds": run and run.end,
    }


def _hours(seconds: float) -> str:
    return f"{seconds / _SECONDS_PER_HOUR:.2f}"

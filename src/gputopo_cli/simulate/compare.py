"""Run the same jobs under several policies and write their statistics (``gputopo compare``)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from functools import partial
from statistics import fmean
from typing import Final, TypeAlias

from rich.console import RenderableType
from rich.text import Text

from gputopo import catalogue
from gputopo.placement.model import MAPA_POLICIES, PolicyName
from gputopo_cli.shared import output
from gputopo_cli.shared.arguments import parse_integer, parse_list, parse_policy, to_word
from gputopo_cli.shared.errors import InputError
from gputopo_cli.shared.output import format_number
from gputopo_cli.shared.progress import progress_bar
from gputopo_cli.simulate.experiment import Experiment, prepare_experiment
from gputopo_cli.simulate.options import SimulationOptions
from gputopo_cli.simulate.tables import QUARTILE_COLUMNS, quartile_table
from gputopo_simulate.intervals import ConfidenceInterval, confidence_interval
from gputopo_simulate.mapa.model import SimulationResult
from gputopo_simulate.mapa.paper import FIGURE_18, TABLE_3
from gputopo_simulate.mapa.summary import (
    GroupSummary,
    JobGroup,
    Quartiles,
    SpeedUp,
    speed_up,
    summarize,
)

_MAX_SEEDS: Final = 1000
_SMALLEST_SHOWN: Final = 0.0005


@dataclass(frozen=True, slots=True)
class PolicyStatistics:
    """Statistics of one policy and one group of jobs.

    Attributes:
        summaries: one summary for each job list.
        effective_gb_per_s: mean of each quartile over the job lists; None if no job uses links.
        execution_time: mean of each quartile over the job lists; None if there are no jobs.
        speed_ups: speed-up over the first policy, for each job list that has jobs of the group.
    """

    summaries: tuple[GroupSummary, ...]
    effective_gb_per_s: Quartiles | None
    execution_time: Quartiles | None
    speed_ups: tuple[SpeedUp, ...]


Statistics: TypeAlias = Mapping[JobGroup, Mapping[PolicyName, PolicyStatistics]]


def write_comparison(
    options: SimulationOptions,
    seeds: str | None,
    policies: str,
    judge: str | None,
    plots: str | None,
    form: str,
    output_file: str | None,
) -> None:
    """Simulate the jobs under each policy, write the statistics and, if requested, plots."""
    compared = parse_list(policies, "policies", parse_policy)
    experiment = prepare_experiment(options, _parse_seeds(seeds), judge, field="seeds")
    with progress_bar() as report:
        results = {
            policy: [experiment.run(jobs, policy, report) for jobs in experiment.lists]
            for policy in compared
        }
    statistics = {group: _evaluate(results, group) for group in JobGroup}
    if plots is not None:
        from gputopo_cli.simulate.plots import plot_distributions

        plot_distributions(results, experiment.description, plots)
    if form == "json":
        output.write_json(_document(experiment, statistics), output_file)
    else:
        output.show(_lines(experiment, statistics), output_file)


def _parse_seeds(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    seeds = parse_list(text, "seeds", partial(parse_integer, field="seeds"))
    if len(seeds) > _MAX_SEEDS:
        raise InputError(f"seeds: there are {len(seeds)}, at most {_MAX_SEEDS} are allowed")
    return seeds


def _evaluate(
    results: Mapping[PolicyName, Sequence[SimulationResult]], group: JobGroup
) -> dict[PolicyName, PolicyStatistics]:
    summaries = {
        policy: tuple(summarize(result, group) for result in runs)
        for policy, runs in results.items()
    }
    first = next(iter(summaries.values()))
    return {
        policy: PolicyStatistics(
            summaries=own,
            effective_gb_per_s=_mean_quartiles([each.effective_gb_per_s for each in own]),
            execution_time=_mean_quartiles([each.execution_time for each in own]),
            speed_ups=tuple(
                ratio
                for before, after in zip(first, own, strict=True)
                if (ratio := speed_up(before, after))
            ),
        )
        for policy, own in summaries.items()
    }


def _mean_quartiles(quartiles: Sequence[Quartiles | None]) -> Quartiles | None:
    found = [astuple(each) for each in quartiles if each is not None]
    if not found:
        return None
    return Quartiles(*(fmean(values) for values in zip(*found, strict=True)))


def _document(experiment: Experiment, statistics: Statistics) -> dict[str, object]:
    return {
        "runs": experiment.description,
        "policies": {
            to_word(policy): {
                str(group): _statistics_document(statistics[group][policy]) for group in JobGroup
            }
            for policy in statistics[JobGroup.ALL]
        },
        "paper": [
            {"says": says, "here": here} for says, here in _check_claims(experiment, statistics)
        ],
    }


def _statistics_document(found: PolicyStatistics) -> dict[str, object]:
    return {
        "jobs": fmean(each.jobs for each in found.summaries),
        "effectiveBandwidthGBps": found.effective_gb_per_s and asdict(found.effective_gb_per_s),
        "executionTime": found.execution_time and asdict(found.execution_time),
        "makespan": fmean(each.makespan for each in found.summaries),
        "throughput": fmean(each.throughput for each in found.summaries),
        "speedUp": {
            name: {"mean": values.mean, "halfWidth95": values.half_width or 0.0}
            for name, values in _speed_up_intervals(found).items()
        },
    }


def _speed_up_intervals(found: PolicyStatistics) -> dict[str, ConfidenceInterval]:
    """Return mean and 95 % confidence interval of each kind of speed-up, over the job lists."""
    if not found.speed_ups:
        return {}
    names = [field.name for field in fields(SpeedUp)]
    values = zip(*map(astuple, found.speed_ups), strict=True)
    return {name: confidence_interval(own) for name, own in zip(names, values, strict=True)}


def _lines(experiment: Experiment, statistics: Statistics) -> Iterator[RenderableType]:
    yield Text(experiment.description, "bold")
    for group in (JobGroup.SENSITIVE, JobGroup.INSENSITIVE):
        yield Text(f"\neffective bandwidth of {group} jobs of several GPUs, GB/s", "bold")
        yield quartile_table(
            "POLICY",
            [
                (to_word(policy), found.effective_gb_per_s)
                for policy, found in statistics[group].items()
            ],
        )
    all_jobs = statistics[JobGroup.ALL]
    yield Text("\nexecution time of all jobs, and the whole run", "bold")
    columns = (*QUARTILE_COLUMNS, "MAKESPAN>", "JOBS PER TIME>")
    yield output.table("POLICY", *columns, rows=_time_rows(all_jobs))
    yield Text(f"\nspeed-up over {to_word(next(iter(all_jobs)))}, all jobs", "bold")
    rows = _speed_up_rows(experiment, all_jobs)
    yield output.table("POLICY", *QUARTILE_COLUMNS, "THROUGHPUT>", rows=rows)
    for says, here in _check_claims(experiment, statistics):
        yield Text(f"paper, {says}: {here}")


def _time_rows(statistics: Mapping[PolicyName, PolicyStatistics]) -> Iterator[tuple[str, ...]]:
    for policy, found in statistics.items():
        times = astuple(found.execution_time) if found.execution_time else ()
        makespan = fmean(each.makespan for each in found.summaries)
        throughput = fmean(each.throughput for each in found.summaries)
        yield to_word(policy), *map(format_number, (*times, makespan, throughput))


def _speed_up_rows(
    experiment: Experiment, statistics: Mapping[PolicyName, PolicyStatistics]
) -> Iterator[tuple[str, ...]]:
    comparable = experiment.times_vary and next(iter(statistics)) is PolicyName.BASELINE
    printed = TABLE_3 if comparable and _has_links_of(experiment, "dgx1-v100") else {}
    for policy, found in statistics.items():
        yield to_word(policy), *map(_format_interval, _speed_up_intervals(found).values())
        if policy in printed:
            yield "  paper, table 3", *(f"{value:.3f}" for value in astuple(printed[policy]))


def _format_interval(found: ConfidenceInterval) -> str:
    half = found.half_width or 0
    width = f" ±{half:.3f}" if half >= _SMALLEST_SHOWN else ""
    return f"{found.mean:.3f}{width}"


def _check_claims(experiment: Experiment, statistics: Statistics) -> Iterator[tuple[str, str]]:
    """Yield the MAPA paper's statements about the simulated server, and whether they hold here."""
    by_policy = {
        policy: found.effective_gb_per_s
        for policy, found in statistics[JobGroup.SENSITIVE].items()
        if found.effective_gb_per_s is not None
    }
    if set(by_policy) != set(MAPA_POLICIES):
        return
    for claim in FIGURE_18:
        if _has_links_of(experiment, claim.topology):
            here = "so it is here" if claim.holds(by_policy) else "not so here"
            yield f"{claim.source}: {claim.words}", here


def _has_links_of(experiment: Experiment, name: str) -> bool:
    return experiment.loaded.topology.fingerprint == catalogue.named(name).fingerprint

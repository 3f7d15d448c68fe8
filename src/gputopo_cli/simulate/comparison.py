"""What ``gputopo compare`` says."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields

from rich.console import RenderableType
from rich.text import Text

from gputopo.placement.model import PolicyName
from gputopo_cli.shared import figures, output, words
from gputopo_cli.shared.errors import InputError
from gputopo_cli.simulate.setup import Course, Stage, progress, stage
from gputopo_simulate.mapa.model import SimulationResult
from gputopo_simulate.mapa.paper import FIGURE_18, TABLE_3
from gputopo_simulate.mapa.summary import (
    ConfidenceInterval,
    GroupSummary,
    JobGroup,
    Quartiles,
    SpeedUp,
    confidence_interval,
    speed_up,
    summarize,
)
from gputopo_topologies import catalogue

_MOST_SEEDS = 1000
_LEAST_SHOWN = 0.0005
_GROUPS = tuple(JobGroup)

Results = Mapping[PolicyName, Sequence[SimulationResult]]
"""The runs of each policy, one for each job list."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A policy's figures for one group of jobs.

    Attributes:
        summaries: one for each job list.
        effective_gb_per_s: the mean of each quartile over the job lists; None without links.
        execution_time: likewise; None without jobs.
        speed_ups: over the first policy, one for each job list that has such jobs.
    """

    summaries: tuple[GroupSummary, ...]
    effective_gb_per_s: Quartiles | None
    execution_time: Quartiles | None
    speed_ups: tuple[SpeedUp, ...]


Outcomes = Mapping[JobGroup, Mapping[PolicyName, Outcome]]


def compare(
    course: Course,
    seeds: str,
    policies: str,
    plots: str | None,
    form: str,
    output_file: str | None,
) -> None:
    """Write the outcomes of several policies side by side, and draw them if asked."""
    chosen = words.each_once(policies, "policies", words.policy_name)
    ready = stage(course, _seeds(seeds, course))
    with progress() as tell:
        results = {
            policy: [ready.run(jobs, policy, tell) for jobs in ready.lists] for policy in chosen
        }
    outcomes = {group: _outcomes(results, group) for group in _GROUPS}
    if plots is not None:
        from gputopo_cli.simulate.plots import draw

        draw(results, ready.in_words, plots)
    if form == "json":
        output.write_json(document(ready, outcomes), output_file)
    else:
        output.show(lines(ready, outcomes), output_file)


def document(ready: Stage, outcomes: Outcomes) -> dict[str, object]:
    """Return the comparison as JSON."""
    return {
        "runs": ready.in_words,
        "policies": {
            words.word(policy): {str(group): _figures(outcomes[group][policy]) for group in _GROUPS}
            for policy in outcomes[JobGroup.ALL]
        },
        "paper": [{"says": says, "here": here} for says, here in _claims(ready, outcomes)],
    }


def lines(ready: Stage, outcomes: Outcomes) -> Iterator[RenderableType]:
    """Return the comparison as tables."""
    yield Text(ready.in_words, "bold")
    for group in (JobGroup.SENSITIVE, JobGroup.INSENSITIVE):
        yield Text(f"\neffective bandwidth of {group} jobs of several GPUs, GB/s", "bold")
        yield figures.distribution(
            "POLICY",
            [
                (words.word(policy), one.effective_gb_per_s)
                for policy, one in outcomes[group].items()
            ],
        )
    everything = outcomes[JobGroup.ALL]
    quartiles = figures.QUARTILE_COLUMNS
    yield Text("\nexecution time of all jobs, and the whole run", "bold")
    rows = _time_rows(everything)
    yield output.table("POLICY", *quartiles, "MAKESPAN>", "JOBS PER TIME>", rows=rows)
    first = words.word(next(iter(everything)))
    yield Text(f"\nspeed-up over {first}, all jobs", "bold")
    rows = _speed_up_rows(ready, everything)
    yield output.table("POLICY", *quartiles, "THROUGHPUT>", rows=rows)
    for says, here in _claims(ready, outcomes):
        yield Text(f"paper, {says}: {here}")


def _seeds(text: str, course: Course) -> tuple[int, ...]:
    seeds = tuple(words.whole_number(part.strip(), "seeds") for part in text.split(","))
    if len(set(seeds)) < len(seeds) or len(seeds) > _MOST_SEEDS:
        raise InputError(f"seeds: there may be {_MOST_SEEDS}, and each once")
    if course.jobs is not None and len(seeds) > 1:
        raise InputError("seeds: a list of jobs is run once; several seeds are for --generate")
    return seeds


def _outcomes(results: Results, group: JobGroup) -> dict[PolicyName, Outcome]:
    summaries = {
        policy: tuple(summarize(result, group) for result in runs)
        for policy, runs in results.items()
    }
    first = next(iter(summaries.values()))
    return {
        policy: Outcome(
            summaries=own,
            effective_gb_per_s=_mean([one.effective_gb_per_s for one in own]),
            execution_time=_mean([one.execution_time for one in own]),
            speed_ups=tuple(
                ratio
                for before, after in zip(first, own, strict=True)
                if (ratio := speed_up(before, after))
            ),
        )
        for policy, own in summaries.items()
    }


def _mean(quartiles: Sequence[Quartiles | None]) -> Quartiles | None:
    found = [astuple(one) for one in quartiles if one is not None]
    if not found:
        return None
    return Quartiles(*(confidence_interval(values).mean for values in zip(*found, strict=True)))


def _figures(outcome: Outcome) -> dict[str, object]:
    return {
        "jobs": confidence_interval([one.jobs for one in outcome.summaries]).mean,
        "effectiveBandwidthGBps": _keyed(outcome.effective_gb_per_s),
        "executionTime": _keyed(outcome.execution_time),
        "makespan": confidence_interval([one.makespan for one in outcome.summaries]).mean,
        "throughput": confidence_interval([one.throughput for one in outcome.summaries]).mean,
        "speedUp": {
            name: {"mean": found.mean, "halfWidth95": found.half_width}
            for name, found in _intervals(outcome).items()
        },
    }


def _keyed(quartiles: Quartiles | None) -> dict[str, float] | None:
    return None if quartiles is None else asdict(quartiles)


def _intervals(outcome: Outcome) -> dict[str, ConfidenceInterval]:
    """Return mean and spread over the job lists of each figure of the speed-up."""
    if not outcome.speed_ups:
        return {}
    names = [field.name for field in fields(SpeedUp)]
    values = zip(*map(astuple, outcome.speed_ups), strict=True)
    return {name: confidence_interval(own) for name, own in zip(names, values, strict=True)}


def _time_rows(outcomes: Mapping[PolicyName, Outcome]) -> Iterator[tuple[str, ...]]:
    for policy, outcome in outcomes.items():
        times = astuple(outcome.execution_time) if outcome.execution_time else ()
        makespan = confidence_interval([one.makespan for one in outcome.summaries]).mean
        throughput = confidence_interval([one.throughput for one in outcome.summaries]).mean
        figures_ = map(figures.short, (*times, makespan, throughput))
        yield words.word(policy), *figures_


def _speed_up_rows(
    ready: Stage, outcomes: Mapping[PolicyName, Outcome]
) -> Iterator[tuple[str, ...]]:
    comparable = ready.times_vary and next(iter(outcomes)) is PolicyName.BASELINE
    printed = TABLE_3 if comparable and _is(ready, "dgx1-v100") else {}
    for policy, outcome in outcomes.items():
        yield words.word(policy), *map(_spread, _intervals(outcome).values())
        if policy in printed:
            yield "  paper, table 3", *(f"{value:.3f}" for value in astuple(printed[policy]))


def _spread(found: ConfidenceInterval) -> str:
    width = f" ±{found.half_width:.3f}" if found.half_width >= _LEAST_SHOWN else ""
    return f"{found.mean:.3f}{width}"


def _claims(ready: Stage, outcomes: Outcomes) -> Iterator[tuple[str, str]]:
    """Return what the paper says of this server, and whether these runs bear it out."""
    by = {
        policy: outcome.effective_gb_per_s
        for policy, outcome in outcomes[JobGroup.SENSITIVE].items()
        if outcome.effective_gb_per_s is not None
    }
    if set(by) != set(PolicyName):
        return
    for claim in FIGURE_18:
        if _is(ready, claim.topology):
            here = "so it is here" if claim.holds(by) else "not so here"
            yield f"{claim.source}: {claim.words}", here


def _is(ready: Stage, name: str) -> bool:
    return ready.source.topology.fingerprint == catalogue.named(name).fingerprint

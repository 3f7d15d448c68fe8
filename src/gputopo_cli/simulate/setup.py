"""Simulations as they are asked for on the command line."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import Progress as Bar

from gputopo.placement.model import PolicyName
from gputopo.topology.model import NodeTopology
from gputopo_cli.bandwidth import models
from gputopo_cli.shared import words
from gputopo_cli.shared.errors import InputError
from gputopo_cli.shared.files import read_text
from gputopo_cli.topology import load as sources
from gputopo_cli.topology.source import Source
from gputopo_simulate.mapa.generate import JobMix
from gputopo_simulate.mapa.generate import generate as draw
from gputopo_simulate.mapa.joblists import parse_jobs
from gputopo_simulate.mapa.model import Queueing, SimulatedJob, SimulationResult
from gputopo_simulate.mapa.released.program import run_as_released
from gputopo_simulate.mapa.run import MapaSettings
from gputopo_simulate.mapa.run import run as simulate
from gputopo_simulate.mapa.timelaw import BandwidthTime, FixedTime, TimeLaw, parse_curves
from gputopo_simulate.mapa.waiting import WaitingRule
from gputopo_simulate.progress import ProgressCallback

MOST_JOBS = 1_000_000
MOST_NODES = 100_000
_DEFAULT_TIME = "bandwidth"


@dataclass(frozen=True, slots=True)
class Course:
    """The options that ``simulate`` and ``compare`` share, as they stand on the command line."""

    topology: str
    jobs: str | None
    generate: str | None
    nodes: str
    model: str | None
    judge: str | None
    backfill: bool
    wait: bool
    time: str
    as_released: bool


Jobs = tuple[SimulatedJob, ...]
Run = Callable[[Jobs, PolicyName, ProgressCallback | None], SimulationResult]


@dataclass(frozen=True, slots=True)
class Stage:
    """A course made ready: everything was read and found good.

    Attributes:
        in_words: what is run, for people.
        times_vary: whether a job's time depends on what it is given.
    """

    source: Source
    lists: tuple[Jobs, ...]
    in_words: str
    times_vary: bool
    run: Run


def stage(course: Course, seeds: tuple[int, ...]) -> Stage:
    """Read what a course names.

    Raises:
        InputError: on options that are no good or do not go together.
        TopologyError: on a topology that is none.
        ModelError: on a model that is not known.
        SimulationError: on a job list or curves that are no good.
    """
    if course.as_released:
        _require_plain(course)
    source = sources.find(course.topology)
    nodes = words.whole_number(course.nodes, "nodes", 1, MOST_NODES)
    lists, jobs_in_words = _lists(course, seeds)
    if course.as_released:
        in_words = f"{jobs_in_words} on {course.topology}, as the authors' program does it"
        return Stage(source, lists, in_words, times_vary=False, run=_as_released(course))
    return Stage(
        source,
        lists,
        f"{jobs_in_words} on {nodes} x {source.name}, {_rules(course)}",
        times_vary=course.time != "fixed",
        run=_as_asked(course, _named(source, nodes)),
    )


@contextmanager
def progress() -> Iterator[ProgressCallback | None]:
    """Show a bar on standard error while runs go on; None where that is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("jobs", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _lists(course: Course, seeds: tuple[int, ...]) -> tuple[tuple[Jobs, ...], str]:
    if (course.jobs is None) == (course.generate is None):
        raise InputError("jobs: either --jobs FILE or --generate N is needed")
    if course.jobs is not None:
        jobs = parse_jobs(read_text(course.jobs, "jobs"))
        return (jobs,), f"{len(jobs)} jobs of {course.jobs}"
    count = words.whole_number(course.generate or "", "generate", 1, MOST_JOBS)
    lists = tuple(draw(seed, JobMix(count=count)) for seed in seeds)
    named = "seed" if len(seeds) == 1 else "seeds"
    return lists, f"{count} jobs of {named} {', '.join(map(str, seeds))}"


def _named(source: Source, count: int) -> dict[str, NodeTopology]:
    name = source.name.removeprefix("node/")
    if count == 1:
        return {name: source.topology}
    digits = len(str(count - 1))
    return {f"{name}-{number:0{digits}}": source.topology for number in range(count)}


def _as_asked(course: Course, nodes: dict[str, NodeTopology]) -> Run:
    model, judge = models.find(course.model), models.find(course.judge)
    queueing = Queueing.SKIP_AHEAD if course.backfill else Queueing.FIFO
    law = _law(course.time)

    def run(jobs: Jobs, policy: PolicyName, progress: ProgressCallback | None) -> SimulationResult:
        settings = MapaSettings(
            policy=policy,
            model=model,
            time_law=law,
            queueing=queueing,
            waiting=WaitingRule() if course.wait else None,
            judge=judge,
        )
        return simulate(nodes, jobs, settings, progress)

    return run


def _as_released(course: Course) -> Run:
    def run(jobs: Jobs, policy: PolicyName, _progress: ProgressCallback | None) -> SimulationResult:
        return run_as_released(course.topology, jobs, policy)

    return run


def _law(time: str) -> TimeLaw:
    if time == "fixed":
        return FixedTime()
    if time == "bandwidth":
        return BandwidthTime()
    return parse_curves(read_text(time, "time"))


def _rules(course: Course) -> str:
    times = {"fixed": "fixed times", "bandwidth": "times by bandwidth"}
    queueing = "jobs that fit may overtake" if course.backfill else "first come, first served"
    waiting = ", sensitive jobs wait where that pays" if course.wait else ""
    return f"{times.get(course.time, f'times by {course.time}')}, {queueing}{waiting}"


def _require_plain(course: Course) -> None:
    """The authors' program has one node, one model, one queue, and times that are given."""
    for field, given in (
        ("nodes", course.nodes != "1"),
        ("model", course.model not in {None, "eq2"}),
        ("judge", course.judge is not None),
        ("backfill", course.backfill),
        ("wait", course.wait),
        ("time", course.time not in {_DEFAULT_TIME, "fixed"}),
    ):
        if given:
            raise InputError(f"{field}: not with --as-released, which does as its authors did")

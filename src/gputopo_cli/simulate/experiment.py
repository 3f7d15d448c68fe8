"""Load the inputs of MAPA's simulator, and simulate the jobs under any policy."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from gputopo.bandwidth.models import PHYSICAL
from gputopo.placement.model import PolicyName
from gputopo.runtime.messages import quoted
from gputopo.topology.model import NodeTopology
from gputopo_cli.bandwidth.models import find_model
from gputopo_cli.shared.arguments import reject_generator_options
from gputopo_cli.shared.errors import InputError
from gputopo_cli.shared.files import read_text
from gputopo_cli.simulate.options import SimulationOptions
from gputopo_cli.topology.load import LoadedTopology, load_topology
from gputopo_simulate.mapa.generate import generate
from gputopo_simulate.mapa.joblists import parse_jobs
from gputopo_simulate.mapa.model import (
    GpusInUse,
    Queueing,
    SimulatedJob,
    SimulationResult,
)
from gputopo_simulate.mapa.profiles import MeasuredWorkload, measured_time, parse_profiles
from gputopo_simulate.mapa.released.program import run_as_released
from gputopo_simulate.mapa.run import MapaSettings, run
from gputopo_simulate.mapa.timelaw import BandwidthTime, FixedTime, TimeLaw, parse_curves
from gputopo_simulate.mapa.waiting import WaitingRule
from gputopo_simulate.progress import ProgressCallback

JobList: TypeAlias = tuple[SimulatedJob, ...]
Profiles: TypeAlias = Mapping[str, MeasuredWorkload]


@dataclass(frozen=True, slots=True)
class Experiment:
    """A simulation whose inputs are loaded and valid.

    Attributes:
        lists: the job lists, one for each seed.
        description: a text about the simulation, for the output.
        times_vary: whether the execution time of a job depends on its GPUs.
        run: simulates one job list under one policy.
    """

    loaded: LoadedTopology
    lists: tuple[JobList, ...]
    description: str
    times_vary: bool
    run: Callable[[JobList, PolicyName, ProgressCallback | None], SimulationResult]


def prepare_experiment(
    options: SimulationOptions,
    seeds: tuple[int, ...] | None,
    judge: str | None = None,
    *,
    field: str = "seed",
) -> Experiment:
    """Load topology, jobs, models and curves; ``seeds`` is None if the user has given none.

    ``judge`` is the bandwidth model that evaluates the results; default: the model in ``options``.
    ``field`` is the name of the option with the seeds.

    Raises:
        InputError: if an option is missing, or cannot be combined with another.
    """
    if not options.topology:
        raise InputError("topology: is required")
    if options.as_released:
        _reject_options_of_our_simulator(options, judge)
    loaded = load_topology(options.topology)
    profiles = load_profiles(options)
    lists, jobs = load_jobs(options, seeds, profiles or {}, field)
    if options.as_released:
        return Experiment(
            loaded,
            lists,
            f"{jobs} on {options.topology}, as the authors' program does it",
            times_vary=False,
            run=lambda jobs, policy, _: run_as_released(options.topology, jobs, policy),
        )
    return Experiment(
        loaded,
        lists,
        f"{jobs} on {options.nodes} x {loaded.name}, {describe_rules(options)}",
        times_vary=options.time != "fixed",
        run=make_simulator(options, judge, _name_nodes(loaded, options.nodes), profiles),
    )


def load_profiles(options: SimulationOptions) -> Profiles | None:
    """Return the measured workloads of ``--profiles``, or None."""
    if options.profiles is None:
        return None
    if options.time != "bandwidth":
        raise InputError(f"time: {options.time} cannot be combined with --profiles")
    return parse_profiles(read_text(options.profiles, "profiles"))


def load_jobs(
    options: SimulationOptions, seeds: tuple[int, ...] | None, profiles: Profiles, field: str
) -> tuple[tuple[JobList, ...], str]:
    """Return the job lists, one for each seed, and a text about them.

    ``field`` is the name of the option with the seeds.
    """
    if options.jobs is not None and options.generate is None:
        reject_generator_options(**{field: seeds})
        jobs = parse_jobs(read_text(options.jobs, "jobs"), profiles)
        return (jobs,), f"{len(jobs)} jobs of {options.jobs}"
    if options.jobs is None and options.generate is not None:
        seeds = seeds or (1,)
        lists = tuple(generate(seed, options.generate) for seed in seeds)
        noun = "seed" if len(seeds) == 1 else "seeds"
        return lists, f"{options.generate} jobs of {noun} {', '.join(map(str, seeds))}"
    raise InputError("jobs: either --jobs FILE or --generate N is required")


def _name_nodes(loaded: LoadedTopology, count: int) -> dict[str, NodeTopology]:
    name = loaded.name.removeprefix("node/")
    if count == 1:
        return {name: loaded.topology}
    digits = len(str(count - 1))
    return {f"{name}-{number:0{digits}}": loaded.topology for number in range(count)}


def make_simulator(
    options: SimulationOptions,
    judge: str | None,
    nodes: Mapping[str, NodeTopology],
    profiles: Profiles | None,
    in_use: Sequence[GpusInUse] = (),
) -> Callable[[JobList, PolicyName, ProgressCallback | None], SimulationResult]:
    """Return a function that simulates one job list on these nodes under one policy."""
    model, judge_model = find_model(options.model), find_model(judge)
    if profiles is None:
        time_law = _find_time_law(options.time)
    else:
        time_law = measured_time(profiles)
        # Measured slowdowns are functions of the bandwidth by the physical model.
        judge_model = judge_model or PHYSICAL

    def simulate(
        jobs: JobList, policy: PolicyName, report: ProgressCallback | None
    ) -> SimulationResult:
        settings = MapaSettings(
            policy=policy,
            model=model,
            time_law=time_law,
            queueing=Queueing.SKIP_AHEAD if options.backfill else Queueing.FIFO,
            waiting=WaitingRule() if options.wait else None,
            judge=judge_model,
        )
        return run(nodes, jobs, settings, report, in_use)

    return simulate


def _find_time_law(time: str) -> TimeLaw:
    if time == "fixed":
        return FixedTime()
    if time == "bandwidth":
        return BandwidthTime()
    return parse_curves(read_text(time, "time"), where=f"time: {quoted(time)}")


def describe_rules(options: SimulationOptions) -> str:
    """Return in words how jobs queue and how long they run."""
    source = options.profiles or options.time
    times = "fixed times" if source == "fixed" else f"times by {source}"
    queueing = "jobs that fit may overtake" if options.backfill else "first come, first served"
    waiting = ", sensitive jobs wait if that saves GPU time" if options.wait else ""
    return f"{times}, {queueing}{waiting}"


def _reject_options_of_our_simulator(options: SimulationOptions, judge: str | None) -> None:
    for field, given in (
        ("nodes", options.nodes != 1),
        ("model", options.model not in {None, "eq2"}),
        ("judge", judge is not None),
        ("backfill", options.backfill),
        ("wait", options.wait),
        ("time", options.time not in {"bandwidth", "fixed"}),
        ("profiles", options.profiles is not None),
    ):
        if given:
            raise InputError(f"{field}: not available with --as-released")

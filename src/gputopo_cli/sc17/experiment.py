"""Load the inputs of the simulator of the SC '17 paper, and run it with any policy."""

import math
import time
from dataclasses import dataclass
from importlib.resources import files

from gputopo.topology.model import NodeTopology
from gputopo.utility.utility import UtilityWeights
from gputopo_cli.sc17.options import CaffeOptions
from gputopo_cli.shared.arguments import parse_percentages, reject_generator_options
from gputopo_cli.shared.errors import InputError
from gputopo_cli.shared.files import read_text
from gputopo_cli.topology.load import load_topology
from gputopo_simulate.progress import ProgressCallback
from gputopo_simulate.sc17.generate import CaffeLoad, generate
from gputopo_simulate.sc17.joblists import authors_list, parse_jobs
from gputopo_simulate.sc17.model import CaffeJob, Sc17Result
from gputopo_simulate.sc17.profiles import CaffeProfiles, parse_profiles
from gputopo_simulate.sc17.released.program import run_as_released
from gputopo_simulate.sc17.run import Sc17Settings, run

_RELEASED_TOPOLOGY = "power8-minsky"


@dataclass(frozen=True, slots=True)
class CaffeExperiment:
    """A simulation whose inputs are loaded and valid.

    Attributes:
        description: what runs, in words.
    """

    options: CaffeOptions
    topology: NodeTopology
    jobs: tuple[CaffeJob, ...]
    profiles: CaffeProfiles
    weights: UtilityWeights
    description: str

    def run(self, policy: str, report: ProgressCallback | None = None) -> Sc17Result:
        """Simulate the jobs by the text of the paper.

        Raises:
            SimulationError: if a job was not measured or does not fit on a machine.
        """
        options = self.options
        settings = Sc17Settings(
            policy=policy,
            machines=options.machines,
            max_wait_seconds=math.inf if options.max_wait is None else options.max_wait,
            min_utility=options.min_utility,
            weights=self.weights,
        )
        clock = time.perf_counter if options.decision_times else None
        return run(self.topology, self.jobs, self.profiles, settings, report, clock)

    def run_as_released(self, policy: str, report: ProgressCallback | None = None) -> Sc17Result:
        """Simulate the jobs as the authors' program does.

        Raises:
            InputError: if an option is not available with ``--as-released``.
            SimulationError: if the program does not support a job or the policy.
        """
        options = self.options
        unsupported = {
            "topology": options.topology != _RELEASED_TOPOLOGY,
            "min-utility": options.min_utility is not None,
            "max-wait": options.max_wait is not None,
            "weights": options.weights is not None,
            "decision-times": options.decision_times,
        }
        for name, is_given in unsupported.items():
            if is_given:
                raise InputError(f"{name}: not available with --as-released")
        return run_as_released(
            self.jobs,
            self.profiles,
            policy,
            options.machines,
            gate=options.gate is not False,
            progress=report,
        )


def prepare_experiment(options: CaffeOptions, *, as_released: bool = False) -> CaffeExperiment:
    """Load jobs, measured times and topology.

    ``as_released`` is whether the authors' program is simulated.

    Raises:
        InputError: if options are invalid or contradict each other.
        SimulationError: if the list of jobs is invalid.
    """
    if options.gate is not None and not as_released:
        raise InputError("gate: --gate and --no-gate need --as-released")
    jobs, description = _load_jobs(options)
    topology = load_topology(options.topology).topology
    machines = f"{options.machines} machine{'s' if options.machines > 1 else ''}"
    return CaffeExperiment(
        options=options,
        topology=topology,
        jobs=jobs,
        profiles=parse_profiles(_data("sc17_solo.csv"), _data("sc17_collocation.csv")),
        weights=_parse_weights(options.weights),
        description=f"{description} on {machines} {options.topology}",
    )


def _data(name: str) -> str:
    return (files("gputopo_simulate.sc17") / "data" / name).read_text(encoding="utf-8")


def _load_jobs(options: CaffeOptions) -> tuple[tuple[CaffeJob, ...], str]:
    rate, seed = options.jobs_per_minute, options.seed
    match (options.jobs, options.authors, options.generate):
        case (str() as path, None, None):
            reject_generator_options(seed=seed, jobs_per_minute=rate)
            jobs = parse_jobs(read_text(path, "jobs"))
            return jobs, f"{len(jobs)} jobs of {path}"
        case (None, str() as name, None):
            reject_generator_options(seed=seed, jobs_per_minute=rate)
            jobs = authors_list(name, _data("sc17_workloads.csv"))
            return jobs, f"{len(jobs)} jobs of the list {name}"
        case (None, None, int() as count):
            rate = 10 if rate is None else rate
            seed = 1 if seed is None else seed
            jobs = generate(seed, CaffeLoad(count, rate))
            return jobs, f"{count} jobs of seed {seed}, {rate:g} a minute,"
    raise InputError("jobs: one of --jobs FILE, --list NAME and --generate N is required")


def _parse_weights(text: str | None) -> UtilityWeights:
    if text is None:
        return UtilityWeights()
    communication, interference, fragmentation = parse_percentages(text, "weights")
    return UtilityWeights(communication / 100, interference / 100, fragmentation / 100)

"""Simulates ensembles under several policies: planned with measured rates, run with true ones."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gputopo.ensemble.assignment import node_borders
from gputopo.ensemble.model import EnsembleMember, EnsembleSettings, MemberPlacement, NodeGpuCount
from gputopo.ensemble.timeline import MemberRun, RateRule, end_of, run_ensemble
from gputopo_simulate.ensemble.generate import EnsembleLaw, SimulatedModel, generate, profile
from gputopo_simulate.ensemble.policies import EnsemblePolicy, PolicyRule
from gputopo_simulate.errors import SimulationError


@dataclass(frozen=True, slots=True)
class EnsembleExperiment:
    """An ensemble on equal nodes.

    Attributes:
        restart_seconds: in ``settings``; a member that restarts makes no progress for so long.
    """

    models: int = 100
    nodes: int = 100
    gpus_per_node: int = 4
    law: EnsembleLaw = field(default_factory=EnsembleLaw)
    settings: EnsembleSettings = field(default_factory=lambda: EnsembleSettings(one_node=False))

    def __post_init__(self) -> None:
        for name in ("models", "nodes", "gpus_per_node"):
            if getattr(self, name) < 1:
                raise SimulationError(f"{name}: {getattr(self, name)}; must be at least 1")

    @property
    def gpus(self) -> int:
        """The GPUs of the cluster."""
        return self.nodes * self.gpus_per_node

    def cluster(self) -> list[NodeGpuCount]:
        """Return the nodes, all free."""
        numbers = range(1, self.nodes + 1)
        return [NodeGpuCount(f"node-{number}", self.gpus_per_node) for number in numbers]


@dataclass(frozen=True, slots=True)
class EnsembleResult:
    """The run of one ensemble under one policy.

    Attributes:
        makespan: seconds until the last member ended.
        idle: share of the GPU time until then that no member used.
        flotillas: number of flotillas of the first plan.
        borders: node borders inside members, summed over all runs.
        restarts: how often a member restarted.
        bound: no policy can end earlier than after so many seconds.
        plan_seconds: time of the first plan, with assignment; None if no clock was given.
    """

    policy: EnsemblePolicy
    runs: tuple[MemberRun, ...]
    makespan: float
    idle: float
    flotillas: int
    borders: int
    restarts: int
    bound: float
    plan_seconds: float | None


def simulate(
    experiment: EnsembleExperiment,
    policy: EnsemblePolicy,
    seed: int,
    clock: Callable[[], float] | None = None,
) -> EnsembleResult:
    """Simulate the ensemble of one seed.

    Args:
        experiment: models, cluster and settings.
        policy: how members get GPUs.
        seed: decides the models and the errors of their profiles.
        clock: returns seconds, for the time to plan.
    """
    law, settings = experiment.law, experiment.settings
    models = generate(seed, experiment.models, law)
    size = experiment.gpus_per_node
    members = profile(models, size, experiment.gpus, seed, law.noise)
    nodes = experiment.cluster()
    before = clock() if clock else 0.0
    rule = PolicyRule(policy, members, nodes, settings)
    planned = clock() - before if clock else None
    flotillas = len(rule.flotillas)
    true_rate = _true_rates(models)
    seconds = settings.restart_seconds
    runs = run_ensemble(
        members, nodes, rule, true_rate, restart_seconds=seconds, lockstep=settings.lockstep
    )
    makespan = end_of(runs, len(members))
    used = sum(run.placement.gpus * ((run.end or 0.0) - run.start) for run in runs)
    return EnsembleResult(
        policy=policy,
        runs=runs,
        makespan=makespan,
        idle=max(0.0, 1 - used / (makespan * experiment.gpus)),
        flotillas=flotillas,
        borders=node_borders([run.placement for run in runs]),
        restarts=len(runs) - len(members),
        bound=lower_bound(models, experiment),
        plan_seconds=planned,
    )


def _true_rates(models: Sequence[SimulatedModel]) -> RateRule:
    by_name = {model.name: model for model in models}

    def rate(member: EnsembleMember, placement: MemberPlacement) -> float:
        return by_name[member.name].rate(placement.gpus, len(placement.nodes))

    return rate


def lower_bound(models: Sequence[SimulatedModel], experiment: EnsembleExperiment) -> float:
    """Return seconds in which no policy can end: all GPUs without losses, or the longest member."""
    settings, size = experiment.settings, experiment.gpus_per_node
    most = min(experiment.gpus, settings.max_gpus or experiment.gpus)
    one = min(most, settings.max_gpus_per_member or most, size if settings.one_node else most)
    work = sum(model.items / model.one_gpu for model in models) / most
    longest = max(
        model.items / max(model.rate(gpus, -(-gpus // size)) for gpus in range(1, one + 1))
        for model in models
    )
    return max(work, longest)

"""FLEET and the simple ways to give GPUs to members, as rules for a simulated timeline."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from gputopo.ensemble.flotilla import Flotilla, FlotillaMember
from gputopo.ensemble.model import EnsembleMember, EnsembleSettings, NodeGpuCount, PaceMeasure
from gputopo.ensemble.plan import plan_ensemble
from gputopo.ensemble.replan import replan
from gputopo.ensemble.starts import free_gpus, members_to_start
from gputopo.ensemble.timeline import TimelineChanges, TimelineState


class EnsemblePolicy(StrEnum):
    """The ways to share GPUs among the members of an ensemble.

    FLEET: flotillas with about equal rates, as in the paper.
    RATE: the same, but with the best of several references.
    END: the same, but members of a flotilla end at about the same time.
    RESTART: like ``END``; members restart with more GPUs if the ensemble then ends earlier.
    ONE_GPU: one GPU each, in the order of the list.
    ONE_BY_ONE: one after the other, with all GPUs; if a member must be on one node, with those of a
        node, and members that fit run at the same time.
    EQUAL: equal shares of the GPUs, at least one GPU.
    EQUAL_RESTART: equal shares that are divided again when a member ends; members restart for it.
    """

    FLEET = "fleet"
    RATE = "rate"
    END = "end"
    RESTART = "restart"
    ONE_GPU = "one-gpu"
    ONE_BY_ONE = "one-by-one"
    EQUAL = "equal"
    EQUAL_RESTART = "equal-restart"


_BY_RATE: Final = (EnsemblePolicy.FLEET, EnsemblePolicy.RATE)
_LEAST_IDLE: Final = 0.05
"""Part of the GPUs that must be idle before a new plan with restarts is made, to save time."""


@dataclass(slots=True)
class PolicyRule:
    """A policy for one run; it knows only the measured rates.

    Attributes:
        flotillas: the plan; the simple policies are flotillas with other numbers of GPUs.
    """

    policy: EnsemblePolicy
    members: tuple[EnsembleMember, ...]
    nodes: Sequence[NodeGpuCount]
    settings: EnsembleSettings
    flotillas: tuple[Flotilla, ...] = field(init=False)

    def __post_init__(self) -> None:
        pace = PaceMeasure.RATE if self.policy in _BY_RATE else PaceMeasure.END
        restarts = self.policy is EnsemblePolicy.RESTART
        self.settings = replace(self.settings, pace=pace, restarts=restarts)
        if self.policy is EnsemblePolicy.FLEET:
            self.settings = replace(self.settings, reference_parts=(1.0,))
        self.flotillas = self._plan(self.members)

    def __call__(self, state: TimelineState) -> TimelineChanges:
        """Return who stops and starts now."""
        waiting = {member.name for member in state.members} - set(state.running)
        starts = members_to_start(self.flotillas, waiting, state.running, self.nodes, self.settings)
        if starts or not state.running:
            return TimelineChanges(start=starts)
        if self.policy is EnsemblePolicy.RESTART:
            return self._replan(state)
        if self.policy is EnsemblePolicy.EQUAL_RESTART:
            return self._divide_again(state)
        return TimelineChanges()

    def _plan(self, members: Sequence[EnsembleMember]) -> tuple[Flotilla, ...]:
        total = sum(node.gpus for node in self.nodes)
        match self.policy:
            case EnsemblePolicy.ONE_GPU:
                return (_flotilla([(member, 1) for member in members]),)
            case EnsemblePolicy.ONE_BY_ONE:
                most = self._most(total)
                return tuple(_flotilla([(member, most)]) for member in members)
            case EnsemblePolicy.EQUAL | EnsemblePolicy.EQUAL_RESTART:
                share = max(1, min(self._most(total), total // len(members)))
                return (_flotilla([(member, share) for member in members]),)
        return plan_ensemble(members, self.nodes, self.settings).flotillas

    def _most(self, total: int) -> int:
        limit = self.settings.max_gpus_per_member or total
        largest = max(node.gpus for node in self.nodes)
        return min(limit, largest if self.settings.one_node else total)

    def _replan(self, state: TimelineState) -> TimelineChanges:
        idle = sum(node.gpus for node in free_gpus(self.nodes, state.running.values()))
        if idle < _LEAST_IDLE * sum(node.gpus for node in self.nodes):
            return TimelineChanges()
        found = replan(state.members, state.running, self.nodes, self.settings)
        self.flotillas = found.plan.flotillas
        return TimelineChanges(tuple(found.stop), found.start)

    def _divide_again(self, state: TimelineState) -> TimelineChanges:
        flotillas = self._plan(state.members)
        shares = {member.name: member.gpus for member in flotillas[0].members}
        changed = [name for name, each in state.running.items() if each.gpus != shares[name]]
        if not changed:
            return TimelineChanges()
        self.flotillas = flotillas
        keeps = {name: each for name, each in state.running.items() if name not in changed}
        waiting = set(shares) - set(keeps)
        starts = members_to_start(flotillas, waiting, keeps, self.nodes, self.settings)
        return TimelineChanges(changed, starts)


def _flotilla(members: Sequence[tuple[EnsembleMember, int]]) -> Flotilla:
    chosen = tuple(FlotillaMember(member.name, gpus, None) for member, gpus in members)
    return Flotilla(chosen, 0.0, 0.0, 0)

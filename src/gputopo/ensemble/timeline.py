"""Runs an ensemble in thought: who trains when, on which nodes, until the last member has ended.

Planning uses it with planned rates, and the simulator with true rates and other ways to choose.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple, TypeAlias

from gputopo.ensemble.model import EnsembleMember, MemberPlacement, NodeGpuCount

_ROUNDING = 1e-9


class TimelineState(NamedTuple):
    """An ensemble between two events.

    Attributes:
        now: seconds since the begin.
        members: members that have not ended, with the items that they have left.
        running: placements of the members that run; all others wait.
        nodes: nodes with all GPUs of the ensemble.
    """

    now: float
    members: tuple[EnsembleMember, ...]
    running: Mapping[str, MemberPlacement]
    nodes: Sequence[NodeGpuCount]


class TimelineChanges(NamedTuple):
    """Members that stop and wait again, then members that start."""

    stop: Sequence[str] = ()
    start: Sequence[MemberPlacement] = ()


ChangeRule: TypeAlias = Callable[[TimelineState], TimelineChanges]
"""Chooses the changes at the begin and after each end of a member."""

RateRule: TypeAlias = Callable[[EnsembleMember, MemberPlacement], float | None]
"""Returns the items per second of a member; None if unknown."""


@dataclass(frozen=True, slots=True)
class MemberRun:
    """A time in which a member runs with the same GPUs.

    Attributes:
        rate: items per second by the member's GPUs; None if unknown. Members in lockstep may
            have a lower one.
        end: None if it is unknown when the member ends.
    """

    placement: MemberPlacement
    start: float
    end: float | None
    rate: float | None


def planned_rate(member: EnsembleMember, placement: MemberPlacement) -> float | None:
    """Return the rate by the member's number of GPUs."""
    return None if member.rates is None else member.rates.at(placement.gpus)


def run_ensemble(
    members: Sequence[EnsembleMember],
    nodes: Sequence[NodeGpuCount],
    choose: ChangeRule,
    rate_of: RateRule = planned_rate,
    *,
    running: Mapping[str, MemberPlacement] | None = None,
    restart_seconds: float = 0.0,
    lockstep: bool = False,
) -> tuple[MemberRun, ...]:
    """Return who runs when, by start and name.

    Args:
        members: members that have not ended.
        nodes: nodes with all GPUs of the ensemble.
        choose: called at the begin and after each end.
        rate_of: rates, which count the items that are left.
        running: members that run already.
        restart_seconds: time in which a member that was stopped makes no progress again.
        lockstep: whether members that run together all have the lowest known rate among them.
    """
    timeline = _Timeline(list(members), nodes, rate_of, restart_seconds, lockstep)
    for name, placement in (running or {}).items():
        timeline.start(name, placement)
    while True:
        timeline.apply(choose(timeline.state()))
        if not timeline.advance():
            return tuple(sorted(timeline.runs, key=lambda run: (run.start, run.placement.member)))


def end_of(runs: Sequence[MemberRun], members: int) -> float:
    """Return when the last of this number of members ends; infinite if this is unknown."""
    if len({run.placement.member for run in runs}) < members:
        return inf
    return max((inf if run.end is None else run.end for run in runs), default=0.0)


@dataclass(slots=True)
class _Active:
    placement: MemberPlacement
    start: float
    ready: float
    rate: float | None
    left: float | None
    pace: float | None

    @property
    def end(self) -> float:
        if self.pace is None or self.left is None:
            return inf
        return self.ready + self.left / self.pace

    def left_at(self, now: float) -> float | None:
        if self.pace is None or self.left is None:
            return self.left
        return max(0.0, self.left - self.pace * max(0.0, now - self.ready))

    def go_on(self, now: float, pace: float) -> None:
        """Have this pace from now on, if the rate is known."""
        if self.rate is not None:
            self.left, self.ready, self.pace = self.left_at(now), max(self.ready, now), pace


@dataclass(slots=True)
class _Timeline:
    members: list[EnsembleMember]
    nodes: Sequence[NodeGpuCount]
    rate_of: RateRule
    restart_seconds: float
    lockstep: bool
    now: float = 0.0
    active: dict[str, _Active] = field(default_factory=dict)
    stopped: dict[str, float | None] = field(default_factory=dict)
    runs: list[MemberRun] = field(default_factory=list)

    def state(self) -> TimelineState:
        members = tuple(
            EnsembleMember(member.name, member.rates, self._left(member), member.max_gpus)
            for member in self.members
        )
        running = {name: each.placement for name, each in self.active.items()}
        return TimelineState(self.now, members, running, self.nodes)

    def _left(self, member: EnsembleMember) -> float | None:
        if member.name in self.active:
            return self.active[member.name].left_at(self.now)
        return self.stopped.get(member.name, member.items_left)

    def apply(self, changes: TimelineChanges) -> None:
        for name in changes.stop:
            active = self.active.pop(name)
            self.stopped[name] = active.left_at(self.now)
            self._add(active, self.now)
        for placement in changes.start:
            self.start(placement.member, placement)
        rates = [each.rate for each in self.active.values() if each.rate is not None]
        if self.lockstep and rates:
            for active in self.active.values():
                active.go_on(self.now, min(rates))

    def start(self, name: str, placement: MemberPlacement) -> None:
        member = next(each for each in self.members if each.name == name)
        ready = self.now + (self.restart_seconds if name in self.stopped else 0.0)
        rate, left = self.rate_of(member, placement), self._left(member)
        self.active[name] = _Active(placement, self.now, ready, rate, left, rate)

    def advance(self) -> bool:
        """Go to the next end; return whether there is one."""
        end = min((each.end for each in self.active.values()), default=inf)
        if end == inf:
            for active in self.active.values():
                self._add(active, None)
            return False
        self.now = end
        limit = end * (1 + _ROUNDING)
        for name in [name for name, each in self.active.items() if each.end <= limit]:
            self._add(self.active.pop(name), end)
            self.members = [member for member in self.members if member.name != name]
        return True

    def _add(self, active: _Active, end: float | None) -> None:
        self.runs.append(MemberRun(active.placement, active.start, end, active.rate))

"""Chooses the CPU limit to measure next, from the limits that were already measured."""

from dataclasses import dataclass, replace
from typing import Self

from gputopo.api.profiling import MAX_POINTS, CpuAmounts, ProfiledPoint, ProfilingState
from gputopo.profiling.curve import curve_of, merged, newest_setting
from gputopo.profiling.grid import CpuGrid
from gputopo.profiling.model import ProfilingSituation
from gputopo.runtime.times import seconds_since
from gputopo.sensitivity.planner import next_cpus


@dataclass(frozen=True, slots=True)
class ProfilingProgress:
    """What is known about the throughput of a pod with different CPU limits.

    Attributes:
        state: the profiling state, with the points of all samples of the pod.
        grid: the CPU limits that the node can give the container now.
        setting: hash of the conditions of the newest sample except the CPUs, for instance GPUs and
            neighbours. Points with another setting are not used.
        rates: micro-steps per second by CPU limit, also of earlier pods with this setting. 0 if the
            pod reached no steady rate.
    """

    state: ProfilingState
    grid: CpuGrid
    setting: str
    rates: dict[int, int]

    @classmethod
    def of(cls, situation: ProfilingSituation, state: ProfilingState) -> Self:
        """Return the progress from the samples of the pod and the available CPUs of its node."""
        points = merged(state.points, situation.own)
        setting = newest_setting(situation.own) or (points[-1].setting if points else "")
        available = max(state.original.limit, situation.available_milli_cpu)
        return cls(
            state.model_copy(update={"points": points}),
            CpuGrid(
                state.original,
                min(state.most_milli_cpu, available),
                situation.pod.gpus,
                never_lowered=situation.pod.sized,
            ),
            setting,
            curve_of(setting, points, situation.profile or ()),
        )

    @property
    def step_seconds(self) -> float:
        """Time of a training step with the original CPUs; 0 if it is unknown.

        If it is unknown in this setting, for instance since a neighbour has started, it is the time
        in the newest other setting.
        """
        own = self.state.original.limit
        known = [
            point.micro_steps_per_second for point in self.state.points if point.milli_cpu == own
        ]
        newest = next((rate for rate in reversed(known) if rate), 0)
        rate = self.rates.get(own) or newest
        return 1e6 / rate if rate else 0.0

    @property
    def without_rates(self) -> bool:
        """Whether the pod reached no steady rate with one of the CPU limits."""
        return not all(self.rates.values())

    def next_amounts(self) -> CpuAmounts | None:
        """Return the CPU request and limit to measure next, or None if the curve is complete."""
        units = {self.grid.units(limit): rate for limit, rate in self.rates.items()}
        known = {count: float(rate) for count, rate in units.items() if count is not None}
        chosen = next_cpus(self.grid.plan, known)
        return None if chosen is None else self.grid.amounts(chosen)

    def without_rate(self) -> Self:
        """Record rate 0 for the current CPU limit: the pod reached no steady rate with it."""
        limit = self.state.target.limit
        stopped = ProfiledPoint(milli_cpu=limit, micro_steps_per_second=0, setting=self.setting)
        points = (*self.state.points, stopped)[-MAX_POINTS:]
        return replace(
            self,
            state=self.state.model_copy(update={"points": points}),
            rates={**self.rates, limit: 0},
        )

    def ended(self, situation: ProfilingSituation) -> ProfilingState:
        """Return the state at the end, also with the time of a point that has no sample yet.

        Time with the original CPUs costs no steps, and is left out.
        """
        state = self.state
        known = {(point.milli_cpu, point.setting) for point in state.points}
        known.add((state.original.limit, self.setting))
        if (state.target.limit, self.setting) in known or situation.pod.cpu != state.target:
            return self.timed(situation)
        return self.without_rate().timed(situation)

    def timed(self, situation: ProfilingSituation) -> ProfilingState:
        """Return the state with the time since the newest resize added to the current point."""
        state = self.state
        if situation.pod.cpu != state.target:  # the newest resize was never carried out
            return state
        current = state.target.limit, self.setting
        seconds = max(0, seconds_since(state.since, situation.now))
        points = [
            point.model_copy(update={"seconds": point.seconds + seconds})
            if (point.milli_cpu, point.setting) == current
            else point
            for point in state.points
        ]
        return state.model_copy(update={"points": tuple(points)})

"""The throughput of a mix in the mode Auto, relative to GPU-proportional CPUs. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from gputopo.tuning.model import Target
from resizetest.mixes import Mix
from resizetest.phase import JobResult, Phase

_TOLERANCE = 0.1
"""How far the prediction may be from the measurement."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A mix with GPU-proportional CPUs, then in the mode Auto, then proportional again.

    Attributes:
        decided: what the operator would decide by the curves, for each job.
        simulated: normalised throughput of each job by the simulator.
    """

    mix: Mix
    before: Phase
    auto: Phase
    after: Phase
    decided: Sequence[Target]
    simulated: Sequence[float]

    @property
    def normalised(self) -> list[float]:
        """Rate of each job in the mode Auto, relative to its mean proportional rate."""
        return [
            job.rate / mean((first.rate, second.rate))
            for job, first, second in zip(
                self.auto.jobs, self.before.jobs, self.after.jobs, strict=True
            )
        ]

    @property
    def gain(self) -> float:
        """Sum of the normalised throughput, divided by the number of jobs."""
        return mean(self.normalised)

    @property
    def predicted(self) -> float:
        """The gain that the operator would predict."""
        return mean(target.value for target in self.decided)

    @property
    def repeat_errors(self) -> list[float]:
        """Second proportional rate of each job, relative to the first, minus 1."""
        pairs = zip(self.before.jobs, self.after.jobs, strict=True)
        return [second.rate / first.rate - 1 for first, second in pairs]

    @property
    def repeat_error(self) -> float:
        """Second proportional sum of normalised throughput, relative to the first, minus 1."""
        return mean(self.repeat_errors)

    def errors(self) -> list[str]:
        """Return what is not as required."""
        found = []
        if self.gain < self.mix.least_gain:
            found.append(f"gain {self.gain:.3f} is below {self.mix.least_gain}")
        for name, value in (("operator", self.predicted), ("simulator", mean(self.simulated))):
            if abs(value / self.gain - 1) > _TOLERANCE:
                found.append(f"the {name} predicts {value:.3f}, measured {self.gain:.3f}")
        return found

    def lines(self) -> dict[str, str]:
        """Return the figures of the mix, and of each job, by name."""
        head = (
            f"measured {self.gain:.3f}, predicted by the operator's decision {self.predicted:.3f},"
            f" by the simulator {mean(self.simulated):.3f}, repeat error of the proportional run"
            f" {self.repeat_error:+.1%}; idle CPUs of the machine"
            f" {self.before.idle:.0%}, {self.auto.idle:.0%}, {self.after.idle:.0%};"
            f" {self.auto.seconds:.0f} s until the amounts had not changed for 75 s"
        )
        return {f"mix {self.mix.name}": head} | {
            f"mix {self.mix.name}, job {number} ({workload.name})": self._job(number)
            for number, workload in enumerate(self.mix.workloads)
        }

    def _job(self, number: int) -> str:
        phases = (self.before, self.auto, self.after)
        measured = "; ".join(_text(phase.jobs[number]) for phase in phases)
        return (
            f"{self.normalised[number]:.3f}, predicted {self.decided[number].value:.3f} with"
            f" {self.decided[number].amounts.milli_cpu}m, simulated {self.simulated[number]:.3f};"
            f" {measured}"
        )


def _text(job: JobResult) -> str:
    return (
        f"{job.rate:.2f}/s ±{job.spread:.1%} with {job.limit_milli_cpu}m,"
        f" received {job.milli_cpu:.0f}m, throttled in {job.throttled:.0%} of periods"
    )

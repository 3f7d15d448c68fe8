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
    """A mix with GPU-proportional CPUs, and in the mode Auto.

    Attributes:
        proportional: each run with GPU-proportional CPUs.
        auto: each run in the mode Auto.
        decided: what the operator would decide by the curves, for each job.
        simulated: normalised throughput of each job by the simulator.
    """

    mix: Mix
    proportional: Sequence[Phase]
    auto: Sequence[Phase]
    decided: Sequence[Target]
    simulated: Sequence[float]

    @property
    def normalised(self) -> list[float]:
        """Mean rate of each job in the mode Auto, relative to its mean proportional rate."""
        pairs = zip(_mean_rates(self.auto), _mean_rates(self.proportional), strict=True)
        return [auto / proportional for auto, proportional in pairs]

    @property
    def gain(self) -> float:
        """Sum of the normalised throughput, divided by the number of jobs."""
        return mean(self.normalised)

    def sums(self, phases: Sequence[Phase]) -> list[float]:
        """Return the sum of normalised throughput of each run, divided by the number of jobs."""
        share = _mean_rates(self.proportional)
        return [
            mean(job.rate / rate for job, rate in zip(phase.jobs, share, strict=True))
            for phase in phases
        ]

    @property
    def repeat_error(self) -> float:
        """Difference of the best and the worst proportional run, relative to their mean."""
        found = self.sums(self.proportional)
        return max(found) - min(found)

    @property
    def predicted(self) -> float:
        """The gain that the operator would predict."""
        return mean(target.value for target in self.decided)

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
            f" by the simulator {mean(self.simulated):.3f};"
            f" proportional runs {_list(self.sums(self.proportional))},"
            f" repeat error {self.repeat_error:.1%}; Auto runs {_list(self.sums(self.auto))};"
            f" idle CPUs of the machine {self._idle}"
        )
        return {f"mix {self.mix.name}": head} | {
            f"mix {self.mix.name}, job {number} ({workload.name})": self._job(number)
            for number, workload in enumerate(self.mix.workloads)
        }

    @property
    def _idle(self) -> str:
        """Idle fraction of the machine in the proportional runs, then in those in the mode Auto."""
        return ", ".join(f"{phase.idle:.0%}" for phase in (*self.proportional, *self.auto))

    def _job(self, number: int) -> str:
        shares, autos = (
            ", ".join(_text(phase.jobs[number]) for phase in phases)
            for phases in (self.proportional, self.auto)
        )
        return (
            f"{self.normalised[number]:.3f}, predicted {self.decided[number].value:.3f} with"
            f" {self.decided[number].amounts.milli_cpu}m, simulated {self.simulated[number]:.3f};"
            f" proportional: {shares}; Auto: {autos}"
        )


def _mean_rates(phases: Sequence[Phase]) -> list[float]:
    """Return the mean rate of each job over several runs."""
    rates = ([job.rate for job in phase.jobs] for phase in phases)
    return [mean(of_job) for of_job in zip(*rates, strict=True)]


def _list(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.3f}" for value in values)


def _text(job: JobResult) -> str:
    return (
        f"{job.rate:.2f}/s ±{job.spread:.1%} with {job.limit_milli_cpu}m,"
        f" received {job.milli_cpu:.0f}m, throttled in {job.throttled:.0%}"
    )

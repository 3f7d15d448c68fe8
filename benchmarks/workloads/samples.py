"""Samples of simulated runs, with noise, outliers, drift, neighbours and CPU limits that differ."""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, TypeAlias

from benchmarks.workloads.draw import SimulatedWorkload
from benchmarks.workloads.law import RunConditions
from benchmarks.workloads.server import OtherJob, RunPlace
from gputopo.api.profile import Sample

_START: Final = datetime(2026, 1, 5, tzinfo=UTC)
_BETWEEN_RUNS: Final = timedelta(hours=6)
_BETWEEN_SAMPLES: Final = timedelta(minutes=10)

_CPU_FACTORS: Final = (1.0,) * 7 + (0.25, 0.5, 2.0)
"""CPU limit of a run, relative to the usual one: 7 of 10 runs have the usual limit."""

_MOVES: Final = 0.15
"""Probability that a neighbour arrives or leaves between two samples."""

Distortion: TypeAlias = Callable[[SimulatedWorkload, int, RunConditions], float]
"""Factor of the measured rates of a run, by the number of the run and its conditions."""


def honest(_: SimulatedWorkload, __: int, ___: RunConditions) -> float:
    """Return the factor of rates that nothing distorts."""
    return 1.0


@dataclass(frozen=True, slots=True)
class SampleNoise:
    """How measured rates differ from the law; all deviations are relative.

    Attributes:
        sample: standard deviation of the rate of one sample, independent for each sample. The
            standard deviation of a factor that all samples of a run share is a third of it.
        outliers: part of the samples that is off by a factor of 2 to 5; three of four are too slow.
        drift: the rate changes by up to this part over ``drift_runs`` runs.
        ci_spread: standard deviation of the logarithm of the reported interval around the true one.
        model: standard deviation of the true bandwidth of a GPU set around the model's.
    """

    sample: float
    outliers: float = 0.05
    drift: float = 0.1
    drift_runs: int = 16
    ci_spread: float = 0.3
    model: float = 0.0


class SimulatedSample(NamedTuple):
    """A sample, and what no estimator knows of it.

    Attributes:
        run: number of the run.
        log_error: logarithm of measured rate over true rate, without drift and outliers.
        outlier: whether the rate is off by a factor of 2 to 5.
    """

    sample: Sample
    run: int
    log_error: float
    outlier: bool


@dataclass(slots=True)
class RunHistory:
    """Makes the samples of one workload, run after run.

    Attributes:
        distortion: what else changes the rates of a run, such as a user who lies.
    """

    workload: SimulatedWorkload
    noise: SampleNoise
    draw: random.Random
    distortion: Distortion = honest
    _drift: float = field(init=False)

    def __post_init__(self) -> None:
        """Draw the drift of the workload."""
        self._drift = self.draw.uniform(-self.noise.drift, self.noise.drift)

    def drift(self, number: float) -> float:
        """Return the factor of the rates of the run with this number."""
        return 1 + self._drift * number / self.noise.drift_runs

    def run(
        self, number: int, gpus: int, place: RunPlace, cpu_factors: Sequence[float] = ()
    ) -> list[SimulatedSample]:
        """Return the samples of one run.

        With ``cpu_factors``, the run measures its CPU curve: there is one sample for each CPU limit
        relative to the usual one. Otherwise there are 3 to 8 samples with one CPU limit. Runs with
        another number of GPUs have the usual CPUs of each GPU.
        """
        usual = self.workload.cpus_per_gpu * gpus
        common = self.draw.choice(_CPU_FACTORS) if gpus == self.workload.gpus else 1.0
        factors = cpu_factors or [common] * self.draw.randint(3, 8)
        shared = _log_normal(self.draw, self.noise.sample / 3)
        uid = f"run-{number}-{gpus}"
        samples = []
        phases = zip(factors, _phases(self.draw, place), strict=False)
        for phase, (factor, jobs) in enumerate(phases):
            socket = tuple(job.workload for job in jobs if job in place.socket_jobs)
            node = tuple(job.workload for job in jobs if job in place.node_jobs)
            conditions = RunConditions(
                gpus, self._true_mb_per_s(place), factor * usual, socket, node
            )
            error = shared + _log_normal(self.draw, self.noise.sample)
            time = _START + _BETWEEN_RUNS * number + _BETWEEN_SAMPLES * (phase + 1)
            samples.append(self._sample(number, conditions, error, place, uid, time))
        return samples

    def _sample(
        self,
        number: int,
        conditions: RunConditions,
        error: float,
        place: RunPlace,
        uid: str,
        time: datetime,
    ) -> SimulatedSample:
        factor, outlier = self._factor(number, conditions)
        rate = factor * math.exp(error) / self.workload.law.seconds(conditions)
        worst, best = self.workload.server.extremes_mb_per_s(conditions.gpus)
        several = conditions.gpus > 1
        sample = Sample(
            pod_uid=uid,
            container="main",
            time=time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            seconds=self.draw.randint(60, 540),
            source="SDK",
            micro_steps_per_second=max(1, round(1e6 * rate)),
            ci_permille=self._ci_permille(),
            gpu_model=self.workload.server.topology.gpus[0].model,
            gpus=conditions.gpus,
            image_digest="sha256:1",
            model="physical" if several else None,
            effective_mb_per_s=place.mb_per_s if several else None,
            best_mb_per_s=best if several else None,
            worst_mb_per_s=worst if several else None,
            milli_cpu=round(1000 * conditions.cpus),
            memory_bytes=2**36,
            socket_neighbours=list(conditions.socket_neighbours),
            node_neighbours=[*conditions.socket_neighbours, *conditions.node_neighbours],
        )
        return SimulatedSample(sample, number, error, outlier)

    def _factor(self, number: int, conditions: RunConditions) -> tuple[float, bool]:
        """Return drift, outlier and distortion as one factor, and whether it is an outlier."""
        factor = self.distortion(self.workload, number, conditions)
        factor *= self.drift(number)
        if self.draw.random() >= self.noise.outliers:
            return factor, False
        off = self.draw.uniform(2, 5)
        return factor * (off if self.draw.random() < 0.25 else 1 / off), True  # noqa: PLR2004

    def _true_mb_per_s(self, place: RunPlace) -> float:
        """Return the true bandwidth of a GPU set: always the same for the same set."""
        if not self.noise.model:
            return place.mb_per_s
        name = f"{self.workload.server.name} {place.gpus}"
        factor = _log_normal(random.Random(name), self.noise.model)  # noqa: S311
        return place.mb_per_s * math.exp(factor)

    def _ci_permille(self) -> int:
        spread = _log_normal(self.draw, self.noise.ci_spread)
        return max(1, round(1960 * self.noise.sample * math.exp(spread)))


def _phases(draw: random.Random, place: RunPlace) -> Iterator[list[OtherJob]]:
    """Yield the jobs on the node during each sample."""
    jobs = [*place.socket_jobs, *place.node_jobs]
    present = [True] * len(jobs)
    while True:
        yield [job for job, here in zip(jobs, present, strict=True) if here]
        present = [here != (draw.random() < _MOVES) for here in present]


def _log_normal(draw: random.Random, deviation: float) -> float:
    """Return the logarithm of a factor with median 1 and this relative standard deviation."""
    return draw.gauss(0, math.sqrt(math.log1p(deviation**2)))

"""Measured GPUProfiles as input of a simulation: sensitivity and slowdown of each workload.

The run time of a workload is assumed to be linear in ``1 / b``, where ``b`` is the bandwidth that
:mod:`gputopo.bandwidth.physical` predicts (:mod:`gputopo.profiles.linkcurve` without hidden
communication). So the run times on the best and on the worst links determine the run time at each
bandwidth. Example: a workload runs 60 % longer on the worst links (12 GB/s) than on the best (48
GB/s). On the best links, communication takes the part ``c`` of the run time. On the worst links it
takes 48 / 12 = 4 times as long, so the run time grows by 3 * c. This growth is 60 %, so c = 0.6 / 3
= 0.2 (:class:`.timelaw.SlowdownCurve`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from gputopo.api.profile import GPUProfile, LinkFact
from gputopo_simulate.gpuprofiles import parse_gpuprofiles, repeated_name
from gputopo_simulate.mapa.model import SimulatedJob
from gputopo_simulate.mapa.timelaw import BandwidthTime, SlowdownCurve, TimeLaw, normalized_name

_LEAST_CONTRAST: Final = 1.01
"""Below this ratio of the best to the worst bandwidth, links make no difference."""


@dataclass(frozen=True, slots=True)
class MeasuredWorkload:
    """The measured slowdown of one workload, from its GPUProfile.

    Attributes:
        ranges: 95 % interval of the slowdown on the worst links in percent, by number of GPUs. The
            value of key 0 applies to any number of GPUs.
        curves: slowdown as a function of bandwidth, by number of GPUs.
    """

    ranges: Mapping[int, tuple[int, int]]
    curves: Mapping[int, SlowdownCurve]

    def percent_range(self, gpus: int) -> tuple[int, int] | None:
        """Return the interval of the slowdown for a number of GPUs in percent, None if unknown."""
        return self.ranges.get(0, self.ranges.get(gpus))


@dataclass(frozen=True)
class MeasuredTime:
    """Computes run times by measured curves. ``others`` is for jobs without a measured curve."""

    workloads: Mapping[str, MeasuredWorkload]
    others: TimeLaw
    name: ClassVar[str] = "profiles"

    def execution_time(self, job: SimulatedJob, effective_mb_per_s: float | None) -> float:
        """Return how long ``job`` runs with this bandwidth, which the physical model predicted."""
        known = None if job.workload is None else self.workloads.get(normalized_name(job.workload))
        curve = known.curves.get(job.pattern.size) if known else None
        if curve is None or effective_mb_per_s is None:
            return self.others.execution_time(job, effective_mb_per_s)
        return job.service * curve.slowdown(effective_mb_per_s)


def parse_profiles(text: str) -> dict[str, MeasuredWorkload]:
    """Parse the output of ``kubectl get gpuprofiles -o json`` (with ``-A`` or for one object).

    The keys of the result are the names of the profiles by :func:`normalized_name`.

    Raises:
        SimulationError: the text is invalid, or two profiles have the same name.
    """
    workloads: dict[str, MeasuredWorkload] = {}
    for where, name, profile in parse_gpuprofiles(text):
        if normalized_name(name) in workloads:
            raise repeated_name(where, name)
        workloads[normalized_name(name)] = _workload(profile)
    return workloads


def measured_time(workloads: Mapping[str, MeasuredWorkload]) -> MeasuredTime:
    """Return a time law that uses MAPA's curves for workloads without a measured curve."""
    return MeasuredTime(workloads, BandwidthTime())


def _workload(profile: GPUProfile) -> MeasuredWorkload:
    facts = profile.status.facts
    links = facts.links if facts else []
    curves = {fact.gpus: curve for fact in links if (curve := _curve(profile, fact))}
    declared = profile.spec.bandwidth_sensitivity_percent
    if declared is not None:
        return MeasuredWorkload({0: (declared, declared)}, curves)
    return MeasuredWorkload(
        {fact.gpus: (fact.low_percent, fact.high_percent) for fact in links}, curves
    )


def _curve(profile: GPUProfile, fact: LinkFact) -> SlowdownCurve | None:
    """Return the slowdown by bandwidth; None if all measured links were about equally fast."""
    same = [each for each in profile.status.samples if each.gpus == fact.gpus]
    best = max((each.best_mb_per_s or 0 for each in same), default=0)
    worst = min((each.worst_mb_per_s for each in same if each.worst_mb_per_s), default=0)
    if not worst or best / worst < _LEAST_CONTRAST:
        return None
    slower = max(0, fact.percent) / 100
    return SlowdownCurve(
        communication_share=min(1.0, slower / (best / worst - 1)),
        saturation_gb_per_s=best / 1000,
        worst=1 + slower,
    )

"""What a GPUProfile has learnt, compared with the truth. Pure."""

from gputopo.api.profile import CpuFact, GPUProfileStatus, LinkFact
from gputopo.sensitivity.resolve import SENSITIVE_FROM_PERCENT
from soaktest.client import Object

TOLERANCE_POINTS = 5.0


def status_of(profile: Object) -> GPUProfileStatus:
    """Return the status of a GPUProfile; it is empty before the first sample."""
    return GPUProfileStatus.model_validate(profile.get("status", {}))


def link_fact(status: GPUProfileStatus, gpus: int = 2) -> LinkFact | None:
    """Return the slowdown on slow links of jobs with this number of GPUs."""
    links = status.facts.links if status.facts else []
    return next((fact for fact in links if fact.gpus == gpus), None)


def cpu_fact(status: GPUProfileStatus, gpus: int = 1) -> CpuFact | None:
    """Return the CPU curve of jobs with this number of GPUs."""
    cpus = status.facts.cpus if status.facts else []
    return next((fact for fact in cpus if fact.gpus == gpus), None)


def is_right(fact: LinkFact, percent: float) -> bool:
    """Whether the class is right and the percentage is near the truth."""
    return fact.sensitivity == kind_of(percent) and is_near(fact, percent)


def kind_of(percent: float) -> str:
    """Return the true class."""
    return "Sensitive" if percent >= SENSITIVE_FROM_PERCENT else "Insensitive"


def is_near(fact: LinkFact, percent: float) -> bool:
    """Whether the percentage is within five points of the truth."""
    return abs(fact.percent - percent) <= TOLERANCE_POINTS

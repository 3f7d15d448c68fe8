"""Reads the state of a GPUEnsemble while it trains, and checks that no member runs twice."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from gputopo.api.names import ENSEMBLE_LABEL, JOB_LABEL
from showcase.kubectl import Kubectl, Object, wait_for

_MICRO = 1e6


@dataclass(slots=True)
class Observer:
    """An ensemble on a cluster.

    Attributes:
        most_gpus: highest number of GPUs that its pods requested at one time.
        twice: members of which two pods were bound at the same time.
    """

    kubectl: Kubectl
    namespace: str
    name: str
    most_gpus: int = 0
    twice: set[str] = field(default_factory=set)

    def raw(self) -> Object:
        """Return the GPUEnsemble."""
        return self.kubectl.get("gpuensemble", self.name, self.namespace)

    def look(self) -> Object:
        """Return the status, and check the pods."""
        selector = f"{ENSEMBLE_LABEL}={self.name},{JOB_LABEL}"  # without preprocessors
        pods = self.kubectl.list("pods", self.namespace, selector=selector)
        bound = [
            pod
            for pod in pods
            if pod["spec"].get("nodeName") and pod["status"].get("phase") in {"Pending", "Running"}
        ]
        counts = Counter(pod["metadata"]["labels"][JOB_LABEL] for pod in bound)
        self.twice |= {job for job, count in counts.items() if count > 1}
        self.most_gpus = max(self.most_gpus, sum(gpus_of_pod(pod) for pod in bound))
        status: Object = self.raw().get("status") or {}
        return status

    def member(self, name: str) -> Object:
        """Return the status of a member; empty before the first plan."""
        found: list[Object] = self.look().get("members") or []
        return next((each for each in found if each["name"] == name), {})

    def wait(self, what: str, reached: Callable[[Object], Any], timeout_s: float) -> Object:
        """Wait until the status fulfils a condition; return it."""

        def look() -> Object | None:
            status = self.look()
            return status if reached(status) else None

        return wait_for(what, look, timeout_s=timeout_s, interval_s=1.0)

    def makespan(self) -> float:
        """Return the seconds from the creation to the end of the last member."""
        jobs = self.kubectl.list(
            "jobs.batch", self.namespace, selector=f"{ENSEMBLE_LABEL}={self.name}"
        )
        ends = [_time(job["status"]["completionTime"]) for job in jobs]
        return (max(ends) - _time(self.raw()["metadata"]["creationTimestamp"])).total_seconds()


def phases(status: Object) -> dict[str, str]:
    """Return the phase of each member."""
    return {each["name"]: each["phase"] for each in status.get("members") or []}


def rates_table(status: Object, truth: Callable[[str, int], float]) -> Sequence[str]:
    """Return lines with GPUs, planned, measured and true items per second of each member."""
    lines = ["member     GPUs  node   planned  measured  true"]
    for each in status["members"]:
        gpus = each.get("gpus") or 0
        lines.append(
            f"{each['name']:9}  {gpus:4}  {each.get('node', '-'):5}"
            f"  {_rate(each, 'plannedMicroItemsPerSecond'):>7}"
            f"  {_rate(each, 'measuredMicroItemsPerSecond'):>8}"
            f"  {truth(each['name'], gpus) if gpus else 0:6.1f}"
        )
    return lines


def _rate(member: Object, field_name: str) -> str:
    value = member.get(field_name)
    return "-" if value is None else f"{value / _MICRO:.1f}"


def gpus_of_pod(pod: Object) -> int:
    """Return the GPUs that a pod requests."""
    containers = pod["spec"]["containers"]
    limits = (each.get("resources", {}).get("limits", {}) for each in containers)
    return sum(int(each.get("gputopo.io/gpu", 0)) for each in limits)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)

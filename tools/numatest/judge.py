"""Judges how each pod of a trial ended. Pure."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gputopo.api.names import GPUS_ANNOTATION
from numatest.pods import RandomPod, fits_ever


class PodVerdict(StrEnum):
    """How a pod ended."""

    RAN = "ran"
    NEVER_FITS = "rejected by the filter"
    OVERRULED = "other GPUs than chosen"
    REJECTED = "rejected by kubelet"
    FALSE_REASON = "pending with a wrong reason"
    FAR_CPUS = "CPUs on another NUMA node"


BAD = (PodVerdict.OVERRULED, PodVerdict.REJECTED, PodVerdict.FALSE_REASON, PodVerdict.FAR_CPUS)
"""Endings that must not occur."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One pod with its verdict.

    Attributes:
        waited_seconds: from the creation to the binding; None if it was not bound.
        detail: message of a rejection, or the differing values.
    """

    pod: RandomPod
    verdict: PodVerdict
    waited_seconds: float | None = None
    detail: str = ""


def judge_ended(
    pod: RandomPod, document: Mapping[str, Any], log: str, policy: str, waited: float
) -> Judged:
    """Judge a pod that has succeeded or failed by its object and its output."""
    status = document["status"]
    if status["phase"] == "Failed":
        text = f"{status.get('reason')}: {status.get('message')}"
        return Judged(pod, PodVerdict.REJECTED, waited, text)
    annotation = json.loads(document["metadata"]["annotations"][GPUS_ANNOTATION])
    chosen = ",".join(annotation["containers"]["main"])
    got, numa_nodes, cpus = [line.strip() for line in log.splitlines()[:3]]
    if got != chosen:
        return Judged(pod, PodVerdict.OVERRULED, waited, f"chosen {chosen}, has {got}")
    own = cpus.rpartition(":")[2].strip()
    # NUMA node N of a node has the one CPU N.
    if pod.cpus and policy in {"restricted", "single-numa-node"} and own != numa_nodes:
        return Judged(pod, PodVerdict.FAR_CPUS, waited, f"GPUs on {numa_nodes}, CPUs {own}")
    return Judged(pod, PodVerdict.RAN, waited)


def judge_pending(pod: RandomPod, message: str, policy: str) -> Judged | None:
    """Judge a pod that kube-scheduler cannot place now; None if it may fit later.

    Args:
        pod: the pod.
        message: of its condition PodScheduled.
        policy: policy of all kubelets.
    """
    never = f"topologyManagerPolicy {policy}: " in message and "exclusive CPU" in message
    never = never or (f"topologyManagerPolicy {policy}: {pod.gpus} GPUs do not fit" in message)
    if fits_ever(policy, pod):
        return None
    return Judged(pod, PodVerdict.NEVER_FITS, None, message) if never else None


def late(pod: RandomPod, message: str) -> Judged:
    """Judge a pod that was not placed in time, although it fits, or without a true reason."""
    return Judged(pod, PodVerdict.FALSE_REASON, None, message)


@dataclass(frozen=True, slots=True)
class PolicyTrial:
    """The result of one policy."""

    policy: str
    pods: Sequence[Judged]
    seconds: float

    @property
    def findings(self) -> list[Judged]:
        """The pods with a verdict that must not occur."""
        return [each for each in self.pods if each.verdict in BAD]


def table(trials: Iterable[PolicyTrial]) -> list[str]:
    """Return the lines of the table of all policies."""
    head = ("policy", "pods", "with CPU", *PodVerdict, "median wait", "pods/s")
    rows: list[Sequence[str]] = [head]
    for one in trials:
        counts = Counter(each.verdict for each in one.pods)
        waits = sorted(each.waited_seconds for each in one.pods if each.waited_seconds is not None)
        rows.append(
            (
                one.policy,
                str(len(one.pods)),
                str(sum(each.pod.cpus for each in one.pods)),
                *(str(counts[each]) for each in PodVerdict),
                f"{waits[len(waits) // 2]:.1f} s" if waits else "-",
                f"{len(one.pods) / one.seconds:.1f}",
            )
        )
    return [f"| {' | '.join(row)} |" for row in rows]


def document(trials: Iterable[PolicyTrial]) -> list[dict[str, Any]]:
    """Return the trials as JSON values; details only where something went wrong."""
    return [
        {
            "policy": one.policy,
            "pods": len(one.pods),
            "verdicts": Counter(each.verdict.value for each in one.pods),
            "findings": [f"{each.pod}: {each.verdict}: {each.detail}" for each in one.findings],
            "reasons": Counter(
                each.detail for each in one.pods if each.verdict is PodVerdict.NEVER_FITS
            ).most_common(20),
        }
        for one in trials
    ]

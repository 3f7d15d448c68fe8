"""Judges each moment of a trial, and how each pod ended. Pure."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from gputopo.api.annotations import AnnotationError
from gputopo.api.names import GPUS_ANNOTATION
from gputopo.api.quantity import parse_bytes
from gputopo.api.shares import gpu_of, is_share, parse_sharing, usable_bytes
from sharetest.pods import RandomPod

Object = Mapping[str, Any]


class PodVerdict(StrEnum):
    """How a pod ended."""

    RAN = "ran"
    REJECTED = "rejected by kubelet"
    FAILED = "failed"
    OTHER_DEVICE = "other devices than chosen"
    LATE = "not placed in time"


@dataclass(frozen=True, slots=True)
class Judged:
    """One pod with its verdict; ``detail`` is a message or the differing values."""

    pod: RandomPod
    verdict: PodVerdict
    detail: str = ""


@dataclass(slots=True)
class Findings:
    """What must not occur, and what a trial saw.

    Attributes:
        whole_shared: moments at which a whole GPU belonged to another pod too.
        beyond_limit: moments with more pods on a GPU than allowed, or one share twice.
        beyond_memory: moments with more declared memory on a GPU than it has.
        differences: pods whose GPUTopology names another device than their annotation.
        most_together: most pods seen on one GPU.
        moments: number of moments that were judged.
    """

    whole_shared: list[str] = field(default_factory=list)
    beyond_limit: list[str] = field(default_factory=list)
    beyond_memory: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    most_together: int = 0
    moments: int = 0

    @property
    def bad(self) -> list[str]:
        """All findings."""
        return [
            *self.whole_shared,
            *self.beyond_limit,
            *self.beyond_memory,
            *self.differences,
        ]


def judge_moment(pods: Iterable[Object], topologies: Iterable[Object], found: Findings) -> None:
    """Add what is wrong with the pods that run now."""
    found.moments += 1
    users: dict[str, list[tuple[str, Object]]] = defaultdict(list)
    for pod in pods:
        for device in devices(pod) if runs(pod) else ():
            users[gpu_of(device)].append((device, pod))
    for topology in topologies:
        most = topology.get("status", {}).get("sharing", {}).get("maxPodsPerGPU", 0)
        for gpu in topology["spec"]["gpus"]:
            if gpu["uuid"] in users:
                _judge_gpu(gpu, users[gpu["uuid"]], most, found)
        found.differences += _differences(topology, users)


def runs(pod: Object) -> bool:
    """Return whether a container of the pod runs."""
    states = [each.get("state", {}) for each in pod["status"].get("containerStatuses") or ()]
    return any("running" in state for state in states)


def devices(pod: Object) -> list[str]:
    """Return the devices in the annotation of a pod."""
    text = pod["metadata"].get("annotations", {}).get(GPUS_ANNOTATION)
    named = json.loads(text)["containers"].values() if text else ()
    return [device for devices in named for device in devices]


def judge_ended(pod: RandomPod, document: Object, log: str) -> Judged:
    """Judge a pod that has succeeded or failed by its object and its output."""
    status = document["status"]
    chosen = ",".join(map(gpu_of, devices(document)))
    lines = [line.strip() for line in log.splitlines()]
    if lines and lines[0] != chosen:
        return Judged(pod, PodVerdict.OTHER_DEVICE, f"chosen {chosen}, has {lines[0]}")
    if status["phase"] == "Succeeded":
        return Judged(pod, PodVerdict.RAN)
    reason = f"{status.get('reason')}: {status.get('message')}"
    started = bool(status.get("containerStatuses"))
    verdict = PodVerdict.FAILED if started and lines else PodVerdict.REJECTED
    return Judged(pod, verdict, f"{reason} {' '.join(lines[2:])}".strip())


def _judge_gpu(
    gpu: Object, users: Sequence[tuple[str, Object]], most: int, found: Findings
) -> None:
    names = ", ".join(f"{pod['metadata']['name']} {device}" for device, pod in users)
    shares = [device for device, _ in users if is_share(device)]
    found.most_together = max(found.most_together, len(users))
    if len(users) > 1 and len(shares) < len(users):
        found.whole_shared.append(names)
    if len(shares) > max(1, most) or len(set(shares)) < len(shares):
        found.beyond_limit.append(names)
    size = parse_bytes(gpu["memory"], "gpus[].memory")
    if shares and sum(_memory(pod, size, most) for _, pod in users) > usable_bytes(size):
        found.beyond_memory.append(names)


def _memory(pod: Object, gpu_bytes: int, most: int) -> int:
    try:
        limits = parse_sharing(pod["metadata"].get("annotations", {}))
    except AnnotationError:
        return 0
    return limits.memory_on(gpu_bytes, max(1, most))


def _differences(
    topology: Object, users: Mapping[str, Sequence[tuple[str, Object]]]
) -> Iterator[str]:
    """Yield the pods that the agent observes on another device than their annotation names."""
    chosen = {pod["metadata"]["uid"]: device for pairs in users.values() for device, pod in pairs}
    for gpu in topology.get("status", {}).get("gpus", ()):
        for share in gpu.get("shares") or ():
            own = chosen.get(share.get("podUID"))
            if own is not None and own != share["id"]:
                yield f"{share.get('pod')}: chosen {own}, observed {share['id']}"


def table(
    done: Sequence[Judged], found: Findings, kills: Counter[str], seconds: float
) -> list[str]:
    """Return the lines of the result."""
    counts = Counter(each.verdict for each in done)
    shares = sum(not each.pod.gpus for each in done)
    summary = (
        f"{len(done)} pods in {seconds:.0f} s, {shares} of them with a share; "
        f"{found.moments} moments; most pods on one GPU: {found.most_together}"
    )
    return [
        summary,
        "kills: " + (", ".join(f"{name} {n}" for name, n in sorted(kills.items())) or "none"),
        *(f"{verdict}: {counts[verdict]}" for verdict in PodVerdict),
        f"whole GPUs shared: {len(found.whole_shared)}",
        f"shares beyond the limit: {len(found.beyond_limit)}",
        f"shares beyond the memory: {len(found.beyond_memory)}",
        f"differences: {len(found.differences)}",
    ]

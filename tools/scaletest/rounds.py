"""One scheduler's turn: equal pods, then mixed ones, all pending before it starts to place them."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from gputopo.api.annotations import parse_gpus
from scaletest import fleet, objects
from scaletest.measure import Latency, parts_seconds, processor_seconds, rate
from scaletest.schedulers import Ours, Scheduler
from showcase.kubectl import wait_for
from soaktest.client import Client, Object
from soaktest.first_seen import FirstSeen

_PATIENCE_SECONDS = 300.0
_REST_SECONDS = 300
_LOOK_SECONDS = 2.0
_AT_REST = 0.25
"""Processors in use."""


@dataclass(frozen=True, slots=True)
class Round:
    """The result of one scheduler with one set of pods.

    Attributes:
        turn: which turn of the scheduler it was, from 0.
        per_second: bindings between the first and the last.
        latencies: of the extender's verbs, by verb.
        processor_ms: per pod, by part of the cluster.
        twice: GPUs that were given to two pods, and missing GPUs; must be 0.
        nodes: number of nodes in use, also by earlier sets.
        partly: number of these nodes with free GPUs.
    """

    scheduler: str
    turn: int
    pods: str
    bound: int
    per_second: float
    latencies: dict[str, Latency]
    processor_ms: dict[str, float]
    twice: int
    nodes: int
    partly: int


def take_turn(
    client: Client,
    scheduler: Scheduler,
    turn: int,
    sets: Sequence[tuple[str, Sequence[int]]],
    report: Callable[[str], None],
) -> list[Round]:
    """Have a scheduler place one set of pods after the other, then remove all pods."""
    rounds = []
    try:
        for title, sizes in sets:
            report(f"{scheduler.title}: {title}")
            rounds.append(_round(client, scheduler, turn, title, sizes))
            report(f"{scheduler.title}: {title}: {rounds[-1].per_second:.1f} pods/s")
    finally:
        fleet.remove_pods(client)
    return rounds


def _round(
    client: Client, scheduler: Scheduler, turn: int, title: str, sizes: Sequence[int]
) -> Round:
    prefix = title.split()[1]
    pods = [
        objects.pod(f"{prefix}-{number}", gpus, scheduler.name) for number, gpus in enumerate(sizes)
    ]
    fleet.each(lambda pod: client.create(fleet.PODS, pod), pods)
    with FirstSeen(client, fleet.PODS, partial(_is_bound, prefix)) as bindings:
        wait_for("the cluster is at rest", _AtRest(), timeout_s=_REST_SECONDS)
        with scheduler.started():
            bindings.wait(1, _PATIENCE_SECONDS)
            before = processor_seconds()
            times = bindings.wait(len(pods), _PATIENCE_SECONDS)
            after = processor_seconds()
    placed = client.get(fleet.PODS)["items"]
    in_use = gpus_by_node(placed)
    used = {part: (after[part] - before.get(part, 0)) / len(times) * 1000 for part in after}
    return Round(
        scheduler=scheduler.title,
        turn=turn,
        pods=title,
        bound=len(times),
        per_second=rate(times),
        latencies=scheduler.latencies(),
        processor_ms={part: round(value, 2) for part, value in used.items() if value > 0},
        twice=given_twice(placed) if isinstance(scheduler, Ours) else 0,
        nodes=len(in_use),
        partly=sum(gpus < objects.GPUS_PER_NODE for gpus in in_use.values()),
    )


class _AtRest:
    """Whether the cluster is idle again after the creation and removal of thousands of pods.

    Otherwise this work would count against the next scheduler.
    """

    def __init__(self) -> None:
        self._before = sum(parts_seconds().values())

    def __call__(self) -> bool:
        time.sleep(_LOOK_SECONDS)
        now = sum(parts_seconds().values())
        used, self._before = (now - self._before) / _LOOK_SECONDS, now
        return used < _AT_REST


def _is_bound(prefix: str, pod: Object) -> bool:
    """Whether a pod belongs to the set with this prefix and is bound."""
    return "nodeName" in pod["spec"] and pod["metadata"]["name"].startswith(f"{prefix}-")


def gpus_by_node(pods: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Return the number of requested GPUs of the bound pods of each node."""
    in_use = Counter[str]()
    for pod in pods:
        if node := pod["spec"].get("nodeName"):
            in_use[node] += objects.wanted(pod)
    return in_use


def given_twice(pods: Iterable[Mapping[str, Any]]) -> int:
    """Return how many GPUs are annotated twice or missing; only annotations name GPUs here."""
    wrong, held = 0, set()
    for pod in pods:
        gpus = parse_gpus(pod["metadata"].get("annotations", {}))
        uuids = gpus.containers["main"] if gpus else []
        wrong += len(uuids) != objects.wanted(pod)
        wrong += sum(uuid in held for uuid in uuids)
        held |= set(uuids)
    return wrong

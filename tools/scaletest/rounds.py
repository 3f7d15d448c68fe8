"""One scheduler's turn: equal pods, then mixed ones, all pending before it starts to place them."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gputopo.api.annotations import parse_gpus
from scaletest import fleet, objects
from scaletest.measure import Latency, parts_seconds, processor_seconds, rate
from scaletest.schedulers import Ours, Scheduler
from showcase.kubectl import wait_for
from soaktest.client import Client, RejectedError, UnavailableError

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
    watch = _Bindings(client, prefix)
    wait_for("the cluster is at rest", _AtRest(), timeout_s=_REST_SECONDS)
    with scheduler.started():
        watch.wait_first()
        before = processor_seconds()
        times = watch.wait_all(len(pods))
        after = processor_seconds()
    watch.stop()
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


class _Bindings:
    """The times at which a watch saw each pod of a set as bound."""

    def __init__(self, client: Client, prefix: str) -> None:
        self._client, self._prefix = client, f"{prefix}-"
        self._times: dict[str, float] = {}
        self._ended = False
        self._version = client.get(fleet.PODS, limit="1")["metadata"]["resourceVersion"]
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def wait_first(self) -> None:
        """Wait for the first binding."""
        self._wait(1)

    def wait_all(self, count: int) -> list[float]:
        """Return the times of all bindings, or of those within the time limit."""
        self._wait(count)
        return list(self._times.values())

    def stop(self) -> None:
        """Stop watching."""
        self._ended = True
        self._thread.join()

    def _wait(self, count: int) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while len(self._times) < count and time.monotonic() < deadline:
            time.sleep(0.05)

    def _follow(self) -> None:
        while not self._ended:
            try:
                for _, pod in self._client.watch(fleet.PODS, self._version):
                    self._version = pod["metadata"]["resourceVersion"]
                    name = pod["metadata"]["name"]
                    if pod["spec"].get("nodeName") and name.startswith(self._prefix):
                        self._times.setdefault(name, time.monotonic())
            except UnavailableError:
                continue
            except RejectedError:
                return


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

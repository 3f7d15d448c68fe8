"""A pod ends while another waits for its GPUs, and the extender learns of it late.

Every second round the extender is frozen when the end of the first pod may be reported; in the
others its containers get 5 % of a processor. Half of the rounds have the second pod wait for the
node; in the other half it is created when the first has ended, with a higher priority than pods
on another node that it could replace.
"""

import random
import threading
import time
from dataclasses import dataclass
from typing import Literal

from faulttest import pods
from faulttest.bench import Bench
from faulttest.scenario import Options
from localcluster import slow
from soaktest.client import AwayError, Object, RefusedError

Fault = Literal["frozen", "limited"]

LIMIT_SECONDS = 6.0
_EXTENDER = "gputopo-extender"
_ROUNDS = 200
_SHARE = 0.05
_FROZEN_SECONDS = 0.3
_RUN_SECONDS = 1.0
_GPUS = 8
_WAIT_SECONDS = 30.0
_PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
_HIGH, _LOW = "gputopo-faults-high", "gputopo-faults-low"


@dataclass(frozen=True, slots=True)
class Waited:
    """One round.

    Attributes:
        seconds: from the end of the first pod (or the creation of the second, where that is
            later) to the second pod's start.
        messages: what the scheduler wrote to the second pod's status after the first had ended.
    """

    fault: Fault
    waited_before: bool
    seconds: float
    messages: list[str]


def carry_out(bench: Bench, options: Options) -> None:
    """Carry out all rounds on one node, with bystanders on another one."""
    rng = random.Random(options.seed)  # noqa: S311 - repeatable on purpose
    node, other = bench.nodes[:2]
    _remove_classes(bench)
    for name, value in ((_LOW, 1), (_HIGH, 1000)):
        bench.client.create(_PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
    try:
        bystanders = [
            bench.start(_prioritized(pods.pod(f"bystander-{n}", 1, bench.image, other), _LOW))
            for n in range(_GPUS)
        ]
        done = [
            _round(bench, rng, number, (node, other)) for number in range(options.rounds or _ROUNDS)
        ]
        _report(bench, done, bystanders)
    finally:
        _remove_classes(bench)


def _round(bench: Bench, rng: random.Random, number: int, nodes: tuple[str, str]) -> Waited:
    fault: Fault = "frozen" if number % 2 else "limited"
    waits = number % 4 < 2  # noqa: PLR2004 - both faults in turn
    first = pods.short(f"first-{number}", _GPUS, bench.image, nodes[0], _RUN_SECONDS)
    one = bench.start(_prioritized(first, _HIGH))
    second = _second(bench, f"second-{number}", nodes, pinned=waits)
    if fault == "limited":
        with slow.limited(_EXTENDER, _SHARE):
            two, began = _hand_over(bench, one, second, waits=waits)
            _wait(bench, two)
    else:
        with _Freezer(bench, one, rng.uniform(0, 1)):
            two, began = _hand_over(bench, one, second, waits=waits)
            _wait(bench, two)
    seconds = bench.follower.running_since.get(two, time.monotonic()) - began
    messages = [
        text for text in bench.follower.reasons.get(two, []) if "gputopo.io/gpu" not in text
    ]
    if seconds > LIMIT_SECONDS:
        bench.finding("long waits", f"round {number}, {fault}: {seconds:.1f} s, {messages}")
    bench.judge_failed([two])
    for name in (f"first-{number}", f"second-{number}"):
        bench.delete(name)
    bench.reach("the node is free", lambda: bench.follower.pod(two) is None)
    return Waited(fault, waits, round(seconds, 2), messages)


class _Freezer:
    """Freezes the extender once, some time after the pod's last process has ended."""

    def __init__(self, bench: Bench, pod_uid: str, after_seconds: float) -> None:
        self._bench, self._pod_uid, self._after_seconds = bench, pod_uid, after_seconds
        self._thread = threading.Thread(target=self._run, name="freeze", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._thread.join()

    def _run(self) -> None:
        pids = slow.of_program(_EXTENDER)
        life = self._bench.sampler.of_pod(self._pod_uid)[-1]
        while time.monotonic() - life.last < self._after_seconds + 0.1:
            if time.monotonic() - life.first > _WAIT_SECONDS:
                return
            time.sleep(0.01)
        slow.freeze(pids, _FROZEN_SECONDS)


def _hand_over(bench: Bench, one: str, second: Object, *, waits: bool) -> tuple[str, float]:
    """Create the second pod before or after the first ends; return it and when it could run."""
    if waits:
        two = bench.create(second)
    bench.reach("the first pod ends", lambda: one in bench.follower.ended_since)
    if not waits:
        two = bench.create(second)
        return two, time.monotonic()
    return two, bench.follower.ended_since.get(one, time.monotonic())


def _second(bench: Bench, name: str, nodes: tuple[str, str], *, pinned: bool) -> Object:
    made = _prioritized(pods.pod(name, _GPUS, bench.image, nodes[0] if pinned else None), _HIGH)
    if not pinned:
        terms = [
            {
                "matchExpressions": [
                    {"key": "kubernetes.io/hostname", "operator": "In", "values": list(nodes)}
                ]
            }
        ]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        made["spec"]["affinity"] = {"nodeAffinity": required}
    return made


def _prioritized(made: Object, name: str) -> Object:
    made["spec"]["priorityClassName"] = name
    return made


def _wait(bench: Bench, uid: str) -> None:
    bench.reach(
        "the second pod runs or fails",
        lambda: bench.runs(uid) or bench.failed(uid) is not None,
        _WAIT_SECONDS,
        "pods that did not run",
    )


def _report(bench: Bench, done: list[Waited], bystanders: list[str]) -> None:
    bench.seen["rounds"] = len(done)
    for fault in ("limited", "frozen"):
        for waited_before in (True, False):
            times = sorted(
                one.seconds
                for one in done
                if (one.fault, one.waited_before) == (fault, waited_before)
            )
            if times:
                what = "waited before" if waited_before else "created after"
                bench.seen[f"waits, {fault}, {what}"] = (
                    f"median {times[len(times) // 2]:.2f} s, longest {times[-1]:.2f} s"
                )
    bench.seen["rounds with a message after the end"] = sum(bool(one.messages) for one in done)
    ended = [uid for uid in bystanders if bench.follower.pod(uid) is None or bench.failed(uid)]
    bench.seen["bystanders preempted"] = len(ended)
    if ended:
        names = [bench.follower.seen[uid].name for uid in ended]
        bench.finding("bystanders preempted", str(names))


def _remove_classes(bench: Bench) -> None:
    for name in (_LOW, _HIGH):
        try:
            bench.client.delete(f"{_PRIORITY_CLASSES}/{name}")
        except (AwayError, RefusedError):
            continue

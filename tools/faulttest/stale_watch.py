"""A pod ends while another waits for its GPUs, and the extender's watch is late.

When the pod's process ends, 150 patches of other pods go ahead of the report of that end in the
extender's watch. The extender has 5 % of a processor meanwhile; in every second round it is frozen
instead, until 0.3 s after the report. Half of the rounds have the second pod wait for the node; in
the other half it is created when the first has ended, with a higher priority than pods on another
node that it could replace.
"""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Literal

from faulttest import pods
from faulttest.bench import Bench
from faulttest.scenario import Options
from localcluster import access, slow
from soaktest.client import Object, RejectedError, UnavailableError

Fault = Literal["frozen", "limited"]

LIMIT_SECONDS = 6.0
_EXTENDER = "gputopo-extender"
_PATCHES = 150
_ROUNDS = 200
_SHARE = 0.05
_FROZEN_SECONDS = 0.3
_ENDED_SECONDS = 0.15  # without a sample of it
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
        messages: texts of the scheduler in the second pod's status after the first had ended.
    """

    fault: Fault
    waited_before: bool
    seconds: float
    messages: list[str]


def carry_out(bench: Bench, options: Options) -> None:
    """Carry out all rounds on one node, with bystanders on another one."""
    node, other = bench.nodes[:2]
    _remove_classes(bench)
    for name, value in ((_LOW, 1), (_HIGH, 1000)):
        bench.client.create(_PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
    try:
        done = []
        for number in range(options.rounds or _ROUNDS):
            bystanders = _bystanders(bench, other)
            done.append(_round(bench, number, (node, other)))
            _judge_bystanders(bench, bystanders, number)
        _report(bench, done)
    finally:
        _remove_classes(bench)


def _round(bench: Bench, number: int, nodes: tuple[str, str]) -> Waited:
    fault: Fault = "frozen" if number % 2 else "limited"
    waits = number % 4 < 2  # noqa: PLR2004 - both faults in turn
    first = pods.short(f"first-{number}", _GPUS, bench.image, nodes[0], _RUN_SECONDS)
    one = bench.start(_prioritized(first, _HIGH))
    second = _second(bench, f"second-{number}", nodes, pinned=waits)
    with (
        slow.limited(bench.machines, _EXTENDER, _SHARE) if fault == "limited" else nullcontext(),
        _Disturbance(bench, one, fault),
    ):
        two, began = _hand_over(bench, one, second, waits=waits)
        _wait(bench, two)
    seconds = bench.pod_watcher.running_since.get(two, time.monotonic()) - began
    messages = [
        text for text in bench.pod_watcher.reasons.get(two, []) if "gputopo.io/gpu" not in text
    ]
    if seconds > LIMIT_SECONDS:
        bench.finding("long waits", f"round {number}, {fault}: {seconds:.1f} s, {messages}")
    bench.judge_failed([two])
    for name in (f"first-{number}", f"second-{number}"):
        bench.delete(name)
    bench.reach("the second pod is gone", lambda: bench.pod_watcher.pod(two) is None)
    where = bench.pod_watcher.seen[two].node
    if where not in {nodes[0], ""}:
        bench.finding("pods on another node", f"round {number}, {fault}: on {where}")
    return Waited(fault, waits, round(seconds, 2), messages)


class _Disturbance:
    """Delays the extender's watch around the end of a pod, in its own thread."""

    def __init__(self, bench: Bench, pod_uid: str, fault: Fault) -> None:
        self._bench, self._pod_uid, self._fault = bench, pod_uid, fault
        self._thread = threading.Thread(target=self._run, name="disturb", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._thread.join()

    def _run(self) -> None:
        extenders = access.of_program(self._bench.machines, _EXTENDER)
        life = self._bench.sampler.of_pod(self._pod_uid)[-1]
        while time.monotonic() - life.last < _ENDED_SECONDS:
            time.sleep(0.01)
        if self._fault == "limited":
            self._patch_bystanders()
            return
        with slow.frozen(extenders):
            self._patch_bystanders()
            self._wait_reported()
            time.sleep(_FROZEN_SECONDS)

    def _patch_bystanders(self) -> None:
        """Send events before the report of the end."""

        def patch(number: int) -> None:
            change = {"metadata": {"annotations": {"example.com/seen": f"{life}-{number}"}}}
            with suppress(RejectedError):  # it was preempted
                self._bench.client.patch(f"{pods.PODS}/bystander-{number % _GPUS}", change)

        life = self._pod_uid
        with ThreadPoolExecutor(_GPUS) as pool:
            list(pool.map(patch, range(_PATCHES)))

    def _wait_reported(self) -> None:
        deadline = time.monotonic() + _WAIT_SECONDS
        while self._pod_uid not in self._bench.pod_watcher.ended_since:
            if time.monotonic() > deadline:
                return
            time.sleep(0.005)


def _hand_over(bench: Bench, one: str, second: Object, *, waits: bool) -> tuple[str, float]:
    """Create the second pod before or after the first ends; return it and when it could run."""
    if waits:
        two = bench.create(second)
    bench.reach("the first pod ends", lambda: one in bench.pod_watcher.ended_since)
    if not waits:
        two = bench.create(second)
        return two, time.monotonic()
    return two, bench.pod_watcher.ended_since.get(one, time.monotonic())


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


def _report(bench: Bench, done: list[Waited]) -> None:
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


def _bystanders(bench: Bench, node: str) -> list[str]:
    """Create missing pods of low priority, and return those that run."""
    names = [f"bystander-{number}" for number in range(_GPUS)]
    present = {
        pod.name: pod.uid for pod in bench.pod_watcher.pods() if pod.live and not pod.leaving
    }
    return [
        present.get(name) or bench.start(_prioritized(pods.pod(name, 1, bench.image, node), _LOW))
        for name in names
    ]


def _judge_bystanders(bench: Bench, uids: list[str], number: int) -> None:
    ended = [uid for uid in uids if uid in bench.pod_watcher.gone_since or bench.failed(uid)]
    bench.seen["bystanders preempted"] = bench.seen.get("bystanders preempted", 0) + len(ended)
    if ended:
        names = sorted(bench.pod_watcher.seen[uid].name for uid in ended)
        bench.finding("bystanders preempted", f"round {number}: {' '.join(names)}")


def _remove_classes(bench: Bench) -> None:
    for name in (_LOW, _HIGH):
        try:
            bench.client.delete(f"{_PRIORITY_CLASSES}/{name}")
        except (UnavailableError, RejectedError):
            continue

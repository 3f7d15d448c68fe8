"""A controller patches a pending pod all the time: the pod must still be bound and run."""

import itertools
import threading
import time
from typing import Self

from faulttest import pods
from faulttest.bench import Bench
from faulttest.scenario import Options
from soaktest.client import RejectedError, UnavailableError

_ROUNDS = 20
_GATED_SECONDS = 0.5
_GATED = "non-empty scheduling gates"
_PATCHES_PER_SECOND = 20.0
_LIMIT_SECONDS = 60.0
_GATE = "gputopo.io/faults"


class Patcher:
    """Patches one pod in its own thread until it is stopped.

    Attributes:
        patches: number of accepted patches.
    """

    def __init__(self, bench: Bench, name: str) -> None:
        self._bench, self._name = bench, name
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="patch", daemon=True)
        self.patches = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        due = time.monotonic()
        for number in itertools.count():
            due += 1 / _PATCHES_PER_SECOND
            if self._ended.wait(max(0.0, due - time.monotonic())):
                return
            change = {"metadata": {"annotations": {"example.com/seen": str(number)}}}
            try:
                self._bench.client.patch(f"{pods.PODS}/{self._name}", change)
                self.patches += 1
            except (UnavailableError, RejectedError):
                pass


def carry_out(bench: Bench, options: Options) -> None:
    """Release one gated pod after another while it is patched 20 times a second."""
    rounds = [_one_round(bench, number) for number in range(options.rounds or _ROUNDS)]
    bench.seen["pods"] = len(rounds)
    bench.seen["patches"] = sum(patches for _, patches in rounds)
    bench.seen["longest wait for a running pod"] = max(wait for wait, _ in rounds)


def _one_round(bench: Bench, number: int) -> tuple[float, int]:
    """Return the seconds until the pod ran, and how many patches it got."""
    name = f"patched-{number}"
    body = pods.pod(name, 1, bench.image)
    body["spec"]["schedulingGates"] = [{"name": _GATE}]
    uid = bench.create(body)
    with Patcher(bench, name) as patcher:
        time.sleep(_GATED_SECONDS)
        ungated = {"spec": {"schedulingGates": None}}
        bench.patient(lambda: bench.client.patch(f"{pods.PODS}/{name}", ungated))
        began = time.monotonic()
        bench.reach(f"{name} runs", lambda: bench.runs(uid), _LIMIT_SECONDS, "pods that wait")
        wait = time.monotonic() - began
    bench.judge_failed([uid])
    for text in bench.pod_watcher.reasons.get(uid, []):
        if _GATED not in text:
            bench.finding("binds given up", f"{name}: {text}")
    bench.delete(name)
    return wait, patcher.patches

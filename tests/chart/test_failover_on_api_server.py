"""Two schedulers with their extenders: the leader is killed, frozen, or its extender crashes."""

import itertools
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gputopo_extender.handover.leader import STANDBY_READY_SECONDS
from support.control_plane.api_server import PODS, ApiServer
from support.control_plane.scheduler_pairs import (
    Pair,
    Pods,
    put_pod,
    running_pairs,
    wait_until,
    watched,
)
from support.helm_chart import Helm

LEASE_SECONDS = 10

_number = itertools.count()


@pytest.fixture
def pairs(
    nodes: ApiServer, helm: Helm, kubernetes_binaries: Path, tmp_path: Path
) -> Iterator[list[Pair]]:
    with running_pairs(
        nodes, helm, kubernetes_binaries, tmp_path, count=2, lease_seconds=LEASE_SECONDS
    ) as both:
        yield both


@contextmanager
def burst(server: ApiServer, seen: Pods) -> Iterator[None]:
    """Make pods of 1 to 4 GPUs and delete bound ones, as fast as the API server likes."""
    over = threading.Event()
    chance = random.Random(5)  # noqa: S311 - which pod ends is no secret
    made: list[str] = []

    def make_and_delete() -> None:
        while not over.is_set():
            waiting = [name for name in list(seen.live) if name not in seen.bound_at]
            if len(waiting) < 24:
                made.append(f"p{next(_number)}")
                put_pod(server, made[-1], chance.randint(1, 4))
                continue
            bound = [name for name in list(seen.live) if name in seen.bound_at]
            for name in chance.sample(bound, min(6, len(bound))):
                server.delete(f"{PODS}/{name}")
            time.sleep(0.05)

    thread = threading.Thread(target=make_and_delete)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        # Not those in `seen`: the watch may be behind, and what it shows later would stay.
        for name in made:
            server.delete(f"{PODS}/{name}")
        wait_until(lambda: not seen.live, seconds=30)


def leader(pairs: list[Pair]) -> Pair:
    return max(pairs, key=Pair.bound)


@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
def test_standby_takes_over_and_no_gpu_is_given_twice(
    nodes: ApiServer, pairs: list[Pair], fault: signal.Signals
) -> None:
    with watched(nodes) as seen, burst(nodes, seen):
        wait_until(lambda: len(seen.bound_at) > 40, seconds=60)
        first = leader(pairs)
        (other,) = [pair for pair in pairs if pair is not first]
        assert other.bound() == 0, "who does not lead binds nothing"
        assert other.is_ready()

        struck = time.monotonic()
        first.send(fault)
        wait_until(lambda: other.bound() > 20, seconds=60)
        gap = seen.longest_gap_seconds(struck, time.monotonic())
        if fault is signal.SIGSTOP:
            first.send(signal.SIGCONT)
            assert first.scheduler.wait(120) != 0, "a scheduler without its lease ends"
        before = other.bound()
        wait_until(lambda: other.bound() > before + 20, seconds=30)
        bound = len(seen.bound_at)
    disturbed = first.logged("another extender changed the claims")
    invalidated = other.logged("invalidated a Binding") + first.logged("invalidated a Binding")
    print(
        f"{fault.name}: {bound} pods bound, longest gap {gap:.1f} s, Bindings invalidated "
        f"{invalidated}, claims of the former leader rejected {disturbed}"
    )
    assert seen.shared == []
    assert not any(pair.logs_secrets(nodes) for pair in pairs), "they log at debug level"
    assert gap < LEASE_SECONDS + 60, "a busy machine is slow, but not for ever"


SCHEDULER_PODS = "/api/v1/namespaces/gputopo-system/pods"


@contextmanager
def reported(server: ApiServer, pairs: list[Pair]) -> Iterator[dict[str, int]]:
    """Report the pairs as pods once a second, as their kubelets would.

    What is yielded counts the ends of each extender; an entry above 0 is a pod in CrashLoopBackOff.
    """
    crashes = {pair.pod: 0 for pair in pairs}
    over = threading.Event()

    def report(pair: Pair) -> None:
        ready = pair.is_ready()
        waiting = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}}
        running = {"state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
        extender = {
            "name": "extender",
            "image": "extender",
            "imageID": "",
            "ready": ready,
            "restartCount": max(0, crashes[pair.pod] - 1),
            "lastState": {"terminated": {"exitCode": 137}} if crashes[pair.pod] else {},
            **(waiting if crashes[pair.pod] else running),
        }
        conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
        status = {"initContainerStatuses": [extender], "conditions": conditions}
        response = server.merge(f"{SCHEDULER_PODS}/{pair.pod}/status", {"status": status})
        assert response.accepted, response.message

    def report_all() -> None:
        while not over.wait(1.0):
            for pair in pairs:
                report(pair)

    for pair in pairs:
        always = {"name": "extender", "image": "extender", "restartPolicy": "Always"}
        spec = {"containers": [{"name": "main", "image": "x"}], "initContainers": [always]}
        body = {"metadata": {"name": pair.pod}, "spec": spec}
        assert server.create(SCHEDULER_PODS, body).accepted
    thread = threading.Thread(target=report_all)
    thread.start()
    yield crashes
    over.set()
    thread.join()
    for pair in pairs:
        assert server.delete(f"{SCHEDULER_PODS}/{pair.pod}").accepted


def test_leader_whose_extender_crashes_repeatedly_loses_its_lease(
    nodes: ApiServer, pairs: list[Pair]
) -> None:
    with (
        watched(nodes) as seen,
        burst(nodes, seen),
        reported(nodes, pairs) as crashes,
    ):
        wait_until(lambda: len(seen.bound_at) > 40, seconds=60)
        first = leader(pairs)
        (other,) = [pair for pair in pairs if pair is not first]
        time.sleep(STANDBY_READY_SECONDS + 3.0)
        assert other.bound() == 0
        assert first.scheduler.poll() is None

        first.extender.kill()
        crashes[first.pod] = 1
        time.sleep(3.0)
        assert other.logged("took the scheduler's Lease") == 0, "one crash is tolerated"
        crashes[first.pod] = 2
        struck = time.monotonic()
        wait_until(lambda: other.bound() > 20, seconds=60)
        gap = seen.longest_gap_seconds(struck, time.monotonic())
        assert first.scheduler.wait(120) != 0, "a scheduler that has lost its lease ends"
    print(f"extender crashes: longest gap {gap:.1f} s after the second crash")
    assert other.logged("took the scheduler's Lease") == 1
    assert first.logged("took the scheduler's Lease") == 0
    assert seen.shared == []
    assert gap < STANDBY_READY_SECONDS + LEASE_SECONDS + 60, (
        "a busy machine is slow, but not for ever"
    )

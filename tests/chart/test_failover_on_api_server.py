"""Two schedulers with their extenders: the leader is killed, or frozen past its lease."""

import itertools
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from apiserver import PODS, ApiServer
from helmchart import Helm
from scheduler_pairs import Pair, Pods, put_pod, running_pairs, wait_until, watched

LEASE_SECONDS = 3

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
def test_another_takes_over_and_no_gpu_is_given_twice(
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
            assert first.scheduler.wait(30) != 0, "who has lost its lease ends"
        before = other.bound()
        wait_until(lambda: other.bound() > before + 20, seconds=30)
        bound = len(seen.bound_at)
    disturbed = first.logged("claims were changed by others")
    called_off = other.logged("called off a Binding") + first.logged("called off a Binding")
    print(
        f"{fault.name}: {bound} pods bound, longest gap {gap:.1f} s, Bindings called off "
        f"{called_off}, claims of the former leader refused {disturbed}"
    )
    assert seen.shared == []
    assert not any(pair.tells_secrets(nodes) for pair in pairs), "they log at debug level"
    assert gap < LEASE_SECONDS + 15, "a busy machine is slow, but not for ever"

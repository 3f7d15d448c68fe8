"""A pod is deleted by force while its processes run: its GPUs must stay in use."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from faulttest import agents, pods
from faulttest.bench import Bench
from faulttest.scenario import Options
from localcluster.access import NodeAccess
from localcluster.stuck import stuck

Variant = Literal["kubelet ends it", "stuck", "agent killed", "agent pod deleted"]

VARIANTS: tuple[Variant, ...] = ("kubelet ends it", "stuck", "agent killed", "agent pod deleted")
START_LIMIT_SECONDS = 8.0
_ROUNDS = 20
_STUCK_SECONDS = 6.0
_GPUS = 8
_WAIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Waited:
    """The result of the second pod of a round.

    Attributes:
        lingered: seconds from the deletion to the last process's end.
        start: seconds from that end to the second pod's first process; None if it did not start.
        messages: texts of the scheduler in its status meanwhile.
    """

    lingered: float
    start: float | None
    messages: list[str]


def carry_out(bench: Bench, options: Options) -> None:
    """Run all rounds, each on the next node in the next variant."""
    rounds = []
    for number in range(options.rounds or _ROUNDS):
        variant = VARIANTS[number % len(VARIANTS)]
        node = bench.nodes[number % len(bench.nodes)]
        rounds.append(one_round(bench, number, node, variant, options))
        bench.report(f"round {number + 1}, {node}, {variant}: {rounds[-1]}")
        bench.remove_pods()
    starts = [one.start for one in rounds if one.start is not None]
    bench.seen["rounds"] = len(rounds)
    bench.seen["second pods that ran"] = len(starts)
    bench.seen["second pods Failed"] = len(bench.journal.findings.get("pods Failed", ()))
    bench.seen["longest life of a process of a deleted pod"] = max(one.lingered for one in rounds)
    if starts:
        bench.seen["longest start after the last process's end"] = max(starts)
    messages = sorted({text for one in rounds for text in one.messages if "old-" in text})
    bench.seen["messages that name the old pod"] = len(messages)
    if messages:
        bench.seen["one of them"] = messages[0]


def one_round(bench: Bench, number: int, node: str, variant: Variant, options: Options) -> Waited:
    """Delete a pod of all GPUs by force and create the next one immediately."""
    name = f"old-{number}"
    old = bench.start(pods.stubborn(name, _GPUS, bench.image, node))
    second = pods.pod(f"new-{number}", _GPUS, bench.image, node)
    with _held(bench.machines, old, variant):
        bench.delete(name, force=True)
        deleted = time.monotonic()
        new = bench.create(second)
        _disturb(bench, node, variant)
        if variant != "kubelet ends it":
            time.sleep(max(0.0, deleted + _STUCK_SECONDS - time.monotonic()))
    return judge(bench, old, name, new, deleted, options)


def judge(
    bench: Bench, old: str, old_name: str, new: str, deleted: float, options: Options
) -> Waited:
    """Wait for the second pod and check it."""
    bench.reach(
        "the second pod runs or fails",
        lambda: bench.runs(new) or bench.failed(new) is not None,
        _WAIT_SECONDS,
        "pods that did not run",
    )
    ended = bench.sampler.of_pod(old)[-1].last
    if failed := bench.failed(new):
        bench.finding("pods Failed", f"{failed.name} on {failed.node}: {failed.why}")
    lives = bench.sampler.of_pod(new)
    start = round(lives[0].first - ended, 2) if lives else None
    limit = options.start_limit_seconds or START_LIMIT_SECONDS
    if start is not None and start > limit:
        bench.finding("late starts", f"{old_name}: {start} s after its last process")
    messages = bench.pod_watcher.reasons.get(new, [])
    if not any(old_name in text for text in messages):
        bench.finding("no message that names the old pod", f"{old_name}: {messages}")
    return Waited(round(ended - deleted, 2), start, messages)


@contextmanager
def _held(nodes: NodeAccess, pod_uid: str, variant: Variant) -> Iterator[None]:
    if variant == "kubelet ends it":
        yield
        return
    with stuck(nodes, pod_uid):
        yield


def _disturb(bench: Bench, node: str, variant: Variant) -> None:
    """End the agent while the process runs, and wait until the next agent is ready."""
    if variant == "agent killed":
        time.sleep(0.3)
        agents.kill(bench, node)
        time.sleep(1)
        agents.wait_ready(bench, node)
        time.sleep(2)
    if variant == "agent pod deleted":
        uid = agents.delete(bench, node)
        agents.wait_ready(bench, node, other_than=uid)
        time.sleep(2)

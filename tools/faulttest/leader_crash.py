"""The leading scheduler's extender is killed repeatedly while the standby is healthy."""

import signal
import time
from collections import Counter

from failovertest import leader
from faulttest import pods
from faulttest.bench import Bench
from faulttest.scenario import Options
from localcluster import access
from soaktest.client import RejectedError, UnavailableError

_SECONDS = 300.0
_KILL_EVERY_SECONDS = 5.0
_POD_EVERY_SECONDS = 3.0
_LONGEST_WAIT_SECONDS = 30.0
_READY_SECONDS = 120.0
_EXTENDER = "gputopo-extender"


def carry_out(bench: Bench, options: Options) -> None:
    """Kill the extender repeatedly, and create a pod every three seconds."""
    bench.reach("two schedulers are ready", lambda: len(leader.replicas(bench.client)) > 1)
    first = _leading(bench)
    uid = next(one.uid for one in leader.replicas(bench.client) if one.name == first)
    began = killed = created = time.monotonic()
    led: Counter[str] = Counter()
    made: dict[str, float] = {}
    waits: dict[str, float] = {}
    kills, others_at = 0, None
    while time.monotonic() - began < (options.seconds or _SECONDS):
        now = time.monotonic()
        if now >= killed:
            kills, killed = kills + _kill(bench, uid), killed + _KILL_EVERY_SECONDS
        if now >= created:
            name = f"one-{len(made)}"
            made[bench.create(pods.pod(name, 1, bench.image))] = now
            created += _POD_EVERY_SECONDS
        led[_role(bench, first)] += 1
        if others_at is None and led["the standby"]:
            others_at = now - began
        _reap(bench, made, waits)
        time.sleep(0.5)
    bench.reach("the last pods run", lambda: _all_ran(bench, made, waits), _READY_SECONDS)
    bench.seen["kills of the first leader's extender"] = kills
    bench.seen["reads of the lease, by leader"] = dict(led)
    bench.seen["seconds until the standby led"] = others_at
    bench.seen["pods created"] = len(made)
    bench.seen["pods that ran"] = len(waits)
    if waits:
        ordered = sorted(waits.values())
        bench.seen["waits"] = (
            f"median {ordered[len(ordered) // 2]:.1f} s, longest {ordered[-1]:.1f} s"
        )
        if ordered[-1] > _LONGEST_WAIT_SECONDS:
            bench.finding("long waits", f"{ordered[-1]:.1f} s until a pod ran")
    bench.judge_failed(made)


def _kill(bench: Bench, pod_uid: str) -> int:
    extenders = access.of_program(bench.machines, _EXTENDER)
    return access.send([one for one in extenders if one.pod_uid == pod_uid], signal.SIGKILL)


def _leading(bench: Bench) -> str:
    try:
        return leader.leading(bench.client)
    except (UnavailableError, RejectedError):
        return ""


def _role(bench: Bench, first: str) -> str:
    leading = _leading(bench)
    if not leading:
        return "none"
    return "the first leader" if leading == first else "the standby"


def _reap(bench: Bench, made: dict[str, float], waits: dict[str, float]) -> None:
    """Record when pods began to run, and delete them."""
    for uid, created in made.items():
        since = bench.pod_watcher.running_since.get(uid)
        if since is not None and uid not in waits:
            waits[uid] = since - created
            bench.delete(bench.pod_watcher.seen[uid].name)


def _all_ran(bench: Bench, made: dict[str, float], waits: dict[str, float]) -> bool:
    _reap(bench, made, waits)
    return all(uid in waits or bench.failed(uid) for uid in made)

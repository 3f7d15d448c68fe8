"""Jobs that gputopo sizes come and go while operator, kubelets and API server are killed."""

import random
import threading
import time
from collections.abc import Sequence

from gputopo.api.names import RESOURCE
from learntest.bench import Bench
from learntest.experiment import Options
from resizetest import amounts
from resizetest.soaking import changes, losses, shares, sums
from resizetest.soaking.judge import Judge
from resizetest.soaking.load import Load
from resizetest.soaking.watch import Watch
from soaktest.client import Object, RejectedError, UnavailableError
from soaktest.faults import Fault, Killer

MUST_BE_NONE = (
    sums.ABOVE,
    changes.RESTARTS,
    changes.QOS,
    changes.FLOOR,
    changes.UNEXPLAINED,
    changes.ENDLESS,
    changes.REJECTED,
    shares.SHARE,
    losses.LOST,
)
PARTS = {"operator": 3, "kubelet": 2, "kube-apiserver": 2}
_MINUTES = 20.0
_KILL_EVERY_SECONDS = 15.0
_LONGEST_DOWN_SECONDS = 5.0
_STEP_SECONDS = 0.5
_CALM_SECONDS = 30.0


def carry_out(bench: Bench, options: Options) -> None:
    """Create and delete jobs on the nodes without other GPU pods, and judge all that happens."""
    seconds = options.seconds or 60 * _MINUTES
    load_rng, kill_rng = random.Random(options.seed), random.Random(options.seed + 1)  # noqa: S311
    watch = Watch(bench, _nodes(bench, options.node))
    load = Load(bench, watch, load_rng)
    load.prepare()
    ended = threading.Event()
    kills = threading.Thread(
        target=_kill, args=(bench, kill_rng, sorted(watch.judge.nodes), options.parts, ended)
    )
    with watch.watching():
        kills.start()
        _work(bench, load, seconds)
        ended.set()
        kills.join()
        time.sleep(_CALM_SECONDS)
        load.end()
    bench.end(())
    _report(bench, watch.judge)


def _work(bench: Bench, load: Load, seconds: float) -> None:
    deadline, quiet = time.monotonic() + seconds, False
    while time.monotonic() < deadline:
        try:
            load.step()
        except (UnavailableError, RejectedError) as error:
            bench.journal.note(f"not done: {error}")
        if load.is_quiet != quiet:
            quiet = load.is_quiet
            bench.report("only kills from now on" if quiet else "jobs come and go from now on")
        time.sleep(_STEP_SECONDS)


def _nodes(bench: Bench, wanted: str | None) -> Sequence[str]:
    """Return the nodes on which no pod requests GPUs, or the wanted one of them.

    Raises:
        TimeoutError: other pods request GPUs there; the soak would change their CPUs.
    """
    used = {
        pod["spec"].get("nodeName")
        for pod in bench.client.get("/api/v1/pods")["items"]
        if amounts.holds(pod) and _requests_gpus(pod)
    }
    unused = sorted(set(bench.topologies) - used)
    found = [node for node in unused if wanted in {None, node}]
    if not found:
        raise TimeoutError(f"a node without GPU pods; wanted {wanted or 'any'}, unused: {unused}")
    return found


def _requests_gpus(pod: Object) -> bool:
    containers = pod["spec"]["containers"]
    return any(RESOURCE in each.get("resources", {}).get("limits", {}) for each in containers)


def _kill(
    bench: Bench,
    rng: random.Random,
    nodes: Sequence[str],
    parts: Sequence[str],
    ended: threading.Event,
) -> None:
    """Kill a part every 15 s on average, for at most 5 s."""
    killer = Killer(bench.cluster, bench.client, bench.journal, rng)
    weights = {part: weight for part, weight in PARTS.items() if part in (parts or PARTS)}
    while not ended.wait(rng.uniform(0.5, 1.5) * _KILL_EVERY_SECONDS):
        (what,) = rng.choices([*weights], [*weights.values()])
        killer.carry_out(Fault(what, rng.choice(nodes), rng.uniform(0, _LONGEST_DOWN_SECONDS)))


def _report(bench: Bench, judge: Judge) -> None:
    findings, seen = bench.journal.findings, bench.seen
    seen |= {kind: len(findings.get(kind, ())) for kind in MUST_BE_NONE}
    seen |= dict(sorted(bench.journal.counts.items()))
    seen["nodes"] = " ".join(sorted(judge.nodes))
    seen["resizes in specs"] = judge.changes.resizes
    seen["changes of limits in effect"] = judge.changes.applied
    for source, highest in sorted(judge.sums.highest.items()):
        longest = judge.sums.longest.get(source, 0.0)
        seen[f"highest sum {source}"] = f"{highest:.1%}; longest above 100 %: {longest:.1f} s"
    seen["longest lack of a guaranteed share (s)"] = round(judge.shortages.longest, 1)
    seen["pods with a lack after a failed raise"] = len(judge.shortages.excused)
    waits = sorted(judge.losses.waits.values())
    seen["seconds from creation to running"] = (
        f"median {waits[len(waits) // 2]:.1f}, longest {waits[-1]:.1f}" if waits else "no pod"
    )

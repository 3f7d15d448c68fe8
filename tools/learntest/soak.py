"""Measured jobs come and go while agents, operator and kubelets are killed: what is learnt?"""

import random
import threading
import time
from collections.abc import Mapping
from typing import Any

from learntest.bench import Bench
from learntest.experiment import Options
from learntest.judge import Judge, Workload
from learntest.load import Load
from soaktest.client import RejectedError, UnavailableError
from soaktest.faults import Fault, Killer

WORKLOADS = {"bound-by-links": 60.0, "mixed": 20.0, "bound-by-gpus": 2.0}
_MINUTES = 15.0
_KILL_EVERY_SECONDS = 20.0
_LOOK_SECONDS = 2.0
_WEIGHTS = {"node agent": 3, "kubelet": 2, "operator": 2}
_LONGEST_DOWN_SECONDS = 5.0


def carry_out(bench: Bench, options: Options) -> None:
    """Run jobs of three workloads on each of two nodes, and kill one part after another."""
    seconds = options.seconds or 60 * _MINUTES
    load_rng, kill_rng = random.Random(options.seed), random.Random(options.seed + 1)  # noqa: S311
    workloads = _workloads(bench)
    load, judge = Load(bench, load_rng, workloads), Judge(bench, workloads)
    kills = threading.Thread(target=_kill, args=(bench, kill_rng, seconds), name="kill")
    kills.start()
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        try:
            load.step()
            judge.look()
        except (UnavailableError, RejectedError) as error:
            bench.journal.note(f"not read: {error}")
        time.sleep(_LOOK_SECONDS)
    kills.join()
    load.end()
    judge.look()
    judge.report()
    bench.seen |= dict(sorted(bench.journal.counts.items()))


def _workloads(bench: Bench) -> Mapping[str, Workload]:
    """Return the workloads of the node with NVLinks and of the node without, by GPUProfile."""
    mesh = bench.node_with({"NVLink1", "NVLink2"}.issubset)
    pcie = bench.node_with(lambda kinds: all(kind.startswith("PCIe") for kind in kinds))
    made: dict[str, Any] = {}
    for node, possible in ((mesh, 100.0), (pcie, 40.0)):
        for name, percent in WORKLOADS.items():
            if percent <= possible:
                profile = f"{name}-{node}"
                made[profile] = Workload(profile, node, percent, bench.topologies[node])
    return made


def _kill(bench: Bench, rng: random.Random, seconds: float) -> None:
    """Kill a part every 20 s on average, for some seconds."""
    killer = Killer(bench.cluster, bench.client, bench.journal, rng)
    nodes, deadline = sorted(bench.topologies), time.monotonic() + seconds
    while (wait := rng.uniform(0.5, 1.5) * _KILL_EVERY_SECONDS) < deadline - time.monotonic():
        time.sleep(wait)
        (what,) = rng.choices(list(_WEIGHTS), weights=list(_WEIGHTS.values()))
        killer.carry_out(Fault(what, rng.choice(nodes), rng.uniform(0, _LONGEST_DOWN_SECONDS)))

"""A Node object is deleted while a pod runs: its GPUs stay in use while the process runs.

The pod garbage collector removes the pods of the missing node by force after about a minute, a
restarted kubelet registers the node again, and a pod for all GPUs of that node is created at once.
"""

import time

from faulttest import agents, force_delete, pods
from faulttest.bench import Bench
from faulttest.force_delete import Waited
from faulttest.scenario import Options
from localcluster.stuck import stuck
from showcase.kubectl import wait_for
from soaktest.client import RejectedError, UnavailableError

_NODES = "/api/v1/nodes"
_ROUNDS = 20
_GPUS = 8
_COLLECTED_SECONDS = 150.0  # of quarantine are 40, and the collector looks every 20
_REGISTERED_SECONDS = 60.0
_OFFERED_SECONDS = 30.0
_STUCK_SECONDS = 12.0


def carry_out(bench: Bench, options: Options) -> None:
    """Run all rounds, each on the next node.

    One node at a time: the scheduler and the agents run on these nodes and would go with them.
    """
    rounds = []
    for number in range(options.rounds or _ROUNDS):
        node = bench.nodes[number % len(bench.nodes)]
        rounds.append(one_round(bench, number, node, options))
        bench.report(f"round {number + 1}, {node}: {rounds[-1]}")
        bench.remove_pods()
        agents.wait_ready(bench, node)
    starts = [one.start for one in rounds if one.start is not None]
    bench.seen["rounds"] = len(rounds)
    bench.seen["second pods that ran"] = len(starts)
    bench.seen["longest life of a process of a deleted pod"] = max(one.lingered for one in rounds)
    if starts:
        bench.seen["longest start after the last process's end"] = max(starts)


def one_round(bench: Bench, number: int, node: str, options: Options) -> Waited:
    """Delete the node while a pod uses all its GPUs, and create the next pod for it."""
    name = f"old-{number}"
    old = bench.start(pods.stubborn(name, _GPUS, bench.image, node))
    with stuck(bench.machines, old):
        bench.patient(lambda: bench.client.delete(f"{_NODES}/{node}"))
        wait_for(
            "the pod garbage collector removes the pod of the missing node",
            lambda: bench.pod_watcher.pod(old) is None,
            timeout_s=_COLLECTED_SECONDS,
        )
        deleted = time.monotonic()
        bench.machines.set_kubelet(node, on=False)
        bench.machines.set_kubelet(node, on=True)
        wait_for(
            f"node {node} is registered again",
            lambda: _registered(bench, node, deleted),
            timeout_s=_REGISTERED_SECONDS,
        )
        new = bench.create(pods.pod(f"new-{number}", _GPUS, bench.image, node))
        time.sleep(_STUCK_SECONDS)
        bench.seen["GPUs in containers while the old process lives"] = bench.live(node)
    return force_delete.judge(bench, old, name, new, deleted, options)


def _registered(bench: Bench, node: str, since: float) -> bool:
    """Whether kubelet offers GPUs on the new Node object, or half a minute is over."""
    try:
        offered = bench.allocatable(node) > 0
    except (UnavailableError, RejectedError):
        return False
    return offered or time.monotonic() - since > _OFFERED_SECONDS

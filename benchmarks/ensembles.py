"""How long the operator needs for many GPUEnsembles of one namespace, and how long others wait."""

import asyncio
import copy
import json
import sys
import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from benchmarks.options import Options
from gputopo_kube.blocking_http import HttpRequest, HttpResponse
from gputopo_kube.document import ObjectKey
from gputopo_kube.sync import SyncApi
from gputopo_operator.controller.ensemble_api import EnsembleApi
from gputopo_operator.controller.ensemble_queue import WORKERS
from gputopo_operator.controller.ensemble_reconciler import EnsembleReconciler
from gputopo_operator.controller.ensemble_snapshot import SHARED_SECONDS
from gputopo_operator.controller.job_api import JobApi
from gputopo_operator.controller.node_store import NodeStore
from gputopo_operator.controller.work_queue import queue_in_threads
from gputopo_operator.metrics import OperatorMetrics

NODES: Final = 100
GPUS: Final = 8
SAMPLES: Final = 20
OTHER: Final = ObjectKey("other", "search")


@dataclass
class Served:
    """A fake API server in this process, and an operator's reconciler of ensembles.

    Attributes:
        seconds: time that the fake server itself has needed.
        bytes: of its responses.
    """

    server: Any
    reconciler: EnsembleReconciler = field(init=False)
    lists: EnsembleApi = field(init=False)
    seconds: float = 0.0
    bytes: int = 0

    def __post_init__(self) -> None:
        """Connect the reconciler."""
        api = SyncApi(self.send, "fake")
        self.lists = EnsembleApi(api, (), "gputopo")
        metrics = OperatorMetrics().ensembles
        nodes = NodeStore()
        nodes.reports.replace_all(self.server.all("gputopologies"))
        nodes.rules.replace_all(self.server.all("nodes"))
        self.reconciler = EnsembleReconciler(
            *(self.lists, JobApi(api), nodes, metrics, "gputopo.io/gpu"),
            shared_seconds=SHARED_SECONDS,
        )

    def send(self, request: HttpRequest) -> HttpResponse:
        """Respond to a request."""
        from support.api import rest  # noqa: PLC0415 - see sys.path below

        begin = time.perf_counter()
        parsed = rest.Request(
            request.method, unquote(request.path), dict(request.query), request.body or {}
        )
        reply = self.server.respond(parsed)
        body = json.dumps(reply.body).encode()
        self.bytes += len(body)
        self.seconds += time.perf_counter() - begin
        return HttpResponse(reply.status, "", body)


def run(options: Options) -> None:
    """Print the cost of a pass of one ensemble, of all, and the wait of another namespace."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    print(f"{NODES} nodes of {GPUS} GPUs; times without those of the fake API server")
    print(
        "| ensembles | ms per ensemble | s for all | MB read per ensemble | MB peak "
        "| wait of another namespace, s |"
    )
    print("|---|---|---|---|---|---|")
    for number in (10,) if options.quick else (10, 200, 2000):
        _measure(number)


def _measure(number: int) -> None:
    served = _served(number)
    keys = [ObjectKey("busy", f"search-{index}") for index in range(number)]
    for key in keys[:SAMPLES]:
        served.reconciler.reconcile(key)
    with _own_time(served) as spent:
        tracemalloc.start()
        for key in keys[:SAMPLES]:
            served.reconciler.reconcile(key)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    read = spent.bytes
    with _own_time(served) as spent:
        for key in keys[:SAMPLES]:
            served.reconciler.reconcile(key)
    each = spent.seconds / min(SAMPLES, number)
    handled = asyncio.run(_handled_before(number))
    wait = handled * each
    print(
        f"| {number} | {each * 1000:.1f} | {each * number:.1f} "
        f"| {read / min(SAMPLES, number) / 1e6:.2f} | {peak / 1e6:.1f} | {wait:.3f} |"
    )


@dataclass
class _Spent:
    seconds: float = 0.0
    bytes: int = 0


@contextmanager
def _own_time(served: Served) -> Iterator[_Spent]:
    spent, begin = _Spent(), time.perf_counter()
    seconds, read = served.seconds, served.bytes
    yield spent
    spent.seconds = time.perf_counter() - begin - (served.seconds - seconds)
    spent.bytes = served.bytes - read


async def _handled_before(number: int) -> int:
    """Return how many ensembles of the busy namespace are handled before that of another."""
    handled: list[ObjectKey] = []

    with ThreadPoolExecutor(WORKERS) as threads:
        queue = queue_in_threads(handled.append, threads, on_error=lambda: None)
        for index in range(number):
            queue.add(ObjectKey("busy", f"search-{index}"))
        queue.add(OTHER)
        task = asyncio.create_task(queue.run(WORKERS))
        while OTHER not in handled:  # noqa: ASYNC110 - a few milliseconds
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return handled.index(OTHER)


def _served(number: int) -> Served:
    """Return a cluster in which every ensemble has a GPUJob and a pod, as far as GPUs are free."""
    from support.api.server import ApiServer  # noqa: PLC0415 - see sys.path above
    from support.operator.ensembles import ensemble, member  # noqa: PLC0415
    from support.operator.queue import node, plain_node  # noqa: PLC0415

    server = ApiServer()
    for index in range(NODES):
        server.put("gputopologies", node(f"n{index:03}", GPUS))
        server.put("nodes", plain_node(f"n{index:03}"))
    made = ensemble(member("a", {1: 100, 2: 190}, steps=10**9), maxGPUs=1)
    for namespace, name in [*(("busy", f"search-{i}") for i in range(number)), OTHER]:
        raw = copy.deepcopy(made)
        raw["metadata"] |= {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}"}
        server.put("gpuensembles", raw)
    served = Served(server)
    for index in range(number):
        _put_member(server, index)
    return served


def _put_member(server: Any, index: int) -> None:  # noqa: ANN401 - imported later
    """Add the GPUJob, Job and pod of the member of an ensemble."""
    name, labels = f"search-{index}-a", {"gputopo.io/ensemble": f"search-{index}"}
    labels |= {"gputopo.io/ensemble-member": "a", "gputopo.io/gpujob": name}

    def metadata(uid: str, owner: str) -> dict[str, Any]:
        return {
            "name": name,
            "namespace": "busy",
            "uid": uid,
            "labels": labels,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [{"uid": owner, "controller": True, "kind": "X", "name": "x"}],
            "annotations": {"gputopo.io/ensemble-node": f"n{index % NODES:03}"},
        }

    container = {"name": "main", "resources": {"limits": {"gputopo.io/gpu": "1"}}}
    template = {"spec": {"containers": [container]}}
    job = {"metadata": metadata(f"uid-job-{index}", f"uid-busy-search-{index}")}
    server.put("gpujobs", {**job, "spec": {"gpusPerReplica": 1, "template": template}})
    child = {"metadata": metadata(f"uid-child-{index}", f"uid-job-{index}")}
    server.put("jobs", {**child, "spec": {"backoffLimit": 1, "template": template}})
    if index < NODES * GPUS:
        pod = {"metadata": metadata(f"uid-pod-{index}", f"uid-child-{index}")}
        spec = {**template["spec"], "schedulerName": "gputopo", "nodeName": f"n{index % NODES:03}"}
        status = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
        server.put("pods", {**pod, "spec": spec, "status": status})

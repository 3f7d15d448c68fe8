"""Memory and time of the parts that keep one entry for each GPUProfile or node."""

import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from benchmarks.options import Options
from benchmarks.table import show
from gputopo.catalogue import named
from gputopo_cluster.topologies import parse_gpu_node
from gputopo_extender.state.interference import NodeInterference
from gputopo_extender.state.ledger import Ledger
from gputopo_extender.verbs.warm_up import TableWarmUp
from gputopo_kube.document import ObjectKey
from gputopo_operator.controller.node_store import NodeStore
from gputopo_operator.controller.profiling_queue import ProfilingQueue
from gputopo_operator.controller.queues import Queues
from gputopo_operator.controller.sized_pods import SizedPods
from gputopo_operator.parse.watched import profile_fingerprint
from gputopo_scheduling.surroundings import parse_workload

Document = dict[str, Any]


class Growth(NamedTuple):
    """What one part keeps after all its input, and how long the input takes."""

    bytes: int
    seconds: float


def run(options: Options) -> None:
    """Print what each part keeps of many GPUProfiles, and of nodes that come and go."""
    profiles, nodes = (1000, 10) if options.quick else (100_000, 1000)
    rows = [
        [name, f"{grown.bytes / 1e6:,.2f}", f"{grown.seconds:.2f}"]
        for name, grown in (
            ("extender, profiles without facts", of_extender(profiles, spec={})),
            (
                "extender, profiles with a declared sensitivity",
                of_extender(profiles, spec={"bandwidthSensitivityPercent": 20}),
            ),
            ("operator, profiles that no sized pod names", of_operator(profiles)),
        )
    ]
    show(f"{profiles:,} GPUProfiles", ["", "kept MB", "seconds"], rows)
    parts: dict[str, Callable[[int], Growth]] = {
        "operator, reports of nodes": of_reports,
        "extender, topologies with tables": of_tables,
    }
    rows = []
    for name, grow in parts.items():
        grown = grow(nodes)
        rows.append([name, f"{grown.bytes / 1e6:,.2f}", f"{grown.seconds:.2f}"])
    show(f"{nodes:,} nodes that come and go", ["", "kept MB", "seconds"], rows)


def of_extender(count: int, spec: Document) -> Growth:
    """Return the growth of the facts about interference."""
    interference = NodeInterference(time.monotonic)

    def put(document: Document) -> None:
        interference.put(parse_workload(document))

    return _grown(put, (_profile(number, spec) for number in range(count)), interference)


def of_operator(count: int) -> Growth:
    """Return the growth of the watch of GPUProfiles for sized pods."""
    pods = SizedPods()

    def put(document: Document) -> None:
        key = ObjectKey.of(document)
        pods.profile_changed(key, profile_fingerprint(document["spec"], document["status"]))

    return _grown(put, (_profile(number, {}) for number in range(count)), pods)


def of_reports(count: int) -> Growth:
    """Return the growth of the reports of nodes, and of the queues that follow them."""
    nodes = NodeStore()
    discarded: Any = _Discarded()
    queues = Queues(discarded, discarded, namespaces=(), profile_delay_seconds=0.0)
    measured: Any = ProfilingQueue.__new__(ProfilingQueue)
    measured._namespaces, measured._queue = (), _Discarded()  # noqa: SLF001
    for follow in (queues.report_changed, measured.report_changed):
        nodes.reports.subscribe(follow)

    def come_and_go(number: int) -> None:
        metadata = {"name": f"n{number}", "uid": f"uid-{number}"}
        report = {"metadata": metadata, "status": _measurements(number)}
        for kind in ("ADDED", "DELETED"):
            nodes.reports.follow({"type": kind, "object": report})

    return _grown(come_and_go, iter(range(count)), (nodes, queues))


def of_tables(count: int) -> Growth:
    """Return the growth of the known topologies; no two nodes have the same."""
    ledger = Ledger()
    nothing: Any = None
    warm = TableWarmUp(ledger, nothing, nothing)
    links = named("dgx1-v100", node="n")

    def come_and_go(number: int) -> None:
        warm._warm.add(f"{links.fingerprint}-{number}")  # noqa: SLF001
        ledger.put_topology(parse_gpu_node(_topology(f"n{number}")))
        ledger.drop_topology(f"n{number}")
        warm._cold()  # noqa: SLF001

    return _grown(come_and_go, iter(range(count)), (ledger, warm))


class _Discarded:
    """A work queue that forgets its keys."""

    def add(self, key: ObjectKey) -> None:
        """Forget the key."""

    def add_later(self, key: ObjectKey, seconds: float) -> None:
        """Forget the key."""


def _grown(take: Callable[[Any], None], items: Iterator[Any], kept: object) -> Growth:
    """Return the growth while ``take`` gets all items; ``kept`` lives until the end."""
    tracemalloc.start()
    before, began = tracemalloc.get_traced_memory()[0], time.process_time()
    for item in items:
        take(item)
    seconds = time.process_time() - began
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    del kept
    return Growth(after - before, seconds)


def _profile(number: int, spec: Document) -> Document:
    metadata = {"namespace": f"team-{number % 10}", "name": f"workload-{number}"}
    return {"metadata": metadata, "spec": spec, "status": {}}


def _topology(node: str) -> Document:
    return {"metadata": {"name": node, "uid": f"uid-{node}"}, "spec": {}, "status": {}}


def _measurements(number: int) -> Document:
    pods = range(8)
    found = [
        {"namespace": "a", "pod": f"p{number}-{pod}", "podUID": f"u{number}-{pod}"} for pod in pods
    ]
    samples = [
        {
            "namespace": "a",
            "profile": f"p{pod}",
            "podUID": f"u{number}-{pod}",
            "time": f"2026-01-01T00:{minute:02}:00Z",
        }
        for pod in pods
        for minute in range(8)
    ]
    return {
        "measurements": [{**each, "profiling": ["CPUs"]} for each in found],
        "samples": samples,
    }

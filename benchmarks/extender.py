"""Filter and prioritize for one pod over thousands of nodes: in process, and over HTTP."""

import asyncio
import gc
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from typing import Any, Final

import orjson

from benchmarks.fleet import SHAPES, Shape, change, name_of, pod
from benchmarks.measure import Timing, joined, milliseconds, timed
from benchmarks.options import Options
from benchmarks.table import show
from benchmarks.verbs import NothingToDecide, fleet_of, verbs_on
from gputopo_extender.protocol import ExtenderArgs
from gputopo_extender.verbs.handlers import Verbs

NODES: Final = 5_000
QUICK_NODES: Final = 50
_TIMES: Final = 200
_ROOT: Final = Path(__file__).parent.parent
_HEADERS: Final = {"Content-Type": "application/json"}
_NOTHING: Final = "nothing to decide"

Prepare = Callable[[str, Shape, Sequence[str]], Callable[[], Any]]
"""Returns a function that calls a verb for a pod of this shape over these nodes."""


class FilterError(Exception):
    """filter responded with an error, for example because tables were not built in time."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of one pod: filter over all nodes, then prioritize over the nodes that it returns.

    kube-scheduler does not call prioritize for a single node.
    """

    name: str
    offered: int
    filter: Timing
    prioritize: Timing

    @property
    def both(self) -> Timing:
        """Both verbs of each pod together."""
        walls = zip(self.filter.wall, self.prioritize.wall, strict=True)
        return Timing(tuple(map(sum, walls)), self.filter.cpu + self.prioritize.cpu)


def run(options: Options) -> None:
    """Measure both ways, and print them beside a server that decides nothing."""
    nodes, times = (QUICK_NODES, 3) if options.quick else (NODES, _TIMES)
    for title, costs in (
        ("in process", in_process(nodes, times)),
        ("over HTTP on loopback", over_http(nodes, times)),
    ):
        _show(f"Extender {title}, {nodes:,} nodes of 8 GPUs, {times} pods of each shape", costs)


def in_process(nodes: int, times: int) -> list[Cost]:
    """Call the verbs themselves; a node changes before each pod."""
    ledger, metrics = fleet_of(nodes)
    names = [name_of(node) for node in range(nodes)]
    turns = count()

    def on(verbs: Verbs) -> Prepare:
        def prepare(verb: str, shape: Shape, candidates: Sequence[str]) -> Callable[[], Any]:
            args = ExtenderArgs(Pod=pod(shape, 0), NodeNames=list(candidates))
            called = verbs.filter if verb == "filter" else verbs.prioritize
            return lambda: loop.run_until_complete(called(args))

        return prepare

    def one_changes() -> None:
        turn = next(turns)
        change(ledger, turn * 37 % nodes, turn)

    with closing(asyncio.new_event_loop()) as loop, _spared_collector():
        base = _cost(on(verbs_on(ledger, metrics, NothingToDecide)), SHAPES[0], names, times)
        verbs = on(verbs_on(ledger, metrics))
        costs = _costs(partial(_cost, verbs, names=names, times=times, before=one_changes))
    return [*costs, replace(base, name=_NOTHING)]


def over_http(nodes: int, times: int) -> list[Cost]:
    """Call a server in its own process, where nodes change meanwhile."""
    names = [name_of(node) for node in range(nodes)]
    with _server(nodes) as (process, connection):

        def on(prefix: str) -> Prepare:
            def prepare(verb: str, shape: Shape, candidates: Sequence[str]) -> Callable[[], Any]:
                args = {"Pod": pod(shape, 0), "Nodes": None, "NodeNames": list(candidates)}
                body = orjson.dumps(args)

                def call() -> Any:  # noqa: ANN401 - any JSON
                    connection.request("POST", f"{prefix}/{verb}", body, _HEADERS)
                    return orjson.loads(connection.getresponse().read())

                return call

            return prepare

        def cpu() -> float:
            return _cpu_seconds(process.pid)

        base = _cost(on("/nothing"), SHAPES[0], names, times, cpu_clock=cpu)
        costs = _costs(partial(_cost, on(""), names=names, times=times, cpu_clock=cpu))
    return [*costs, replace(base, name=_NOTHING)]


def _costs(cost_of: Callable[[Shape], Cost]) -> list[Cost]:
    """Return the cost of each shape. Report and leave out a shape for which filter fails."""
    costs = []
    for shape in SHAPES:
        try:
            costs.append(cost_of(shape))
        except FilterError as error:
            print(f"{shape.name}: not measured: filter returned an error: {error}", file=sys.stderr)
    if not costs:
        raise SystemExit("extender: filter returned an error for each pod; is the machine busy?")
    return costs


def _cost(
    prepare: Prepare,
    shape: Shape,
    names: Sequence[str],
    times: int,
    *,
    before: Callable[[], None] = lambda: None,
    cpu_clock: Callable[[], float] = time.process_time,
) -> Cost:
    call_filter = prepare("filter", shape, names)
    found = call_filter()
    if error := found.get("Error"):
        raise FilterError(error)
    offered = found["NodeNames"]
    call_prioritize = prepare("prioritize", shape, offered) if len(offered) > 1 else _skip
    call_prioritize()
    steps: list[list[Timing]] = [[], []]
    for _ in range(times):
        before()
        for step, call in zip(steps, (call_filter, call_prioritize), strict=True):
            step.append(timed(call, times=1, cpu_clock=cpu_clock))
    filters, priorities = map(joined, steps)
    return Cost(shape.name, len(offered), filters, priorities)


def _skip() -> None:
    pass


@contextmanager
def _spared_collector() -> Iterator[None]:
    """Freeze the garbage collector, like the extender after its first lists."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def _server(nodes: int) -> Iterator[tuple[subprocess.Popen[str], HTTPConnection]]:
    command = [sys.executable, "-m", "benchmarks.extender_server", str(nodes)]
    with subprocess.Popen(
        command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        if process.stdin is None or process.stdout is None:
            raise AssertionError("both are pipes")
        port = int(process.stdout.readline())
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        yield process, connection
        connection.close()
        process.stdin.close()


def _cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used, in steps of 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _show(title: str, costs: list[Cost]) -> None:
    base = next(cost for cost in costs if cost.name == _NOTHING).both.median
    rows = [
        [
            cost.name,
            f"{cost.offered:,}",
            milliseconds(cost.filter.median),
            milliseconds(cost.prioritize.median),
            milliseconds(cost.both.median),
            milliseconds(cost.both.p99),
            milliseconds(cost.both.cpu),
            f"{cost.both.median / base:.1f}",
        ]
        for cost in [*costs, _all(costs)]
    ]
    head = ["pod", "returned", "filter ms", "prioritize ms", "both ms", "both p99", "CPU ms"]
    show(title, [*head, "ratio"], rows)


def _all(costs: list[Cost]) -> Cost:
    real = [cost for cost in costs if cost.name != _NOTHING]
    return Cost(
        "all pods",
        sum(cost.offered for cost in real) // len(real),
        joined([cost.filter for cost in real]),
        joined([cost.prioritize for cost in real]),
    )

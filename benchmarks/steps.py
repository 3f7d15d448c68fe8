"""CPU time of one call of ``gputopo_steps.step``, as ratio to an empty function."""

import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count, repeat
from pathlib import Path
from typing import Final
from unittest.mock import patch

import gputopo_steps
from benchmarks.measure import timed
from benchmarks.options import Options
from benchmarks.table import show
from gputopo_steps.reporter import Reporter

_NANOSECONDS: Final = 1e9
_CALLS: Final = 100_000
_REPETITIONS: Final = 9
_STEPS_PER_SECOND: Final = 10


def run(options: Options) -> None:
    """Measure calls that do nothing, count, and send, and print them."""
    costs = _costs(100 if options.quick else _CALLS)
    mean = costs["step, counts"] + costs["step, sends"] / _STEPS_PER_SECOND
    costs[f"mean at {_STEPS_PER_SECOND} steps/s, one of which sends"] = mean
    cells = [
        [name, f"{seconds * _NANOSECONDS:,.0f}", f"{seconds / costs['empty function']:,.1f}"]
        for name, seconds in costs.items()
    ]
    show("One call in a training loop", ["", "CPU ns", "ratio"], cells)


def _costs(calls: int) -> dict[str, float]:
    """Return the CPU time of one call, in seconds, by what the call does."""
    costs = {"empty function": _seconds_of_call(_empty, calls)}
    with _step_of(Reporter({}, {})) as step:
        costs["step, nothing to report to"] = _seconds_of_call(step, calls)
    with _agent() as (environ, drain):
        with _step_of(Reporter(environ, {})) as step:
            costs["step, counts"] = _seconds_of_call(step, calls)
        with _step_of(Reporter(environ, {})) as step:
            costs["step, counts samples too"] = _seconds_of_call(partial(step, 256), calls)
        always_due = partial(next, count(0.0, 1000.0))
        with _step_of(Reporter(environ, {}, always_due)) as step:
            costs["step, sends"] = timed(step, times=calls // 10, before=drain).cpu
    return costs


def _empty(samples: int | None = None) -> None:
    """Do nothing, with the arguments of ``step``."""


def _seconds_of_call(call: Callable[[], object], calls: int) -> float:
    """Return the CPU time of one call, with its part of a loop."""

    def loop() -> None:
        for _ in repeat(None, calls):
            call()

    return timed(loop, times=_REPETITIONS).cpu / calls


@contextmanager
def _step_of(reporter: Reporter) -> Iterator[Callable[..., None]]:
    """Yield ``gputopo_steps.step`` as in a process that has this reporter."""
    with patch.object(gputopo_steps, "_reporter", reporter):
        yield gputopo_steps.step


@contextmanager
def _agent() -> Iterator[tuple[dict[str, str], Callable[[], object]]]:
    """Yield the environment of a container with a socket, and a function that empties it."""
    with (
        tempfile.TemporaryDirectory() as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as agent,
    ):
        path = str(Path(folder, "socket"))
        agent.bind(path)
        agent.setblocking(False)

        def drain() -> None:
            try:
                while agent.recv(512):
                    pass
            except BlockingIOError:
                pass

        yield {"GPUTOPO_STEPS_SOCKET": path}, drain

"""Whether sharing pays: jobs alone, in pairs and in threes, with MPS and without."""

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Final

from gputopo.counters.model import LoadReading
from gputopo.sharing.loadlaw import LoadCapacity, LoadShare
from gputopo.sharing.speedup import gain_of
from gputopo.topology.model import GpuIndex
from gputopo_deviceplugin.counters.faults import CounterError, FaultKind
from gputopo_deviceplugin.counters.session import CounterSession, ReadGpu
from hardwaretest.calibration import SharedLoads, calibrate_capacity
from hardwaretest.client import GpuProgram
from hardwaretest.node import SharedNode
from hardwaretest.report import Report

KINDS: Final = ("mlp-128", "resnet18-32", "resnet18-256", "transformer-8", "resnet50-64")
_COPIES: Final = {"mlp-128": 3, "resnet18-32": 3}
_MEMORY: Final = 12 << 30
_OPTIONS: Final = {"lead": 0.5, "seconds": 2.0, "tail": 0.3}
_JOBS: Final = Path(__file__).with_name("jobs.py")
_NO_EXPORTER: Final = CounterError(FaultKind.FAILED, "not used here")
_START_SECONDS: Final = 120.0
_TRIPLES: Final = (
    ("mlp-128", "mlp-128", "mlp-128"),
    ("resnet18-32", "resnet18-32", "resnet18-32"),
    ("mlp-128", "resnet18-32", "transformer-8"),
    ("resnet18-32", "resnet18-256", "resnet50-64"),
)

Jobs = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Alone:
    """A job alone: steps per second, and its share of the GPU as the counters show it."""

    rate: float
    share: LoadShare


class Speeds:
    """Jobs that stay connected to the GPU, and train on command."""

    def __init__(self, node: SharedNode, jobs: Mapping[str, list[GpuProgram]]) -> None:
        self._node = node
        self._jobs = jobs
        self._counters = CounterSession(node.settings.library_dir)

    @classmethod
    async def start(cls, node: SharedNode, *, mps: bool) -> "Speeds":
        """Start the jobs, with MPS or without."""
        jobs: dict[str, list[GpuProgram]] = {}
        for kind in KINDS:
            program = [sys.executable, str(_JOBS), kind]
            copies = _COPIES.get(kind, 2)
            if mps:
                found = [await node.start_pod(_MEMORY, program=program) for _ in range(copies)]
                jobs[kind] = [each for each, _ in found]
            else:
                alone = node.alone()
                jobs[kind] = [await GpuProgram.start(alone, program) for _ in range(copies)]
        every = [each for programs in jobs.values() for each in programs]
        replies = await asyncio.gather(*(each.request("open", _START_SECONDS) for each in every))
        if not all(reply.get("ready") for reply in replies):
            raise RuntimeError(f"jobs did not start: {replies}")
        return cls(node, jobs)

    @property
    def count(self) -> int:
        """Number of the jobs."""
        return sum(len(programs) for programs in self._jobs.values())

    async def rates(self, kinds: Jobs) -> list[float]:
        """Return the steps per second of each job while all of them train."""
        places = [(kind, [*kinds[:index]].count(kind)) for index, kind in enumerate(kinds)]
        programs = [self._jobs[kind][number] for kind, number in places]
        replies = await asyncio.gather(*(each.request("train", **_OPTIONS) for each in programs))
        return [reply["steps"] / reply["seconds"] for reply in replies]

    async def alone(self, kind: str) -> Alone:
        """Return rate and load of a job that trains alone."""
        measured = asyncio.create_task(self.rates((kind,)))
        await asyncio.sleep(_OPTIONS["lead"])
        self._load()
        await asyncio.sleep(_OPTIONS["seconds"])
        load = self._load()
        (rate,) = await measured
        share = LoadShare(load.occupancy, load.dram or 0.0) if load else LoadShare(0.0, 0.0)
        return Alone(rate, share)

    def _load(self) -> LoadReading | None:
        gpus = {self._node.uuid: ReadGpu(GpuIndex(0), ())}
        return self._counters.read(gpus, _NO_EXPORTER)[self._node.uuid].counters.load

    async def end(self) -> None:
        """End the jobs."""
        self._counters.close()
        every = [each for programs in self._jobs.values() for each in programs]
        await asyncio.gather(*(each.end() for each in every))


async def measure(node: SharedNode, report: Report) -> None:
    """Measure all sets of jobs without MPS and with it, and compare with the predictions."""
    async with _started(node, mps=False) as speeds:
        alone = {kind: await speeds.alone(kind) for kind in KINDS}
        report.show("jobs alone, without MPS", jobs=_shown(alone))
        sliced = await _sets(speeds, alone)
        report.show("normalised speeds without MPS", sets=_rows(sliced))
    await node.wait_until_idle()
    await node.gpus.start(node.uuid)
    async with _started(node, mps=True) as speeds:
        alone = {kind: await speeds.alone(kind) for kind in KINDS}
        report.show("jobs alone, with MPS", jobs=_shown(alone))
        measured = await _sets(speeds, alone)
        report.show("normalised speeds with MPS", sets=_rows(measured))
        clients = await node.gpu.control.clients()
        report.check("all jobs are clients of MPS", holds=len(clients) == speeds.count)
    _compare(alone, sliced, measured, report)


@asynccontextmanager
async def _started(node: SharedNode, *, mps: bool) -> AsyncIterator[Speeds]:
    speeds = await Speeds.start(node, mps=mps)
    try:
        yield speeds
    finally:
        await speeds.end()


def _shown(alone: Mapping[str, Alone]) -> dict[str, dict[str, float]]:
    return {
        kind: {
            "steps per second": round(each.rate, 1),
            "occupancy": round(each.share.occupancy, 4),
            "DRAM": round(each.share.dram, 4),
        }
        for kind, each in alone.items()
    }


async def _sets(speeds: Speeds, alone: Mapping[str, Alone]) -> dict[Jobs, list[float]]:
    found: dict[Jobs, list[float]] = {}
    pairs = combinations_with_replacement(KINDS, 2)
    for kinds in (*pairs, *_TRIPLES):
        rates = await speeds.rates(kinds)
        found[kinds] = [rate / alone[kind].rate for kind, rate in zip(kinds, rates, strict=True)]
    return found


def _rows(sets: Mapping[Jobs, list[float]]) -> dict[str, list[float]]:
    return {" + ".join(kinds): [round(each, 3) for each in found] for kinds, found in sets.items()}


def _compare(
    alone: Mapping[str, Alone],
    sliced: Mapping[Jobs, list[float]],
    measured: Mapping[Jobs, list[float]],
    report: Report,
) -> None:
    """Report summed speed and delta of each set, measured and predicted.

    A set is predicted with the capacity that the other sets show.
    """
    errors = []
    for kinds, speeds in measured.items():
        rates = [alone[kind].rate for kind in kinds]
        gain, before = gain_of(speeds, rates), gain_of(sliced[kinds], rates)
        capacity = capacity_without(alone, measured, kinds)
        predicted = capacity.speed([alone[kind].share for kind in kinds]) if capacity else None
        expected = None if predicted is None else gain_of([predicted] * len(kinds), rates)
        errors += [] if predicted is None else [abs(predicted - speed) for speed in speeds]
        report.show(
            " + ".join(kinds),
            measured=gain,
            without_mps=before,
            predicted=expected,
            capacity=capacity,
        )
    report.show("mean error of a speed", value=sum(errors) / max(1, len(errors)))
    report.show("capacity from all sets", value=capacity_without(alone, measured, ()))


def capacity_without(
    alone: Mapping[str, Alone], measured: Mapping[Jobs, list[float]], left_out: Jobs
) -> LoadCapacity | None:
    """Return the capacity that the measured sets show, without the set ``left_out``."""
    others = [
        SharedLoads(tuple(alone[kind].share for kind in kinds), tuple(speeds))
        for kinds, speeds in measured.items()
        if Counter(kinds) != Counter(left_out)
    ]
    return calibrate_capacity(others)

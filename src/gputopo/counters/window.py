"""Collects what the counters of one container show until a window is complete.

A window lasts at least ``window_seconds``, and until two steps have ended in it. So it contains at
least one whole step, and a job that computes for a minute between two exchanges is not taken for
one that does not communicate.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from statistics import median_low
from typing import Final, NamedTuple

from gputopo.counters.difference import MAX_INTERVAL_SECONDS, CounterHistory, Flow
from gputopo.counters.link_peers import MAX_PCIE_MB_PER_S, LinkPeers
from gputopo.counters.model import ByteCount, GpuCounters
from gputopo.topology.model import GpuIndex

WINDOW_SECONDS: Final = 6.0
"""Default for the least length of a window."""

MAX_WINDOW_SECONDS: Final = 120.0
"""A window ends after this time without two steps, and counts as one without steps."""

LEAST_STEPS: Final = 2
"""Two ends of steps enclose one whole step."""

LEAST_COVERED: Final = 0.8
"""A counter is known in a window if its intervals cover this share of the window."""

NVLINK_SUM: Final = "nvlink"
PCIE: Final = "pcie"


class CounterKey(NamedTuple):
    """One counter of one GPU.

    Attributes:
        name: number of an NVLink, ``NVLINK_SUM`` or ``PCIE``.
    """

    gpu: GpuIndex
    name: int | str


@dataclass(frozen=True, slots=True)
class TrafficWindow:
    """What has flowed in a time.

    Attributes:
        steps: number of training steps, at least 2; None if it is unknown or less.
        flows: what each counter has counted.
    """

    seconds: float
    steps: float | None
    flows: Mapping[CounterKey, Flow]

    def flow(self, key: CounterKey) -> Flow | None:
        """Return what a counter has counted; None if it does not cover the window."""
        found = self.flows.get(key)
        covered = found is not None and found.seconds >= LEAST_COVERED * self.seconds
        return found if covered else None


@dataclass(slots=True)
class _OpenWindow:
    """The window that is not complete.

    Attributes:
        first_steps: count of steps at the begin of the window; None if it is unknown.
        steps: newest count of steps; None if the newest one is unknown or is less than an earlier
            one, which means another process.
    """

    began_us: int
    first_steps: float | None
    steps: float | None
    flows: dict[CounterKey, Flow] = field(default_factory=dict)

    def add(self, flows: Mapping[CounterKey, Flow], steps: float | None) -> None:
        for key, flow in flows.items():
            earlier = self.flows.get(key)
            self.flows[key] = flow if earlier is None else earlier.plus(flow)
        if steps is not None and self.steps is not None and steps < self.steps:
            self.first_steps = None
        self.steps = steps

    def made(self) -> float | None:
        """Return the number of steps in this window; None if it is unknown."""
        if self.steps is None or self.first_steps is None:
            return None
        return self.steps - self.first_steps


class WindowCollector:
    """Turns the counters of one container into windows that follow each other.

    All times are those of the driver. After a jump of this time, a new window begins.
    """

    def __init__(self, gpus: tuple[GpuIndex, ...], peers: LinkPeers, window_seconds: float) -> None:
        self._gpus: Final = gpus
        self._window_seconds: Final = window_seconds
        self._history: Final = CounterHistory(counter_capacities(gpus, peers))
        self._open: _OpenWindow | None = None
        self._newest_us = 0

    def add(
        self, readings: Mapping[GpuIndex, GpuCounters], steps: float | None
    ) -> TrafficWindow | None:
        """Add what was read at one time; return the window that it completes, if any."""
        values = _values(self._gpus, readings)
        if not values:
            return None
        # The median, because one counter may have stopped and another one may have a wrong time.
        now_us = median_low(value.at_us for value in values.values())
        known_steps = steps if steps is not None and isfinite(steps) else None
        flows = self._history.advance(values)
        jumped = not 0 <= now_us - self._newest_us <= MAX_INTERVAL_SECONDS * 1e6
        self._newest_us = now_us
        if self._open is None or jumped:
            self._open = _OpenWindow(now_us, known_steps, known_steps)
            return None
        self._open.add(flows, known_steps)
        return self._close(self._open, now_us)

    def _close(self, window: _OpenWindow, now_us: int) -> TrafficWindow | None:
        seconds, made = (now_us - window.began_us) / 1e6, window.made()
        enough = made is None or made >= LEAST_STEPS or seconds >= MAX_WINDOW_SECONDS
        if seconds < self._window_seconds or not enough:
            return None
        self._open = _OpenWindow(now_us, window.steps, window.steps)
        known = made if made is not None and made >= LEAST_STEPS else None
        return TrafficWindow(seconds, known, window.flows)


def counter_capacities(gpus: tuple[GpuIndex, ...], peers: LinkPeers) -> dict[CounterKey, int]:
    """Return the peak bandwidth of each counter of these GPUs in one direction, in MB/s."""
    found: dict[CounterKey, int] = {}
    for gpu in gpus:
        links = peers.links(gpu)
        found |= {CounterKey(gpu, number): link.mb_per_s for number, link in links.items()}
        found[CounterKey(gpu, NVLINK_SUM)] = sum(link.mb_per_s for link in links.values())
        found[CounterKey(gpu, PCIE)] = peers.pcie_mb_per_s.get(gpu, MAX_PCIE_MB_PER_S)
    return found


def _values(
    gpus: tuple[GpuIndex, ...], readings: Mapping[GpuIndex, GpuCounters]
) -> dict[CounterKey, ByteCount]:
    found: dict[CounterKey, ByteCount] = {}
    for gpu in gpus:
        counters = readings.get(gpu, GpuCounters())
        found |= {CounterKey(gpu, number): count for number, count in counters.links.items()}
        for name, count in ((NVLINK_SUM, counters.nvlink), (PCIE, counters.pcie)):
            if count is not None:
                found[CounterKey(gpu, name)] = count
    return found

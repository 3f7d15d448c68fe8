"""Measures the communication and the load of one container from its counters.

The counters are read about once a second. They are collected in windows
(:mod:`gputopo.counters.window`), and each window with steps votes for a pattern
(:mod:`gputopo.counters.shape`, :mod:`gputopo.counters.votes`).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from gputopo.counters.link_peers import LinkPeers, OtherEnd, traffic_source
from gputopo.counters.load import LoadCollector
from gputopo.counters.model import GpuCounters, Load, ObservedPattern, Traffic, TrafficSource
from gputopo.counters.pairs import pair_traffic
from gputopo.counters.shape import Shape, shape_of
from gputopo.counters.volume import bytes_sent
from gputopo.counters.votes import UnknownReason, vote
from gputopo.counters.window import WINDOW_SECONDS, TrafficWindow, WindowCollector
from gputopo.topology.model import GpuIndex


@dataclass(slots=True)
class _Volume:
    """Bytes that one GPU has sent in the windows with steps, and their number of steps."""

    sent: float = 0.0
    steps: float = 0.0

    def add(self, sent: float, window: TrafficWindow) -> None:
        if window.steps is not None:
            self.sent += sent
            self.steps += window.steps


@dataclass(slots=True)
class _SteppedTime:
    """Time of the windows with steps, and their number of steps."""

    seconds: float = 0.0
    steps: float = 0.0


class TrafficMeter:
    """Measures one container between two samples. Its memory is bounded.

    Make a new meter if the GPUs of the container or the NVLinks of the node change. A container has
    at most 16 GPUs.
    """

    def __init__(
        self,
        gpus: Iterable[GpuIndex],
        peers: LinkPeers,
        *,
        window_seconds: float = WINDOW_SECONDS,
    ) -> None:
        self._gpus: Final = tuple(sorted(set(gpus)))
        self._peers: Final = peers
        self._window_seconds: Final = window_seconds
        self._source: Final = traffic_source(peers, self._gpus)
        self.reset()

    def reset(self) -> None:
        """Forget everything, because the environment of the container has changed."""
        self._windows = WindowCollector(self._gpus, self._peers, self._window_seconds)
        self._load = LoadCollector(self._gpus)
        self._begin_sample()

    def add(
        self,
        readings: Mapping[GpuIndex, GpuCounters],
        steps: float | None,
        *,
        alone: bool = True,
    ) -> None:
        """Add the counters that were read at one time.

        Args:
            readings: counters of the GPUs of the container; other GPUs are ignored.
            steps: number of steps of the container until this time, from any begin; None if it is
                unknown. A count that decreases is that of another process.
            alone: whether no other container uses one of the GPUs.
        """
        self._load.add(readings, alone=alone)
        window = self._windows.add(readings, steps)
        if window is not None:
            self._add_window(window)

    def take(self) -> tuple[Traffic | None, Load | None]:
        """Return the traffic and the load since the last call, and begin a new sample.

        The traffic is None with one GPU and if no counters could be read. The load is None also
        without steps, and if the container was not alone at any time.
        """
        found = self._traffic(), self._load.take(self._stepped.seconds, self._stepped.steps)
        self._begin_sample()
        return found

    def _begin_sample(self) -> None:
        self._volumes: dict[TrafficSource, _Volume] = {}
        self._stepped = _SteppedTime()
        self._shapes = Counter[Shape]()

    def _add_window(self, window: TrafficWindow) -> None:
        if window.steps is not None:
            self._stepped.seconds += window.seconds
            self._stepped.steps += window.steps
        if len(self._gpus) > 1:
            self._add_volume(window)
            if self._source is TrafficSource.NVLINK_PAIRS and window.steps is not None:
                self._add_shape(window)

    def _add_volume(self, window: TrafficWindow) -> None:
        source = self._source
        sent = bytes_sent(window, self._gpus, self._peers, source)
        if sent is None and source is TrafficSource.NVLINK_PAIRS:
            source = TrafficSource.NVLINK_TOTALS  # a driver may have the sum of the links only
            sent = bytes_sent(window, self._gpus, self._peers, source)
        if sent is not None:
            self._volumes.setdefault(source, _Volume()).add(sent, window)

    def _add_shape(self, window: TrafficWindow) -> None:
        traffic = pair_traffic(window, self._gpus, self._peers)
        if traffic is not None:
            self._shapes[shape_of(traffic)] += 1

    def _traffic(self) -> Traffic | None:
        if not self._volumes:
            return None
        source = min(self._volumes, key=lambda each: each is not self._source)
        volume = self._volumes[source]
        per_step = round(volume.sent / volume.steps) if volume.steps else None
        pattern = self._pattern(source, volume)
        if isinstance(pattern, ObservedPattern):
            return Traffic(source, per_step, pattern)
        return Traffic(source, per_step, None, pattern.value)

    def _pattern(self, source: TrafficSource, volume: _Volume) -> ObservedPattern | UnknownReason:
        if source is TrafficSource.PARTIAL:
            return UnknownReason.NO_NVLINK
        if source is not self._source:
            return UnknownReason.ONLY_TOTALS
        if source is TrafficSource.NVLINK_TOTALS:
            ends = {end for gpu in self._gpus for end in self._peers.ends(gpu)}
            return UnknownReason.SWITCH if OtherEnd.SWITCH in ends else UnknownReason.HIDDEN
        return vote(self._shapes) if volume.steps else UnknownReason.NO_STEPS

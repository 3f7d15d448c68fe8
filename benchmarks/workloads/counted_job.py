"""Simulates a job on a server, and what the counters of its GPUs show once a second.

The job computes and then exchanges data in each step. Another container uses the rest of the
server. Nothing here uses code of :mod:`gputopo.counters` but its types for input.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, combinations
from operator import mul
from random import Random
from statistics import fmean
from typing import Final, NamedTuple

from benchmarks.workloads.collectives import LAYOUTS, Links, Pair, Traffic
from gputopo.counters.link_peers import LinkPeer, LinkPeers, OtherEnd
from gputopo.counters.model import ByteCount, GpuCounters
from gputopo.topology.model import GpuIndex, LinkKind, NodeTopology

STRAY_PAIRS: Final = 0.4
"""Part of the pairs with traffic that does not belong to the pattern."""

_PCIE: Final = -1
_PCIE_MB_PER_S: Final = 12_000
_HOST_LINKS: Final = 2
_KIB: Final = 1024
_STOPPED_SECONDS: Final = 3


def server_links(topology: NodeTopology, random: Random, *, host_links: bool) -> LinkPeers:
    """Return the NVLinks of a server with random link numbers, some of which are inactive."""
    ends: dict[GpuIndex, list[LinkPeer]] = {gpu.index: [] for gpu in topology.gpus}
    for link in topology.links:
        if link.kind is LinkKind.NVLINK:
            rate = link.bandwidth_mb_per_s // link.count
            ends[link.a] += [LinkPeer(link.b, rate)] * link.count
            ends[link.b] += [LinkPeer(link.a, rate)] * link.count
    switched = {gpu: link for link in topology.links for gpu in (link.a, link.b)}
    for gpu, link in switched.items():
        if link.kind is LinkKind.NVSWITCH:
            rate = link.bandwidth_mb_per_s // link.count
            ends[gpu] += [LinkPeer(OtherEnd.SWITCH, rate)] * link.count
        if host_links:
            ends[gpu] += [LinkPeer(OtherEnd.HOST, 25_000)] * _HOST_LINKS
    numbered = {}
    for gpu, links in ends.items():
        numbers = sorted(random.sample(range(len(links) + 1), len(links)))
        numbered[gpu] = dict(zip(numbers, random.sample(links, len(links)), strict=True))
    return LinkPeers(numbered, dict.fromkeys(ends, _PCIE_MB_PER_S))


class Disturbance(NamedTuple):
    """What makes the counters differ from the pattern of a job.

    Attributes:
        noise: relative standard deviation of the traffic of each pair, once for the whole run and
            again in each second.
        stray: most traffic of a pair that is not of the pattern, relative to the busiest pair.
    """

    noise: float = 0.1
    stray: float = 0.08


USUAL: Final = Disturbance()


@dataclass(frozen=True)
class Job:
    """A job on some GPUs of a server.

    Attributes:
        step_seconds: time of one step.
        share: part of a step in which data is exchanged.
        utilisation: of the busiest pair, mean over the time.
        relayed: whether pairs without NVLink send through a GPU between them, if there is one, and
            not through PCIe.
        faults: whether all counters are reset, and those of a GPU stop for some seconds.
    """

    layout: str
    gpus: tuple[GpuIndex, ...]
    peers: LinkPeers
    seed: int
    step_seconds: float
    share: float
    utilisation: float
    relayed: bool
    faults: bool
    disturbance: Disturbance = USUAL
    seconds: int = 66

    def links(self) -> dict[Pair, int]:
        """Return the number of NVLinks between the GPUs, by their positions."""
        found = {}
        for (p, a), (q, b) in combinations(enumerate(self.gpus), 2):
            if count := sum(link.peer == b for link in self.peers.of[a].values()):
                found[p, q] = count
        return found

    def link_rate(self) -> float:
        """Return the bytes per second of one NVLink; of PCIe if there is none."""
        rates = [link.mb_per_s for link in self.peers.of[self.gpus[0]].values()]
        return 1e6 * max(rates, default=_PCIE_MB_PER_S)


class Exchange:
    """The data that a job exchanges, by sender and receiver, until any time.

    Attributes:
        traffic: relative bytes by sender and receiver, as the job exchanges them.
        bytes_per_step: what one GPU sends in one step, mean over the GPUs.
        links: number of NVLinks of each pair, by positions in the GPU set.
    """

    def __init__(self, job: Job, random: Random) -> None:
        """Draw the layout and the noise."""
        size = len(job.gpus)
        self._job: Final = job
        self.links: Final = job.links()
        self.traffic: Final = LAYOUTS[job.layout](self.links, size, random)
        carried = _carried(self.traffic, self.links, size, relayed=job.relayed)
        capacity = {pair: count * job.link_rate() for pair, count in self.links.items()}
        most = max(
            (n / capacity.get(_pair(*way), _PCIE_MB_PER_S * 2e5) for way, n in carried.items()),
            default=1.0,
        )
        scale = job.utilisation / most
        self._per_step: Final = {way: n * scale * job.step_seconds for way, n in carried.items()}
        self._factors: Final = {way: self._factors_of(random) for way in sorted(carried)}
        self._whole: Final = {
            way: list(accumulate(map(mul, factors, self._exchanges()), initial=0.0))
            for way, factors in self._factors.items()
        }
        self._stray: Final = self._strays(random)
        per_step = sum(n * fmean(self._factors[way]) for way, n in self._per_step.items())
        direct = self.traffic.total() / max(1, carried.total())  # relayed data is sent twice
        self.bytes_per_step: Final = direct * per_step / size

    def between(self, sender: int, receiver: int, at: float) -> float:
        """Return the bytes until a time, with those that do not belong to the pattern."""
        way, whole = (sender, receiver), int(at)
        found = self._stray.get(_pair(*way), 0.0) * at
        if way in self._whole:
            rest = self._factors[way][whole] * (self._work(at) - self._work(whole))
            found += self._per_step[way] * (self._whole[way][whole] + rest)
        return found

    def _factors_of(self, random: Random) -> list[float]:
        """Return an error for each second, and the error of the whole run in all of them."""
        noise = self._job.disturbance.noise
        constant = _noise(random, noise)
        return [constant * _noise(random, noise) for _ in range(self._job.seconds + 2)]

    def _exchanges(self) -> Iterator[float]:
        """Yield the number of exchanges in each second."""
        for second in range(self._job.seconds + 2):
            yield self._work(second + 1) - self._work(second)

    def _strays(self, random: Random) -> dict[Pair, float]:
        """Return a constant traffic in each direction of some pairs, in bytes per second."""
        both: Counter[Pair] = Counter()
        for way, amount in self._per_step.items():
            both[_pair(*way)] += int(amount / self._job.step_seconds)
        least = 0.003 * self._job.link_rate()
        most = max(self._job.disturbance.stray * max(both.values(), default=0) / 2, least)
        return {
            pair: random.random() * most
            for pair in sorted(self.links)
            if random.random() < STRAY_PAIRS
        }

    def _work(self, at: float) -> float:
        """Return the number of exchanges until a time; the part of one that is done counts."""
        steps, rest = divmod(at / self._job.step_seconds, 1)
        return steps + max(0.0, (rest - 1 + self._job.share) / self._job.share)


class CountedJob:
    """The counters of a job once a second.

    Attributes:
        exchange: what the job exchanges.
    """

    def __init__(self, job: Job) -> None:
        """Draw what is random of the whole run."""
        self._random = random = Random(job.seed)  # noqa: S311 - repeatable
        self._job: Final = job
        self.exchange: Final = Exchange(job, random)
        keys = [(gpu, n) for gpu in job.gpus for n in [*sorted(job.peers.of[gpu]), _PCIE]]
        self._start: Final = {key: random.randrange(2**40) for key in keys}
        self._outside: Final = {key: random.random() * 15e9 for key in keys}
        self._inputs: Final = random.uniform(0.05, 1) * 1e9
        self._reset_at: Final = random.uniform(10, 50) if job.faults else None
        self._switched: dict[tuple[GpuIndex, float, int], float] = {}
        self._stopped: Final = (random.choice(job.gpus), random.uniform(10, 50))

    def readings(self) -> Iterator[tuple[dict[GpuIndex, GpuCounters], float]]:
        """Yield the counters and the count of steps, once a second."""
        late = {gpu: self._random.uniform(0, 0.03) for gpu in self._job.gpus}
        for second in range(1, self._job.seconds):
            at = second + self._random.uniform(-0.02, 0.02)
            found = {gpu: self._read(gpu, at + late[gpu]) for gpu in self._job.gpus}
            yield found, float(int((at - self._random.random()) / self._job.step_seconds) + 100)

    def _read(self, gpu: GpuIndex, at: float) -> GpuCounters:
        begin = self._stopped[1]
        if self._job.faults and gpu == self._stopped[0] and begin < at < begin + _STOPPED_SECONDS:
            at = begin
        links = {number: self._count(gpu, number, at) for number in self._job.peers.of[gpu]}
        return GpuCounters(links=links, pcie=self._count(gpu, _PCIE, at))

    def _count(self, gpu: GpuIndex, number: int, at: float) -> ByteCount:
        is_reset = self._reset_at is not None and at >= self._reset_at
        since = self._reset_at if self._reset_at is not None and is_reset else 0.0
        start = 0 if is_reset else self._start[gpu, number]
        sent, received = (
            int(start + self._total(gpu, number, at, end) - self._total(gpu, number, since, end))
            for end in (0, 1)
        )
        return ByteCount(sent // _KIB * _KIB, received // _KIB * _KIB, int(at * 1e6) + 10**15)

    def _total(self, gpu: GpuIndex, number: int, at: float, end: int) -> float:
        """Return the bytes until a time; ``end`` is 0 for sent, 1 for received."""
        inputs = self._inputs * at * (1 if end else 0.02)
        if number == _PCIE:
            return inputs + self._without_link(gpu, at, end)
        peer = self._job.peers.of[gpu][number].peer
        if peer == OtherEnd.SWITCH:
            return self._through_switch((gpu, at, end)) / len(self._job.peers.of[gpu])
        if peer == OtherEnd.HOST:
            return inputs / _HOST_LINKS
        if peer not in self._job.gpus:
            return self._outside[gpu, number] * at
        other = GpuIndex(int(peer))
        return self._between(gpu, other, at, end) / self._count_of_links(gpu, other)

    def _through_switch(self, key: tuple[GpuIndex, float, int]) -> float:
        """Return the bytes of a GPU until a time, which its links share equally."""
        if key not in self._switched:
            gpu, at, end = key
            both = sum(self._between(gpu, other, at, end) for other in self._others(gpu))
            self._switched = {**dict([*self._switched.items()][-3:]), key: both}
        return self._switched[key]

    def _others(self, gpu: GpuIndex) -> list[GpuIndex]:
        return [other for other in self._job.gpus if other != gpu]

    def _between(self, gpu: GpuIndex, other: GpuIndex, at: float, end: int) -> float:
        here, there = self._job.gpus.index(gpu), self._job.gpus.index(other)
        return self.exchange.between(*((there, here) if end else (here, there)), at)

    def _count_of_links(self, gpu: GpuIndex, other: GpuIndex) -> int:
        return self.exchange.links.get(
            _pair(self._job.gpus.index(gpu), self._job.gpus.index(other)), 0
        )

    def _without_link(self, gpu: GpuIndex, at: float, end: int) -> float:
        """Return the bytes of pairs without NVLink or switch, which go through PCIe."""
        links = self._job.peers.of[gpu].values()
        if any(link.peer == OtherEnd.SWITCH for link in links):
            return 0.0
        return sum(
            self._between(gpu, other, at, end)
            for other in self._others(gpu)
            if not self._count_of_links(gpu, other)
        )


def _pair(a: int, b: int) -> Pair:
    return min(a, b), max(a, b)


def _noise(random: Random, deviation: float) -> float:
    """Return a factor of 1 on average, at most three standard deviations from it."""
    return max(0.0, 1 + deviation * min(3.0, max(-3.0, random.gauss(0, 1))))


def _carried(traffic: Traffic, links: Links, size: int, *, relayed: bool) -> Traffic:
    """Return the traffic by hop: relayed data passes through a GPU with NVLinks to both ends."""
    found: Traffic = Counter()
    for (a, b), amount in traffic.items():
        between = [gpu for gpu in range(size) if {_pair(a, gpu), _pair(b, gpu)} <= set(links)]
        if relayed and _pair(a, b) not in links and between:
            found[a, between[0]] += amount
            found[between[0], b] += amount
        else:
            found[a, b] += amount
    return found

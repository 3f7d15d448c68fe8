"""Any faults of the counters at any time: a figure is right or missing, and nothing crashes."""

import tempfile
from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings, strategies

from fakenvml.build import build_library
from gputopo.api.v1alpha1 import CounterStatus
from gputopo.counters.difference import Flow, difference
from gputopo.counters.link_peers import MAX_PCIE_MB_PER_S
from gputopo.counters.model import ByteCount, GpuCounters, LoadReading
from gputopo_deviceplugin.counters.exporter import ExporterRates
from gputopo_deviceplugin.counters.faults import CounterError, FaultKind
from gputopo_deviceplugin.counters.gpu_reader import GpuReading
from gputopo_deviceplugin.counters.status import counter_status
from support.agent.counters import SECOND_US, START_US, CounterNode
from support.property_settings import fuzzed, tried

SERVERS = ["dgx1-p100", "dgx1-v100", "summit", "dgx-a100", "dgx-h100", "hgx-b200", "pcie-8gpu"]
CODES = [*range(1, 31), 999, 12345]
GPUS = 2
"""Only the first GPUs have traffic and faults."""

KIB = 1024
NARROWEST_BITS = 42
"""A counter of an unknown width wraps at least so late that the speed of the link excludes it."""

Key = tuple[int, str]


class Oracle:
    """The rates that the test has set, and their integrals."""

    def __init__(self) -> None:
        self._times: dict[Key, list[int]] = {}
        self._rates: dict[Key, list[float]] = {}

    def set_rate(self, key: Key, at_us: int, rate: float) -> None:
        """Set a rate from a time on."""
        self._times.setdefault(key, [0]).append(at_us)
        self._rates.setdefault(key, [0.0]).append(rate)

    def amount(self, key: Key, from_us: int, to_us: int) -> float:
        """Return the integral of a rate."""
        times, rates = self._times.get(key, [0]), self._rates.get(key, [0.0])
        inside = [time for time in times if from_us < time < to_us]
        edges = [from_us, *inside, to_us]
        return sum(
            rates[bisect_right(times, begin) - 1] * (end - begin) / SECOND_US
            for begin, end in pairwise(edges)
        )

    def range_of(self, key: Key) -> tuple[float, float]:
        """Return the smallest and the largest rate so far."""
        rates = self._rates.get(key, [0.0])
        return min(rates), max(rates)


class Scenario:
    """A node with random traffic and faults."""

    def __init__(self, node: CounterNode, chance: Random) -> None:
        self.node, self.chance, self.oracle = node, chance, Oracle()
        assert node.hardware.topology is not None
        self._indices = [gpu.index for gpu in node.hardware.topology.gpus[:GPUS]]
        self._reset: set[int] = set()
        self._faults: list[str] = []

    def change(self) -> None:
        """Change rates, faults or nothing."""
        kind = self.chance.randrange(4)
        if kind == 0:
            self.set_rates()
        elif kind == 1:
            lines = [self.fault() for _ in range(self.chance.randrange(4))]
            resets = [f"counter-reset {gpu}" for gpu in self._reset]
            self.node.counters.write_conf(*lines, *resets)
        elif kind == 2:
            self.node.exporter = self.exporter()

    def set_rates(self) -> None:
        """Set random rates, at most what the links carry."""
        at_us, lines = self.node.counters.at_us, []

        def rate(key: Key, most: float) -> int:
            found = self.chance.choice([0, self.chance.randrange(int(most))])
            self.oracle.set_rate(key, at_us, found)
            return found

        for gpu in self._indices:
            for link, peer in self.node.hardware.peers.links(gpu).items():
                most = peer.mb_per_s * 1e6
                lines.append(
                    f"nvlink {gpu} {link} {rate((gpu, f's{link}'), most)}"
                    f" {rate((gpu, f'r{link}'), most)}"
                )
            lines.append(f"pcie {gpu} {rate((gpu, 'sp'), 9e9)} {rate((gpu, 'rp'), 9e9)}")
            lines.append(f"occupancy {gpu} {rate((gpu, 'occupancy'), 1001)}")
            lines.append(f"dram {gpu} {rate((gpu, 'dram'), 1001)}")
            lines.append(f"utilization {gpu} {rate((gpu, 'utilization'), 101)}")
        self.node.counters.set_rates(*lines)

    def fault(self) -> str:
        """Return a line with a fault."""
        gpu, code = self.chance.choice(self._indices), self.chance.choice(CODES)
        what = self.chance.choice(["nvlink", "pcie", "gpm", "utilization", "all"])
        bits = self.chance.choice([32, self.chance.randrange(NARROWEST_BITS, 64)])
        if self.chance.random() < 0.1:
            self._reset.add(gpu)
        return self.chance.choice(
            [
                f"counter-fault {gpu} {what} {code}",
                f"counter-fault {gpu} {what} {code}",
                f"counter-wrap {gpu} {bits}",
                f"counter-stall {gpu}",
                f"fault {gpu} {code}",
                f"mig {gpu}",
            ]
        )

    def exporter(self) -> dict[str, ExporterRates] | CounterError:
        """Return an exporter that fails or shows the load of some GPUs."""
        if self.chance.random() < 0.3:
            return CounterError(FaultKind.FAILED, "no response")
        to_us = self.node.counters.at_us
        odd = self.chance.choice([None, -1.0, float("nan"), 1e300])
        good = ExporterRates(
            self._now("occupancy"), self._now("dram"), None, None, to_us - 5 * SECOND_US, to_us
        )
        bad = ExporterRates(odd, odd, odd, odd, to_us - 5 * SECOND_US, to_us)
        return {self.node.uuids[0]: good, self.node.uuids[1]: bad}

    def _now(self, what: str) -> float:
        key, at_us = (self._indices[0], what), self.node.counters.at_us
        return self.oracle.amount(key, at_us, at_us + SECOND_US) / 1000

    def check(self, before: GpuReading | None, after: GpuReading, gpu: int) -> None:
        """Check what one GPU shows against the rates."""
        if after.counters.load is not None:
            self._check_load(after.counters.load, gpu)
        if before is None or before.epoch != after.epoch:
            return
        old, new = _counts(before.counters), _counts(after.counters)
        for name in old.keys() & new.keys():
            self._check_count(old[name], new[name], gpu, name)

    def _check_count(self, old: ByteCount, new: ByteCount, gpu: int, name: str) -> None:
        flow = difference(old, new, self._limit(gpu, name))
        if not isinstance(flow, Flow):
            return
        links = [str(link) for link in self.node.hardware.peers.links(gpu)]  # type: ignore[arg-type]
        names = links if name == "all" else [name]
        for direction, found in (("s", flow.sent), ("r", flow.received)):
            true = sum(
                self.oracle.amount((gpu, f"{direction}{each}"), old.at_us, new.at_us)
                for each in names
            )
            assert abs(found - true) <= 2 * KIB * len(names) + 1e-6 * true, (gpu, name, found, true)
            tried("differences of counters")

    def _limit(self, gpu: int, name: str) -> int:
        if name == "p":
            return MAX_PCIE_MB_PER_S
        links = self.node.hardware.peers.links(gpu)  # type: ignore[arg-type]
        if name == "all":
            return sum(each.mb_per_s for each in links.values())
        return links[int(name)].mb_per_s

    def _check_load(self, load: LoadReading, gpu: int) -> None:
        plain = load.source.value == "Utilization"
        least, most = self.oracle.range_of((gpu, "utilization" if plain else "occupancy"))
        unit = 100 if plain else 1000
        assert least / unit - 1e-6 <= load.occupancy <= most / unit + 1e-6
        if load.dram is not None:
            least, most = self.oracle.range_of((gpu, "dram"))
            assert least / 1000 - 1e-6 <= load.dram <= most / 1000 + 1e-6
        tried("loads of GPUs")


def _counts(counters: GpuCounters) -> dict[str, ByteCount]:
    found = {str(link): count for link, count in counters.links.items()}
    if counters.nvlink is not None:
        found["all"] = counters.nvlink
    if counters.pcie is not None:
        found["p"] = counters.pcie
    return found


@pytest.fixture(scope="module")
def library_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("lib")).parent


@pytest.fixture(scope="module", autouse=True)
def no_other_files() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAKE_NVML_TOPOLOGY", "")  # so that it is unset after the tests
        yield


@settings(fuzzed)
@given(seed=strategies.integers(0, 2**64))
def test_a_figure_is_right_or_missing(library_dir: Path, seed: int) -> None:
    tried("runs with faults of counters")
    chance = Random(seed)  # noqa: S311 - repeatable disorder
    with tempfile.TemporaryDirectory(prefix="gt-") as folder:
        node = CounterNode(Path(folder), library_dir, chance.choice(SERVERS))
        try:
            scenario = Scenario(node, chance)
            scenario.set_rates()
            before: list[GpuReading | None] = [None] * GPUS
            for _ in range(chance.randrange(5, 60)):
                scenario.change()
                found = node.read(chance.choice([0, 0.5, 1, 1, 1, 5, 61]))
                status = counter_status(found)
                assert [CounterStatus.model_validate(each.to_json()) for each in status] == status
                for index in range(GPUS):
                    scenario.check(before[index], found[index], scenario._indices[index])
                    before[index] = found[index]
            assert node.counters.at_us >= START_US
        finally:
            node.close()

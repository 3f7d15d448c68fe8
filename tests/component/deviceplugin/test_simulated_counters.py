"""The simulated NVML counts as its files of rates say."""

import math
import time
from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest

from gputopo.catalogue import named, names
from gputopo_deviceplugin.gpus.nvml import Nvml
from support.agent.counters import SECOND_US, START_US, SimulatedCounters, replace

KIB = 1024
ALL_LINKS = 2**32 - 1
GB = 10**9


@pytest.fixture
def opened(
    tmp_path: Path, library_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SimulatedCounters]:
    monkeypatch.setenv("FAKE_NVML_TOPOLOGY", "")
    counters = SimulatedCounters(tmp_path)
    counters.use()
    nvml = Nvml(library_dir)
    yield counters
    nvml.close()


def handle(index: int = 0) -> object:
    return pynvml.nvmlDeviceGetHandleByIndex(index)


def field(identity: int, scope: int = 0, gpu: int = 0) -> pynvml.c_nvmlFieldValue_t:
    [value] = pynvml.nvmlDeviceGetFieldValues(handle(gpu), [(identity, scope)])
    return value


def count(identity: int, scope: int = 0, gpu: int = 0) -> int:
    found = field(identity, scope, gpu)
    assert found.nvmlReturn == pynvml.NVML_SUCCESS
    return int(found.value.ullVal)


def code(identity: int, scope: int = 0, gpu: int = 0) -> int:
    return int(field(identity, scope, gpu).nvmlReturn)


def test_bytes_are_the_integral_of_the_rates(opened: SimulatedCounters) -> None:
    opened.set_rates("nvlink 0 2 2048000 1024000")
    sent, received, other = count(138, 2), count(139, 2), count(138, 1)
    opened.wait(1.5)
    assert field(138, 2).timestamp == START_US + 1.5 * SECOND_US
    opened.set_rates("nvlink 0 2 0 1024000")
    opened.wait(2)
    assert count(138, 2) - sent == 3000
    assert count(139, 2) - received == 3500
    assert count(138, 1) == other


def test_the_rates_of_several_files_are_added(opened: SimulatedCounters) -> None:
    folder = opened.folder / "counters.d"
    folder.mkdir()
    opened.set_rates("nvlink 0 0 1024 0")
    before = count(138)
    replace(folder / "a", ["nvlink 0 0 2048 0", "occupancy 0 300", "utilization 0 70"])
    replace(folder / "b", ["# a comment", "", "nvlink 0 0 4096 0", "utilization 0 60"])
    (folder / ".hidden").write_text("nonsense\n")
    opened.wait(1)
    assert count(138) - before == 7
    assert pynvml.nvmlDeviceGetUtilizationRates(handle()).gpu == 100
    (folder / "b").unlink()
    opened.wait(1)
    assert count(138) - before == 10


def test_a_file_that_cannot_be_read_is_reported_and_ignored(
    opened: SimulatedCounters, capfd: pytest.CaptureFixture[str]
) -> None:
    (opened.folder / "counters.d").mkdir()
    replace(opened.folder / "counters.d/bad", ["nvlink 0 0 1024 0", "nvlink 0 99 1 1"])
    opened.set_rates("nvlink 0 0 2048 0")
    before = count(138)
    opened.wait(1)
    assert count(138) - before == 2
    assert "counters.d/bad:2: cannot read: nvlink 0 99 1 1" in capfd.readouterr().err


def test_without_a_clock_the_time_passes_by_itself(opened: SimulatedCounters) -> None:
    replace(opened.folder / "counters.conf", ["nvlink 0 0 1e9 0"])
    count(138)  # the file is read
    time.sleep(0.1)  # the next look at the files
    before, after = field(138), field(138)
    while after.timestamp - before.timestamp < 0.1 * SECOND_US:
        after = field(138)
    elapsed_us = after.timestamp - before.timestamp
    bytes_sent = (after.value.ullVal - before.value.ullVal) * KIB
    assert bytes_sent == pytest.approx(GB * elapsed_us / SECOND_US, abs=2 * KIB)
    assert abs(after.timestamp - time.time() * SECOND_US) < 3600 * SECOND_US


FIELDS = {"data": 138, "sum": 138, "raw": 141, "pcie": 197, "packets": 201, "bytes": 204}
SUPPORTED = {
    "dgx1-p100": set(),
    "dgx1-v100": {"data", "raw"},
    "dgx-a100": {"data", "raw", "sum", "pcie"},
    "dgx-h100": {"data", "raw", "sum", "pcie"},
    "hgx-b200": {"pcie", "packets", "bytes"},
    "pcie-8gpu": set(),
    "a100-pcie-4gpu": {"data", "raw", "sum", "pcie"},
    "pcie-4gpu-1socket": {"pcie"},
}


@pytest.mark.parametrize("server", SUPPORTED)
def test_each_architecture_has_its_fields(
    server: str, tmp_path: Path, library_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_NVML_TOPOLOGY", "")
    SimulatedCounters(tmp_path, server).use()
    nvml = Nvml(library_dir)
    try:
        codes = {name: code(number, ALL_LINKS * (name == "sum")) for name, number in FIELDS.items()}
        gpm = pynvml.nvmlGpmQueryDeviceSupport(handle()).isSupportedDevice
        rates = pynvml.nvmlDeviceGetUtilizationRates(handle())
    finally:
        nvml.close()
    assert {name for name, each in codes.items() if not each} == SUPPORTED[server]
    unsupported = {pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_INVALID_ARGUMENT}
    assert {*codes.values()} <= {pynvml.NVML_SUCCESS} | unsupported
    assert bool(gpm) == (server in {"dgx-h100", "hgx-b200"})
    assert rates.gpu == 0


def test_the_architecture_of_every_model_in_the_catalogue_is_known() -> None:
    known = ("P100", "P40", "V100", "T4", "A100", "A6000", "A10G", "L40S", "H100", "B200")
    models = {gpu.model for name in names() for gpu in named(name).gpus}
    assert [model for model in models if not any(each in model for each in known)] == []


def test_the_architecture_can_be_set(opened: SimulatedCounters) -> None:
    opened.write_conf("architecture 0 blackwell")
    assert code(138) == pynvml.NVML_ERROR_NOT_SUPPORTED
    assert code(202) == pynvml.NVML_SUCCESS


@pytest.mark.parametrize(
    ("line", "identity"), [("nvlink", 138), ("pcie", 197), ("all", 138), ("all", 197)]
)
def test_a_fault_of_a_counter(opened: SimulatedCounters, line: str, identity: int) -> None:
    opened.write_conf("architecture 0 hopper", "architecture 1 hopper", f"counter-fault 0 {line} 4")
    assert code(identity) == pynvml.NVML_ERROR_NO_PERMISSION
    assert code(identity, gpu=1) == pynvml.NVML_SUCCESS
    assert pynvml.nvmlDeviceGetUUID(handle()) == opened.uuids[0]


def test_the_utilization_can_fail(opened: SimulatedCounters) -> None:
    opened.write_conf("counter-fault 0 utilization 999", "mig 1")
    with pytest.raises(pynvml.NVMLError_Unknown):
        pynvml.nvmlDeviceGetUtilizationRates(handle())
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetUtilizationRates(handle(1))


def test_a_narrow_counter_wraps(opened: SimulatedCounters) -> None:
    opened.set_rates("nvlink 0 0 1024 0")
    wide = count(138)
    opened.write_conf("counter-wrap 0 16")
    assert count(138) == wide % 2**16
    assert field(138).valueType == pynvml.NVML_VALUE_TYPE_UNSIGNED_INT
    opened.wait(2**16 + 1)
    assert count(138) == (wide + 1) % 2**16
    opened.write_conf("counter-wrap 0 40")
    assert field(138).valueType == pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG


def test_a_reset_happens_once(opened: SimulatedCounters) -> None:
    opened.set_rates("nvlink 0 0 1024 0")
    assert count(138) > 0
    opened.write_conf("counter-reset 0")
    assert count(138) == 0
    opened.wait(3)
    assert (count(138), count(139)) == (3, 0)
    opened.write_conf("counter-reset 0", "xid 1 13")
    assert count(138) == 3
    assert count(138, gpu=1) > 0


def test_stalled_counters_and_their_time_stamps_stop(opened: SimulatedCounters) -> None:
    opened.set_rates("nvlink 0 0 1024 0")
    before = count(138)
    opened.wait(1)
    assert count(138) - before == 1
    opened.write_conf("counter-stall 0")
    opened.wait(5)
    assert count(138) - before == 1
    assert field(138).timestamp == START_US + SECOND_US
    opened.write_conf()
    assert count(138) - before == 6


def test_the_throughput_of_pcie_is_a_rate(opened: SimulatedCounters) -> None:
    opened.set_rates("pcie 0 2048000 1024000")
    assert pynvml.nvmlDeviceGetPcieThroughput(handle(), pynvml.NVML_PCIE_UTIL_TX_BYTES) == 2000
    assert pynvml.nvmlDeviceGetPcieThroughput(handle(), pynvml.NVML_PCIE_UTIL_RX_BYTES) == 1000


def metrics(first: object, second: object, *identities: int) -> dict[int, float | int]:
    """Return the value of each metric, or the error code as an int."""
    get = pynvml.c_nvmlGpmMetricsGet_t()
    get.version = pynvml.NVML_GPM_METRICS_GET_VERSION
    get.numMetrics = len(identities)
    get.sample1, get.sample2 = first, second
    for index, identity in enumerate(identities):
        get.metrics[index].metricId = identity
    found = pynvml.nvmlGpmMetricsGet(get).metrics[: len(identities)]
    return {each.metricId: each.nvmlReturn or each.value for each in found}


def test_metrics_of_gpm_are_means_between_two_samples(opened: SimulatedCounters) -> None:
    opened.write_conf("architecture 0 hopper")
    opened.set_rates(
        "occupancy 0 250", "dram 0 800", f"nvlink 0 0 {2**21} {2**20}", f"pcie 0 {2**22} 0"
    )
    first, second = pynvml.nvmlGpmSampleAlloc(), pynvml.nvmlGpmSampleAlloc()
    pynvml.nvmlGpmSampleGet(handle(), first)
    opened.wait(1)
    opened.set_rates("occupancy 0 750")
    opened.wait(1)
    pynvml.nvmlGpmSampleGet(handle(), second)
    found = metrics(first, second, 2, 3, 10, 20, 21, 60, 61, 62, 63, 64, 96, 97, 212, 247, 1)
    not_supported = pynvml.NVML_ERROR_NOT_SUPPORTED
    expected = {2: 50, 3: 50, 10: 40, 20: 2, 21: 0, 60: 0.5, 61: 1, 62: 0.5, 63: 1, 64: 0}
    unknown = dict.fromkeys((96, 97, 212, 247, 1), not_supported)
    assert found == pytest.approx(expected | unknown)
    [value] = metrics(second, second, 3).values()
    assert math.isnan(value)
    for sample in (first, second):
        pynvml.nvmlGpmSampleFree(sample)


def test_samples_of_gpm_need_the_architecture_and_the_permission(opened: SimulatedCounters) -> None:
    opened.write_conf("architecture 1 hopper", "counter-fault 1 gpm 4")
    sample = pynvml.nvmlGpmSampleAlloc()
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlGpmSampleGet(handle(0), sample)
    with pytest.raises(pynvml.NVMLError_NoPermission):
        pynvml.nvmlGpmSampleGet(handle(1), sample)
    pynvml.nvmlGpmSampleFree(sample)


@pytest.mark.parametrize(
    "line", ["architecture 0 kepler", "counter-fault 0 fan 4", "counter-wrap 0 65", "counter-x 0"]
)
def test_an_unknown_line_leaves_the_last_good_state(
    opened: SimulatedCounters, capfd: pytest.CaptureFixture[str], line: str
) -> None:
    opened.write_conf("counter-fault 0 nvlink 4")
    assert code(138) == pynvml.NVML_ERROR_NO_PERMISSION
    opened.write_conf(line)
    assert code(138) == pynvml.NVML_ERROR_NO_PERMISSION
    assert f"cannot read: {line}" in capfd.readouterr().err

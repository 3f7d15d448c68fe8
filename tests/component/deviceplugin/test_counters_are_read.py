"""What the agent reads from the counters of each architecture, also when they fail."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pynvml
import pytest

from gputopo.counters.model import ByteCount, LoadReading, LoadSource
from gputopo_deviceplugin.counters.choice import MOST_FAILURES, RETRY_SECONDS
from gputopo_deviceplugin.counters.exporter import ExporterRates
from gputopo_deviceplugin.counters.fields import STOPPED_SECONDS
from gputopo_deviceplugin.counters.gpu_reader import GpuReading
from gputopo_deviceplugin.gpus.nvml import NvmlError
from support.agent.counters import SECOND_US, CounterNode

MIB = 2**20
NO_PERMISSION = pynvml.NVML_ERROR_NO_PERMISSION
LOST = pynvml.NVML_ERROR_GPU_IS_LOST
UNKNOWN = pynvml.NVML_ERROR_UNKNOWN

Build = Callable[[str], CounterNode]


@pytest.fixture
def build(tmp_path: Path, library_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Build]:
    monkeypatch.setenv("FAKE_NVML_TOPOLOGY", "")
    nodes: list[CounterNode] = []

    def build(server: str) -> CounterNode:
        nodes.append(CounterNode(tmp_path, library_dir, server))
        return nodes[-1]

    yield build
    for node in nodes:
        node.close()


def sent(reading: GpuReading, link: int = 0) -> int:
    return reading.counters.links[link].sent


def rates(*, links: int = 18) -> list[str]:
    """Return rates for GPU 0: each link sends 4 MiB/s and receives 2 MiB/s."""
    nvlinks = [f"nvlink 0 {link} {4 * MIB} {2 * MIB}" for link in range(links)]
    return [
        *nvlinks,
        f"pcie 0 {3 * MIB} {MIB}",
        "occupancy 0 250",
        "dram 0 500",
        "utilization 0 90",
    ]


SOURCES: dict[str, dict[str, str | None]] = {
    "dgx1-p100": {"NVLink": None, "PCIe": None, "Load": "Utilization"},
    "dgx1-v100": {"NVLink": "NVLinkFields", "PCIe": None, "Load": "Utilization"},
    "summit": {"NVLink": "NVLinkFields", "PCIe": None, "Load": "Utilization"},
    "dgx-a100": {"NVLink": "NVLinkFields", "PCIe": "PCIeFields", "Load": "Utilization"},
    "dgx-h100": {"NVLink": "NVLinkFields", "PCIe": "PCIeFields", "Load": "GPM"},
    "hgx-b200": {"NVLink": "NVLink5Fields", "PCIe": "PCIeFields", "Load": "GPM"},
    "pcie-8gpu": {"PCIe": None, "Load": "Utilization"},
    "a100-pcie-4gpu": {"NVLink": "NVLinkFields", "PCIe": "PCIeFields", "Load": "Utilization"},
    "pcie-4gpu-1socket": {"PCIe": "PCIeFields", "Load": "Utilization"},
}


@pytest.mark.parametrize("server", SOURCES)
def test_each_architecture_has_its_sources_and_their_values(build: Build, server: str) -> None:
    node = build(server)
    node.counters.set_rates(*rates())
    node.read(0)
    before, after = node.read()[0], node.read(2)[0]
    assert after.sources == SOURCES[server]
    assert before.epoch == after.epoch
    assert len(after.counters.links) == (
        len(node.hardware.peers.links(node.hardware.topology.gpus[0].index))  # type: ignore[union-attr]
        if SOURCES[server].get("NVLink")
        else 0
    )
    for link, count in after.counters.links.items():
        older = before.counters.links[link]
        assert (count.sent - older.sent, count.received - older.received) == (8 * MIB, 4 * MIB)
        assert count.at_us - older.at_us == 2 * SECOND_US
    if SOURCES[server]["PCIe"]:
        assert isinstance(before.counters.pcie, ByteCount)
        assert isinstance(after.counters.pcie, ByteCount)
        assert after.counters.pcie.sent - before.counters.pcie.sent == 6 * MIB
        assert after.counters.pcie.received - before.counters.pcie.received == 2 * MIB
    else:
        assert after.counters.pcie is None
    now = node.counters.at_us
    source = LoadSource(str(SOURCES[server]["Load"]))
    expected = (0.9, None) if source is LoadSource.UTILIZATION else (0.25, 0.5)
    load = after.counters.load
    assert load is not None
    assert (load.source, load.from_us, load.to_us) == (source, now - 2 * SECOND_US, now)
    assert load.occupancy == pytest.approx(expected[0])
    assert load.dram == expected[1]


def test_reasons_name_the_better_sources(build: Build) -> None:
    node = build("dgx1-v100")
    node.read()
    faults = node.read()[0].faults
    assert faults["NVLink"] == ()
    assert faults["Load"] == (
        ("GPM", "this GPU does not support GPM"),
        ("DCGM", "no exporter"),
    )
    assert faults["PCIe"] == (
        ("PCIeFields", "NVML: Not Supported"),
        ("GPM", "this GPU does not support GPM"),
    )


def test_without_fields_the_rates_of_gpm_are_integrated(build: Build) -> None:
    node = build("dgx-h100")
    node.counters.write_conf("counter-fault 0 nvlink 3", "counter-fault 0 pcie 3")
    node.counters.set_rates(*rates())
    assert node.read()[0].counters.links == {}
    first, second = node.read()[0], node.read(3)[0]
    assert second.sources == {"NVLink": "GPM", "PCIe": "GPM", "Load": "GPM"}
    assert first.epoch == second.epoch
    assert [*second.counters.links] == [*range(18)]
    assert sent(second) - sent(first) == 12 * MIB
    assert second.counters.links[0].at_us - first.counters.links[0].at_us == 3 * SECOND_US
    pcie = second.counters.pcie, first.counters.pcie
    assert pcie[0] is not None
    assert pcie[1] is not None
    assert pcie[0].sent - pcie[1].sent == 9 * MIB
    assert node.read()[1].sources["NVLink"] == "NVLinkFields"


def test_gpm_with_only_the_sum_of_the_links_gives_the_sum(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = build("dgx-h100")
    node.counters.write_conf("counter-fault 0 nvlink 3")
    node.counters.set_rates(*rates())
    # A driver without metrics of single links, as the first drivers of Hopper.
    monkeypatch.setattr(pynvml, "NVML_GPM_METRIC_NVLINK_L0_RX_PER_SEC", 300)
    node.read()
    first, second = node.read()[0], node.read(2)[0]
    assert second.counters.links == {}
    assert first.counters.nvlink is not None
    assert second.counters.nvlink is not None
    assert second.counters.nvlink.sent - first.counters.nvlink.sent == 2 * 18 * 4 * MIB


def test_gpm_has_other_numbers_for_links_from_18_on(build: Build) -> None:
    node = build("dgx-h100")
    node.counters.write_conf("nvlink 0 20 switch", "counter-fault 0 nvlink 3")
    node.discover()
    node.counters.set_rates(f"nvlink 0 20 {4 * MIB} {2 * MIB}")
    node.read()
    first, second = node.read()[0].counters.links[20], node.read()[0].counters.links[20]
    assert second.sent - first.sent == 4 * MIB
    assert second.received - first.received == 2 * MIB


def test_the_exporter_of_dcgm_is_used_where_nvml_measures_no_load(build: Build) -> None:
    node = build("dgx1-v100")
    node.counters.write_conf("counter-fault 0 nvlink 3")
    node.exporter = {node.uuids[0]: ExporterRates(0.5, 0.25, 100.0, 200.0, 0, 5 * SECOND_US)}
    first, other, *_ = node.read()
    assert (first.sources["Load"], first.sources["NVLink"]) == ("DCGM", "DCGM")
    assert first.counters.load == LoadReading(LoadSource.DCGM, 0.5, 0.25, 0, 5 * SECOND_US)
    assert other.sources["Load"] == "Utilization"
    node.exporter = {
        node.uuids[0]: ExporterRates(0.5, None, 100.0, 200.0, 5 * SECOND_US, 10 * SECOND_US)
    }
    assert node.read()[0].counters.nvlink == ByteCount(1000, 2000, 10 * SECOND_US)
    again = node.read()[0]
    assert again.counters.nvlink == ByteCount(1000, 2000, 10 * SECOND_US)
    assert again.epoch == first.epoch


@pytest.mark.parametrize(
    ("rates", "reason"),
    [
        (
            ExporterRates(None, 0.25, None, 2.0, 0, 1),
            "the exporter has no SM occupancy of this GPU",
        ),
        (ExporterRates(7.0, 0.25, 1e99, 2.0, 0, 1), "a share of 7 is not possible"),
    ],
)
def test_an_exporter_without_usable_values_is_not_used(
    build: Build, rates: ExporterRates, reason: str
) -> None:
    node = build("dgx1-v100")
    node.counters.write_conf("counter-fault 0 nvlink 3")
    node.exporter = {node.uuids[0]: rates}
    node.read()
    found = node.read()[0]
    assert found.sources == {"NVLink": None, "PCIe": None, "Load": "Utilization"}
    assert found.faults["Load"][1] == ("DCGM", reason)
    assert found.counters.links == {}
    assert found.counters.nvlink is None


@pytest.mark.parametrize("code", [NO_PERMISSION, LOST, UNKNOWN, pynvml.NVML_ERROR_TIMEOUT])
def test_a_fault_from_the_start_is_a_reason_and_clears(build: Build, code: int) -> None:
    node = build("dgx-h100")
    node.counters.write_conf(f"counter-fault 0 all {code}")
    node.read()
    broken, healthy, *_ = node.read()
    assert broken.counters.links == {}
    assert broken.counters.pcie is None
    assert broken.counters.load is None
    assert broken.sources == {"NVLink": None, "PCIe": None, "Load": None}
    text = str(pynvml.NVMLError(code))
    assert all(text in faults[0][1] for faults in broken.faults.values())
    assert healthy.sources["Load"] == "GPM"
    node.counters.write_conf()
    node.read(RETRY_SECONDS)
    assert node.read()[0].sources == SOURCES["dgx-h100"]


def test_permission_that_is_lost_after_minutes_changes_the_source(build: Build) -> None:
    node = build("dgx-h100")
    node.counters.set_rates("occupancy 0 250", "utilization 0 90")
    epochs = {node.read()[0].epoch for _ in range(300)}
    assert len(epochs) == 1
    node.counters.write_conf(f"counter-fault 0 gpm {NO_PERMISSION}")
    node.read()
    changed = node.read()[0]
    assert changed.sources["Load"] == "Utilization"
    assert changed.faults["Load"][0] == ("GPM", "NVML: Insufficient Permissions")
    assert changed.counters.load is not None
    assert changed.counters.load.occupancy == pytest.approx(0.9)
    assert changed.epoch not in epochs
    node.counters.write_conf()
    node.read(RETRY_SECONDS)
    load = node.read()[0].counters.load
    assert load is not None
    assert load.source is LoadSource.GPM
    assert load.occupancy == pytest.approx(0.25)


def test_a_single_failure_keeps_the_source(build: Build) -> None:
    node = build("dgx-h100")
    node.counters.set_rates(*rates())
    node.read()
    before = node.read()[0]
    node.counters.write_conf(f"counter-fault 0 all {UNKNOWN}")
    for _ in range(MOST_FAILURES - 1):
        failed = node.read()[0]
        assert failed.counters.links == {}
        assert failed.counters.load is None
        assert failed.sources == before.sources
    node.counters.write_conf()
    after = node.read()[0]
    assert after.epoch == before.epoch
    assert sent(after) - sent(before) == MOST_FAILURES * 4 * MIB
    assert after.counters.load is not None
    assert after.counters.load.from_us == before.counters.load.to_us  # type: ignore[union-attr]


def test_a_source_that_fails_often_is_replaced(build: Build) -> None:
    node = build("dgx-h100")
    node.read()
    node.counters.write_conf(f"counter-fault 0 gpm {UNKNOWN}")
    for _ in range(MOST_FAILURES):
        node.read()
    assert node.read()[0].sources["Load"] == "Utilization"


def test_a_lost_gpu_has_a_reason_and_the_others_go_on(build: Build) -> None:
    node = build("dgx1-v100")
    node.read()
    node.counters.write_conf(f"fault 3 {LOST}")
    node.session.close()
    found = node.read()
    assert found[3].sources == {"NVLink": None, "PCIe": None, "Load": None}
    assert found[3].faults["Load"] == (("NVML", "NVML: GPU is lost"),)
    assert found[4].sources["NVLink"] == "NVLinkFields"


def test_another_gpu_under_the_same_index_is_not_read(build: Build) -> None:
    node = build("dgx1-v100")
    node.counters.write_conf()
    conf = node.counters.folder / "topology.conf"
    conf.write_text(conf.read_text().replace(node.uuids[0], "GPU-exchanged"))
    assert node.read()[0].faults["PCIe"] == (("NVML", "NVML: Not Found"),)


def test_one_link_that_cannot_be_read_makes_the_gpu_unknown(build: Build) -> None:
    node = build("dgx1-v100")
    node.read()
    conf = node.counters.folder / "topology.conf"
    lines = [line for line in conf.read_text().splitlines() if not line.startswith("nvlink 0 2 ")]
    conf.write_text("\n".join(lines) + "\n")  # the link is down, and the topology not yet read
    found = node.read()[0]
    assert found.counters.links == {}
    for _ in range(MOST_FAILURES):
        found = node.read()[0]
    assert found.faults["NVLink"][0] == ("NVLinkFields", "link 2: NVML: Not Supported")


def test_stopped_counters_are_not_used(build: Build) -> None:
    node = build("dgx-a100")
    node.counters.set_rates(*rates())
    node.read()
    node.counters.write_conf("counter-stall 0")
    stamps = {node.read()[0].counters.links[0].at_us for _ in range(int(STOPPED_SECONDS) - 1)}
    assert len(stamps) == 1
    node.read()
    for _ in range(MOST_FAILURES):
        found = node.read()[0]
    assert found.counters.links == {}
    assert found.counters.pcie is None
    assert found.faults["NVLink"][0] == ("NVLinkFields", "the time stamps have stopped for 10 s")
    node.counters.write_conf()
    node.read(RETRY_SECONDS)
    assert node.read()[0].sources["NVLink"] == "NVLinkFields"


def test_stopped_samples_of_gpm_give_no_value(build: Build) -> None:
    node = build("dgx-h100")
    node.read()
    node.counters.write_conf("counter-stall 0")
    assert {node.read()[0].counters.load for _ in range(MOST_FAILURES)} == {None}
    assert ("GPM", "metric 3 is nan") in node.read()[0].faults["Load"]


def test_a_reset_shows_as_a_decrease(build: Build) -> None:
    node = build("dgx-a100")
    node.counters.set_rates(*rates())
    node.read()
    before = node.read()[0]
    node.counters.write_conf("counter-reset 0")
    after = node.read()[0]
    assert sent(after) < sent(before)
    assert after.epoch == before.epoch
    assert after.counters.links[0].wraps_at is None


@pytest.mark.parametrize(
    ("server", "bits", "nvlink", "pcie"),
    [
        ("dgx-a100", 32, "NVLinkFields", "32 bits wrap within a second"),
        ("hgx-b200", 32, "GPM", "32 bits wrap within a second"),
        ("dgx-a100", 36, "NVLinkFields", "it is used after 137 GB"),
        ("hgx-b200", 40, "NVLink5Fields", ""),
    ],
)
def test_a_counter_that_may_wrap_within_a_second_is_not_used(
    build: Build, server: str, bits: int, nvlink: str, pcie: str
) -> None:
    node = build(server)
    node.counters.set_rates(f"pcie 0 {2**37 + 1} {2**37 + 1}")
    node.counters.write_conf(f"counter-wrap 0 {bits}")
    node.read()
    node.read(RETRY_SECONDS)
    found = node.read()[0]
    assert found.sources["NVLink"] == nvlink
    assert "; ".join(message for _, message in found.faults["PCIe"][:1]).endswith(pcie)
    assert (found.sources["PCIe"] == "PCIeFields") == (not pcie)


def test_a_library_that_cannot_be_opened_is_an_error(build: Build, tmp_path: Path) -> None:
    node = build("dgx1-v100")
    node.close()
    (tmp_path / "topology.conf").write_text("nonsense\n")
    with pytest.raises(NvmlError):
        node.read_now()
    assert not node.session.is_open
    node.session.close()


def test_a_session_that_nvml_does_not_close_ends(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = build("dgx-h100")
    node.read()
    assert node.session.is_open
    shutdown = pynvml.nvmlShutdown

    def failing() -> None:
        shutdown()
        raise pynvml.NVMLError(UNKNOWN)

    monkeypatch.setattr(pynvml, "nvmlShutdown", failing)
    node.close()
    assert not node.session.is_open


def test_an_unknown_type_of_value_is_not_used(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = build("dgx1-v100")
    real = pynvml.nvmlDeviceGetFieldValues

    def doubles(handle: object, wanted: object) -> object:
        values = real(handle, wanted)
        for value in values:
            value.valueType = pynvml.NVML_VALUE_TYPE_DOUBLE
        return values

    monkeypatch.setattr(pynvml, "nvmlDeviceGetFieldValues", doubles)
    node.read()
    assert node.read()[0].faults["NVLink"][0] == ("NVLinkFields", "value type 0 is no count")


def test_a_gpu_whose_links_change_is_another_reading(build: Build) -> None:
    node = build("dgx1-v100")
    first = node.read()[0]
    conf = node.counters.folder / "topology.conf"
    lines = [line for line in conf.read_text().splitlines() if not line.startswith("nvlink 0 2 ")]
    conf.write_text("\n".join(lines) + "\n")
    node.discover()
    second = node.read()[0]
    assert [*second.counters.links] == [0, 1, 3, 4, 5]
    assert first.epoch != second.epoch

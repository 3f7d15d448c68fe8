"""Where the NVLinks end, with the numbers that their counters have."""

from pathlib import Path

import pytest

from fakenvml.build import build_library
from fakenvml.render import render
from gputopo.catalogue import named
from gputopo.counters.link_peers import LinkPeer, OtherEnd
from gputopo.topology.model import GpuIndex
from gputopo_deviceplugin.gpus.discover import discover
from gputopo_deviceplugin.gpus.link_ends import link_peers
from gputopo_deviceplugin.gpus.nvml import Nvml
from gputopo_deviceplugin.gpus.snapshot import NvmlGpu, NvmlLink, NvmlSnapshot


def nvml_gpu(index: int, *nvlinks: NvmlLink, generation: int = 3, lanes: int = 16) -> NvmlGpu:
    return NvmlGpu(
        index=index,
        uuid=f"GPU-{index}",
        minor=index,
        pci_bus_id=f"00000000:0{index}:00.0",
        model="Tesla V100",
        memory_bytes=2**35,
        numa_node=0,
        pcie_generation=generation,
        pcie_lanes=lanes,
        nvlinks=nvlinks,
    )


def test_each_link_has_its_number_its_end_and_its_bandwidth() -> None:
    links = [
        NvmlLink(1, 2, "0000:01:00.0"),
        NvmlLink(3, 9, OtherEnd.SWITCH),
        NvmlLink(4, 1, OtherEnd.HOST),
        NvmlLink(5, 2, "0000:0f:00.0"),
    ]
    snapshot = NvmlSnapshot("550", (nvml_gpu(0, *links), nvml_gpu(1, generation=0)))
    found = link_peers(discover(snapshot, (), None), snapshot)
    assert found.of == {
        0: {
            1: LinkPeer(GpuIndex(1), 25_000),
            3: LinkPeer(OtherEnd.SWITCH, 50_000),
            4: LinkPeer(OtherEnd.HOST, 20_000),
            5: LinkPeer(OtherEnd.UNKNOWN, 25_000),
        }
    }
    assert found.pcie_mb_per_s == {0: 16_000}


def test_a_link_to_a_gpu_that_cannot_be_read_still_ends_there() -> None:
    both = NvmlSnapshot("550", (nvml_gpu(0, NvmlLink(2, 2, "0000:01:00.0")), nvml_gpu(1)))
    known = discover(both, (), None)
    faulty = NvmlSnapshot("550", both.gpus[:1], {1: "NVML: GPU is lost"})
    assert link_peers(discover(faulty, (), known), faulty).of == {
        0: {2: LinkPeer(GpuIndex(1), 25_000)}
    }


def test_a_slow_or_new_pcie_link_has_a_bandwidth() -> None:
    gpus = (nvml_gpu(0, generation=1, lanes=1), nvml_gpu(1, generation=9), nvml_gpu(2, lanes=0))
    snapshot = NvmlSnapshot("550", gpus)
    found = link_peers(discover(snapshot, (), None), snapshot)
    assert found.pcie_mb_per_s == {0: 249, 1: 128_000}


@pytest.mark.parametrize(("kind", "end"), [(1, OtherEnd.HOST), (255, OtherEnd.UNKNOWN)])
def test_other_ends_than_gpus_and_switches_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: int, end: OtherEnd
) -> None:
    build_library(tmp_path)
    conf = tmp_path / "topology.conf"
    conf.write_text(render(named("dgx1-v100", node="n1")))
    monkeypatch.setenv("FAKE_NVML_TOPOLOGY", str(conf))
    monkeypatch.setattr("pynvml.nvmlDeviceGetNvLinkRemoteDeviceType", lambda *_: kind)
    nvml = Nvml(tmp_path)
    snapshot = nvml.read_gpus()
    nvml.close()
    assert {link.peer for link in snapshot.gpus[0].nvlinks} == {end}
    topology = discover(snapshot, (), None)
    assert all(link.kind.value == "PCIe" for link in topology.links)
    found = link_peers(topology, snapshot)
    assert [*found.of[topology.gpus[0].index]] == [0, 1, 2, 3, 4, 5]

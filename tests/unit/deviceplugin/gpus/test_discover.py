from dataclasses import replace

from gputopo.counters.link_peers import OtherEnd
from gputopo.topology.model import Ancestor, LinkKind, NumaNode
from gputopo_deviceplugin.gpus.discover import discover
from gputopo_deviceplugin.gpus.snapshot import NvmlGpu, NvmlLink, NvmlSnapshot


def nvml_gpu(index: int, *nvlinks: NvmlLink, generation: int = 3, lanes: int = 16) -> NvmlGpu:
    return NvmlGpu(
        index=index,
        uuid=f"GPU-{index}",
        minor=index,
        pci_bus_id=f"00000000:0{index}:00.0",
        model="V100",
        memory_bytes=2**35,
        numa_node=0,
        pcie_generation=generation,
        pcie_lanes=lanes,
        nvlinks=nvlinks,
    )


def to(index: int, generation: int = 2) -> NvmlLink:
    # Some drivers write the remote domain with four digits and in lower case.
    return NvmlLink(0, generation, f"0000:0{index}:00.0")


SWITCH = NvmlLink(0, 3, OtherEnd.SWITCH)


def only_link(*gpus: NvmlGpu, level: int | None = 10) -> tuple[LinkKind, int, int, Ancestor, int]:
    levels = {} if level is None else {(0, 1): level}
    [link] = discover(NvmlSnapshot("550", gpus, {}, levels), (), None).links
    return link.kind, link.version, link.count, link.ancestor, link.bandwidth_mb_per_s


def test_parallel_nvlinks_of_a_pair_add_up() -> None:
    link = only_link(nvml_gpu(0, to(1), to(1)), nvml_gpu(1, to(0), to(0)))
    assert link == (LinkKind.NVLINK, 2, 2, Ancestor.PIX, 50_000)


def test_an_nvlink_with_one_end_down_does_not_count() -> None:
    link = only_link(nvml_gpu(0, to(1), to(1)), nvml_gpu(1, to(0)))
    assert link == (LinkKind.NVLINK, 2, 1, Ancestor.PIX, 25_000)
    link = only_link(nvml_gpu(0, to(1)), nvml_gpu(1))
    assert link == (LinkKind.PCIE, 3, 16, Ancestor.PIX, 12_000)


def test_gpus_on_a_switch_are_linked_through_it() -> None:
    link = only_link(nvml_gpu(0, *[SWITCH] * 12), nvml_gpu(1, *[SWITCH] * 11), level=50)
    assert link == (LinkKind.NVSWITCH, 3, 11, Ancestor.SYS, 275_000)


def test_pcie_is_as_fast_as_its_slower_end() -> None:
    link = only_link(nvml_gpu(0, generation=4), nvml_gpu(1, generation=3, lanes=8), level=40)
    assert link == (LinkKind.PCIE, 3, 8, Ancestor.NODE, 6_000)


def test_the_faster_connection_is_the_link_of_the_pair() -> None:
    fast = [nvml_gpu(i, to(1 - i, 1), generation=5) for i in (0, 1)]
    assert only_link(*fast) == (LinkKind.PCIE, 5, 16, Ancestor.PIX, 48_000)


def test_missing_pcie_values_are_replaced_by_low_ones() -> None:
    mute = [nvml_gpu(i, generation=0, lanes=0) for i in (0, 1)]
    assert only_link(*mute, level=None) == (LinkKind.PCIE, 3, 16, Ancestor.SYS, 12_000)


def test_generations_newer_than_known_count_as_the_newest_known() -> None:
    new = [nvml_gpu(i, to(1 - i, 9), generation=9) for i in (0, 1)]
    assert only_link(*new)[:2] == (LinkKind.PCIE, 6)
    linked = [nvml_gpu(i, *[to(1 - i, 9)] * 18, generation=9) for i in (0, 1)]
    assert only_link(*linked)[:3] == (LinkKind.NVLINK, 5, 18)


def test_a_failing_gpu_stays_unchanged() -> None:
    numa = (NumaNode(0, 8, 2**30),)
    all_well = NvmlSnapshot("550", tuple(nvml_gpu(i) for i in range(3)))
    known = discover(all_well, numa, None)
    assert known.numa_nodes == numa
    faulty = NvmlSnapshot("550", (nvml_gpu(0), nvml_gpu(2)), {1: "NVML: GPU is lost"})
    assert discover(faulty, numa, known) == known


def test_a_failing_gpu_that_was_never_read_is_omitted() -> None:
    faulty = NvmlSnapshot("550", (nvml_gpu(0), nvml_gpu(2)), {1: "NVML: GPU is lost"})
    assert [gpu.index for gpu in discover(faulty, (), None).gpus] == [0, 2]


def test_a_gpu_that_nvml_no_longer_counts_is_removed() -> None:
    known = discover(NvmlSnapshot("550", tuple(nvml_gpu(i) for i in range(3))), (), None)
    fewer = NvmlSnapshot("550", (nvml_gpu(0), nvml_gpu(1)))
    assert [gpu.uuid for gpu in discover(fewer, (), known).gpus] == ["GPU-0", "GPU-1"]


def test_a_gpu_found_under_another_index_is_not_kept_twice() -> None:
    known = discover(NvmlSnapshot("550", (nvml_gpu(0), nvml_gpu(1))), (), None)
    moved = replace(nvml_gpu(1), index=0)
    found = discover(NvmlSnapshot("550", (moved,), {1: "NVML: Unknown Error"}), (), known)
    assert [(gpu.index, gpu.uuid) for gpu in found.gpus] == [(0, "GPU-1")]


def test_an_exchanged_gpu_and_a_failing_one_have_the_assumed_link() -> None:
    known = discover(NvmlSnapshot("550", (nvml_gpu(0),)), (), None)
    grown = NvmlSnapshot("550", (nvml_gpu(1),), {0: "NVML: GPU is lost"})
    [link] = discover(grown, (), known).links
    assert (link.kind, link.ancestor, link.bandwidth_mb_per_s) == (
        LinkKind.PCIE,
        Ancestor.SYS,
        12_000,
    )


def test_an_invalid_bus_id_makes_no_link() -> None:
    link = only_link(nvml_gpu(0, NvmlLink(0, 2, "no bus:")), nvml_gpu(1, NvmlLink(0, 2, "")))
    assert link == (LinkKind.PCIE, 3, 16, Ancestor.PIX, 12_000)

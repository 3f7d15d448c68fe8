"""A simulated training job writes what the counters of its node show of it."""

import re
from collections import Counter
from pathlib import Path

import pytest

import traffic
from fakenvml.render import render
from gputopo.catalogue import named
from learntest import laws

DGX1 = named("dgx1-v100", node="n1")
UUIDS = {int(gpu.index): str(gpu.uuid) for gpu in DGX1.gpus}
MINORS = {str(gpu.uuid): gpu.minor for gpu in DGX1.gpus}


def law(folder: Path | str = "/x") -> dict[str, object]:
    return laws.traffic_law(render(DGX1), 400, str(folder))


def files(*indices: int) -> list[str]:
    return ["null", "nvidiactl", *(f"nvidia{MINORS[UUIDS[index]]}" for index in indices)]


def sent(lines: list[str]) -> dict[tuple[int, int], int]:
    """Return the bytes per second of each pair, by the peers of the links in topology.conf."""
    nvlinks = re.findall(r"^nvlink (\d+) (\d+) gpu (\d+)$", render(DGX1), re.MULTILINE)
    peers = {(gpu, link): peer for gpu, link, peer in nvlinks}
    found = Counter[tuple[int, int]]()
    for line in lines:
        word, gpu, link, sent_bytes, received_bytes = line.split()
        assert (word, sent_bytes) == ("nvlink", received_bytes)
        found[int(gpu), int(peers[gpu, link])] += int(sent_bytes)
    return dict(found)


def test_each_rank_exchanges_data_with_the_next_over_all_links_of_the_pair() -> None:
    order = [2, 3, 0, 1]
    lines = traffic.rates(law(), [UUIDS[index] for index in order], files(*order))
    both = {(2, 3), (3, 2), (3, 0), (0, 3), (0, 1), (1, 0)}
    assert sent(lines) == dict.fromkeys(both, 400_000_000)


def test_pair_without_nvlink_and_gpu_without_its_device_file_are_left_out() -> None:
    assert traffic.rates(law(), [UUIDS[0], UUIDS[5]], files(0, 5)) == []
    assert traffic.rates(law(), [UUIDS[0], UUIDS[1]], files(0)) == []


def test_file_is_complete_when_the_driver_sees_it(tmp_path: Path) -> None:
    uuids = [UUIDS[0], UUIDS[1]]
    file = traffic.write_rates(law(tmp_path), "job-1", uuids, files(0, 1))
    assert file == tmp_path / "job-1.conf"
    assert file.read_text().splitlines() == traffic.rates(law(), uuids, files(0, 1))
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("server", ["nvswitch", "pcie"])
def test_node_without_links_between_gpus_has_no_traffic(server: str) -> None:
    name = {"nvswitch": "dgx-a100", "pcie": "pcie-8gpu"}[server]
    node = named(name, node="n2")
    assert laws.traffic_law(render(node), 400, "/x")["links"] == {}

import pytest

from builders import DOUBLE, node
from fakenvml.render import render
from gputopo.topology.catalogue import named
from gputopo.topology.model import TopologyError


def test_a_topology_is_written_line_by_line() -> None:
    lines = render(node(0, 1, links={(0, 1): DOUBLE})).splitlines()
    assert lines == [
        "driver 550.54.15",
        "gpu 0 GPU-n-0 0 00000000:00:00.0 34359738368 0 3 16 2 Tesla V100-SXM2-32GB",
        "gpu 1 GPU-n-1 1 00000000:01:00.0 34359738368 0 3 16 2 Tesla V100-SXM2-32GB",
        "nvlink 0 0 gpu 1",
        "nvlink 0 1 gpu 1",
        "nvlink 1 0 gpu 0",
        "nvlink 1 1 gpu 0",
        "common 0 1 SYSTEM",
    ]


def test_the_links_of_a_switched_node_all_enter_the_switch() -> None:
    lines = render(named("dgx-a100")).splitlines()
    links = [line for line in lines if line.startswith("nvlink")]
    assert links == [f"nvlink {gpu} {link} switch" for gpu in range(8) for link in range(12)]


def test_gpus_with_gaps_between_their_indices_cannot_be_played() -> None:
    with pytest.raises(TopologyError, match=r"\[0, 2\] has gaps"):
        render(node(0, 2))

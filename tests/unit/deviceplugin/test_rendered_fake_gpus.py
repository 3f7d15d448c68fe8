from collections import Counter

import pytest

from fakenvml.render import render
from gputopo.catalogue import named, names
from gputopo.topology.model import TopologyError
from support.builders.topologies import DOUBLE, node

NVLINKS_THAT_THE_STAND_IN_HOLDS = 36


def test_a_topology_is_rendered_line_by_line() -> None:
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


@pytest.mark.parametrize("name", names())
def test_every_server_of_the_catalogue_is_rendered_completely(name: str) -> None:
    topology = named(name)
    words = [line.split() for line in render(topology).splitlines()]
    kinds = Counter(word[0] for word in words)
    assert kinds["gpu"] == len(topology.gpus)
    assert kinds["common"] == len(topology.links)
    ends = Counter((int(word[1]), int(word[2])) for word in words if word[0] == "nvlink")
    assert set(ends.values()) <= {1}
    assert max((link for _, link in ends), default=0) < NVLINKS_THAT_THE_STAND_IN_HOLDS


def test_gpus_with_gaps_between_their_indices_are_rejected() -> None:
    with pytest.raises(TopologyError, match=r"\[0, 2\] has gaps"):
        render(node(0, 2))

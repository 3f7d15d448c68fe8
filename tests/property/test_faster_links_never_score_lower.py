"""The physical model is monotone: more or faster links never lower a value."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gputopo.bandwidth.models import PHYSICAL
from gputopo.patterns.model import Pattern, all_to_all, chain, ring, ring_tree, star, tree
from gputopo.patterns.subsets import gpu_masks, subsets
from gputopo.patterns.table import EmbeddingTable
from gputopo.topology.model import Ancestor, Link, LinkKind, NodeTopology, indices_of
from gputopo.topology.rates import link_rate_mb_per_s
from support.builders.strategies import topologies
from support.builders.topologies import DOUBLE, PCIE, SINGLE, LinkSpec

SWITCH: LinkSpec = (LinkKind.NVSWITCH, 3, 4)
PATTERNS = (ring, tree, ring_tree, all_to_all, chain, star)


def ascending(topology: NodeTopology, size: int) -> EmbeddingTable:
    """Return a table with the GPUs of each set in ascending order."""
    indices = indices_of(topology.mask)
    found = subsets(len(indices), size)
    orders = np.array(indices, dtype=np.uint8)[found.members]
    nothing = np.zeros(len(orders), dtype=np.int64)
    return EmbeddingTable(gpu_masks(indices, found.members), orders, nothing, nothing)


def values(topology: NodeTopology, pattern: Pattern) -> NDArray[np.int64]:
    return PHYSICAL.effective_mb_per_s(topology, pattern, ascending(topology, pattern.size))


@st.composite
def placed(draw: st.DrawFn, specs: tuple[LinkSpec, ...]) -> NodeTopology:
    """Draw a node with any common PCIe ancestors."""
    topology = draw(topologies(min_gpus=2, max_gpus=6, specs=specs))
    ancestors = st.sampled_from(list(Ancestor))
    links = [replace(link, ancestor=draw(ancestors)) for link in topology.links]
    return replace(topology, links=tuple(links))


def changed(topology: NodeTopology, old: Link, new: Link) -> NodeTopology:
    links = tuple(new if link == old else link for link in topology.links)
    return replace(topology, links=links)


@given(st.data(), placed((DOUBLE, SINGLE, PCIE)))
def test_one_more_nvlink_never_lowers_a_value(data: st.DataObject, topology: NodeTopology) -> None:
    link = data.draw(st.sampled_from(topology.links))
    count = link.count + 1 if link.kind is LinkKind.NVLINK else 1
    rate = link_rate_mb_per_s(LinkKind.NVLINK, 2, count)
    more = replace(link, kind=LinkKind.NVLINK, version=2, count=count, bandwidth_mb_per_s=rate)
    pattern = data.draw(st.sampled_from(PATTERNS))(data.draw(st.integers(2, len(topology.gpus))))
    assert (values(changed(topology, link, more), pattern) >= values(topology, pattern)).all()


@given(st.data(), placed((DOUBLE, SINGLE, PCIE, SWITCH, (LinkKind.PCIE, 3, 8))))
def test_a_faster_link_never_lowers_a_value(data: st.DataObject, topology: NodeTopology) -> None:
    link = data.draw(st.sampled_from(topology.links))
    more = data.draw(st.integers(1, 100_000))
    faster = replace(link, bandwidth_mb_per_s=link.bandwidth_mb_per_s + more)
    pattern = data.draw(st.sampled_from(PATTERNS))(data.draw(st.integers(2, len(topology.gpus))))
    assert (values(changed(topology, link, faster), pattern) >= values(topology, pattern)).all()


@given(st.data(), placed((DOUBLE, SINGLE, PCIE)))
def test_values_do_not_depend_on_the_numbering_of_gpus(
    data: st.DataObject, topology: NodeTopology
) -> None:
    indices = indices_of(topology.mask)
    renumbered = dict(zip(indices, data.draw(st.permutations(indices)), strict=True))
    gpus = tuple(replace(gpu, index=renumbered[gpu.index]) for gpu in topology.gpus)
    links = tuple(
        replace(
            link,
            a=min(renumbered[link.a], renumbered[link.b]),
            b=max(renumbered[link.a], renumbered[link.b]),
        )
        for link in topology.links
    )
    everything = ring(len(indices))
    assert values(topology, everything) == values(NodeTopology(gpus, links), everything)

"""Random node topologies, busy sets and patterns for the property tests."""

from hypothesis import strategies as st

from gputopo.patterns.model import Pattern, PatternEdge, PatternKind, build, custom
from gputopo.topology.model import GpuMask, LinkKind, NodeTopology, indices_of, mask_of
from support.builders.topologies import DOUBLE, PCIE, SINGLE, LinkSpec, node

V100_LINKS: tuple[LinkSpec, ...] = (DOUBLE, SINGLE, PCIE)
OTHER_LINKS: tuple[LinkSpec, ...] = (
    (LinkKind.NVLINK, 1, 1),
    (LinkKind.NVLINK, 3, 4),
    (LinkKind.NVSWITCH, 4, 18),
    (LinkKind.PCIE, 4, 8),
    (LinkKind.PCIE, 3, 8),
)


@st.composite
def topologies(
    draw: st.DrawFn,
    *,
    min_gpus: int = 1,
    max_gpus: int = 7,
    specs: tuple[LinkSpec, ...] = V100_LINKS + OTHER_LINKS,
) -> NodeTopology:
    """Draw a node whose indices may have gaps and come in any order."""
    highest = 63
    indices = draw(
        st.lists(st.integers(0, highest), min_size=min_gpus, max_size=max_gpus, unique=True)
    )
    pairs = [(a, b) for a in indices for b in indices if a < b]
    return node(*indices, links={pair: draw(st.sampled_from(specs)) for pair in pairs})


@st.composite
def free_sets(draw: st.DrawFn, topology: NodeTopology) -> GpuMask:
    """Draw the free GPUs of a node."""
    everything = indices_of(topology.mask)
    return mask_of(index for index in everything if draw(st.booleans()))


@st.composite
def custom_edges(draw: st.DrawFn, size: int) -> list[PatternEdge]:
    """Draw edges among ranks, in either direction and perhaps repeated."""
    edge = st.builds(
        PatternEdge, st.integers(0, size - 1), st.integers(0, size - 1), st.integers(1, 5)
    )
    return draw(st.lists(edge.filter(lambda it: it.a != it.b), min_size=1, max_size=8))


@st.composite
def patterns(draw: st.DrawFn, *, max_size: int = 6) -> Pattern:
    """Draw a pattern of any kind; a Custom one has two ranks or more."""
    kind = draw(st.sampled_from(list(PatternKind)))
    size = draw(st.integers(1, max_size))
    if kind is not PatternKind.CUSTOM:
        return build(kind, size)
    return build(PatternKind.RING, 1) if size == 1 else custom(size, draw(custom_edges(size)))

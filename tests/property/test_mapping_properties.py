"""Every mapping keeps the constraints, and its utility is in range and monotone."""

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gputopo.catalogue import named
from gputopo.mapping.constraints import capacity
from gputopo.mapping.mapper import Mapper
from gputopo.mapping.model import JobMapping, MappingJob, MappingNode, NoMapping
from gputopo.patterns.model import Pattern, all_to_all, chain, ring, star, tree
from gputopo.topology.model import GpuMask, indices_of
from gputopo.utility.cost import Cost
from gputopo.utility.interference import RunningNeighbour
from gputopo.utility.utility import (
    PlacementCosts,
    UtilityWeights,
    job_utility,
    utility,
)
from support.mapping import NOISY, QUIET, SETTINGS

TOPOLOGIES = [named(name) for name in ("power8-minsky", "pcie-8gpu", "dgx1-v100", "summit")]
PATTERNS = (ring, chain, star, tree, all_to_all)
LABELS = st.frozensets(st.sampled_from("abc"), max_size=2)
WORKLOADS = st.sampled_from([NOISY, QUIET])


@st.composite
def nodes(draw: st.DrawFn) -> MappingNode:
    topology = draw(st.sampled_from(TOPOLOGIES))
    free = GpuMask(draw(st.integers(0, topology.mask)))
    used = indices_of(GpuMask(topology.mask & ~free))
    return MappingNode(
        topology,
        free,
        tuple(RunningNeighbour(draw(WORKLOADS), GpuMask(1 << gpu)) for gpu in used),
        draw(LABELS),
        draw(LABELS),
        draw(st.none() | st.floats(0, 100)),
    )


@st.composite
def patterns(draw: st.DrawFn, most: int = 6) -> Pattern:
    return draw(st.sampled_from(PATTERNS))(draw(st.integers(1, most)))


@st.composite
def jobs(draw: st.DrawFn) -> MappingJob:
    return MappingJob(
        draw(patterns()),
        draw(WORKLOADS),
        several_nodes=draw(st.booleans()),
        labels=draw(LABELS),
        avoid=draw(LABELS),
        memory_gb_per_s=draw(st.none() | st.floats(0, 100)),
    )


CLUSTERS = st.lists(nodes(), min_size=1, max_size=4).map(
    lambda found: {f"n{number}": node for number, node in enumerate(found)}
)


def mapper_of(cluster: dict[str, MappingNode]) -> Mapper:
    return Mapper({name: node.topology for name, node in cluster.items()}, SETTINGS)


def check(job: MappingJob, cluster: dict[str, MappingNode], found: JobMapping | NoMapping) -> None:
    limits = {name: capacity(job, node).ranks for name, node in cluster.items()}
    if isinstance(found, NoMapping):
        most = sum(limits.values()) if job.several_nodes else max(limits.values())
        assert most < job.pattern.size
        return
    assert len(set(found.gpus)) == job.pattern.size
    assert all(cluster[gpu.node].free >> gpu.gpu & 1 for gpu in found.gpus)
    ranks = Counter(gpu.node for gpu in found.gpus)
    assert all(count <= limits[name] for name, count in ranks.items())
    assert job.several_nodes or len(found.nodes) == 1
    for name in found.nodes:
        assert not cluster[name].labels & job.avoid
        assert not cluster[name].avoided & job.labels
    assert 0.01 <= found.utility <= 1 + 1e-12
    assert 0.01 <= found.job_utility <= 1 + 1e-12


@given(jobs(), CLUSTERS)
def test_every_mapping_keeps_all_constraints(
    job: MappingJob, cluster: dict[str, MappingNode]
) -> None:
    mapper = mapper_of(cluster)
    check(job, cluster, mapper.best(job, cluster))
    check(job, cluster, mapper.by_bipartitioning(job, cluster))


@given(jobs(), CLUSTERS)
def test_bipartitioning_is_never_better_than_a_comparison_of_all(
    job: MappingJob, cluster: dict[str, MappingNode]
) -> None:
    mapper = mapper_of(cluster)
    best, found = mapper.best(job, cluster), mapper.by_bipartitioning(job, cluster)
    if isinstance(best, JobMapping) and best.exact and len(cluster) == 1:
        assert isinstance(found, JobMapping)
        assert found.utility <= best.utility + 1e-12


@given(jobs(), CLUSTERS, st.randoms(use_true_random=False))
def test_equal_inputs_have_equal_results_in_any_order_of_nodes(
    job: MappingJob, cluster: dict[str, MappingNode], source: object
) -> None:
    names = list(cluster)
    source.shuffle(names)  # type: ignore[attr-defined]
    shuffled = {name: cluster[name] for name in names}
    first = mapper_of(cluster)
    again = first.best(job, cluster)
    assert first.best(job, cluster) == again == mapper_of(cluster).best(job, cluster)
    if not job.several_nodes:
        assert mapper_of(shuffled).best(job, shuffled) == again


COSTS = st.floats(0, 1e6)


@st.composite
def costs(draw: st.DrawFn) -> Cost:
    best, worst = sorted((draw(COSTS), draw(COSTS)))
    return Cost(draw(COSTS), best, worst)


@st.composite
def weights(draw: st.DrawFn) -> UtilityWeights:
    first = draw(st.integers(1, 100))
    second = draw(st.integers(0, 100 - first))
    return UtilityWeights(first / 100, second / 100, (100 - first - second) / 100)


PLACEMENTS = st.builds(PlacementCosts, costs(), costs(), costs(), costs())


@given(PLACEMENTS, weights())
def test_utilities_are_in_range(placement: PlacementCosts, of: UtilityWeights) -> None:
    for cost in (placement.communication, placement.interference, placement.fragmentation):
        assert 0.01 <= cost.term <= 1
    assert 0.01 - 1e-9 <= utility(placement, of) <= 1 + 1e-9
    assert 0.01 - 1e-9 <= job_utility(placement, of) <= 1 + 1e-9


@given(
    PLACEMENTS,
    weights(),
    st.sampled_from(["communication", "interference", "suffered", "fragmentation"]),
    COSTS,
)
def test_utilities_never_rise_with_a_cost(
    placement: PlacementCosts, of: UtilityWeights, field: str, value: float
) -> None:
    before: Cost = getattr(placement, field)
    after = replace(before, value=max(before.value, value))
    worse = replace(placement, **{field: after})
    assert after.term <= before.term
    assert utility(worse, of) <= utility(placement, of) + 1e-12
    assert job_utility(worse, of) <= job_utility(placement, of) + 1e-12

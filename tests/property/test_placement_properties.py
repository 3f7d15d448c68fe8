"""Properties of placements, for any node, busy GPUs, pattern and policy."""

from dataclasses import replace
from math import comb

from hypothesis import assume, given
from hypothesis import strategies as st

from gputopo.bandwidth.models import MODELS
from gputopo.bandwidth.preserved import preserved_mb_per_s
from gputopo.patterns.model import ring
from gputopo.placement.model import MAPA_POLICIES, Match, NoFit, PlacementRequest, PolicyName
from gputopo.placement.place import place, ranking
from gputopo.placement.score import Candidate, score_nodes
from gputopo.topology.model import GpuIndex, GpuMask, LinkKind, NodeTopology, indices_of, mask_of
from support.builders.strategies import V100_LINKS, free_sets, patterns, topologies
from support.builders.topologies import relabelled
from support.mapa_oracle import Exhaustive, ring_edges

policies = st.sampled_from(list(PolicyName))


@st.composite
def cases(draw: st.DrawFn) -> tuple[NodeTopology, GpuMask, PlacementRequest]:
    topology = draw(topologies())
    request = PlacementRequest(draw(patterns()), draw(st.booleans()), draw(policies))
    return topology, draw(free_sets(topology)), request


@given(cases())
def test_a_match_has_the_requested_size_and_only_free_gpus(
    case: tuple[NodeTopology, GpuMask, PlacementRequest],
) -> None:
    topology, free, request = case
    match place(topology, free, request):
        case NoFit(permanent=permanent):
            assert free.bit_count() < request.pattern.size
            assert permanent == (len(topology.gpus) < request.pattern.size)
        case Match(gpus=chosen):
            used = mask_of(chosen)
            assert len(chosen) == used.bit_count() == request.pattern.size
            assert used & ~free == 0


@given(cases())
def test_the_bandwidths_of_a_match_are_those_of_its_gpus(
    case: tuple[NodeTopology, GpuMask, PlacementRequest],
) -> None:
    topology, free, request = case
    found = place(topology, free, request)
    if isinstance(found, NoFit):
        return
    used = mask_of(found.gpus)
    left = GpuMask(free & ~used)
    assert used | left == free
    assert found.preserved_mb_per_s == preserved_mb_per_s(topology, left)
    assert found.aggregate_mb_per_s == sum(
        edge.weight * topology.link_of[found.gpus[edge.a], found.gpus[edge.b]].bandwidth_mb_per_s
        for edge in request.pattern.edges
    )
    assert (found.effective_mb_per_s is None) == (found.model is None) == (len(found.gpus) == 1)


@given(cases())
def test_equal_requests_have_equal_results(
    case: tuple[NodeTopology, GpuMask, PlacementRequest],
) -> None:
    topology, free, request = case
    again = NodeTopology(topology.gpus[::-1], topology.links[::-1], topology.numa_nodes)
    assert place(again, free, request) == place(topology, free, request)


@given(cases(), st.data())
def test_bandwidths_do_not_depend_on_the_numbering_of_gpus(
    case: tuple[NodeTopology, GpuMask, PlacementRequest], data: st.DataObject
) -> None:
    topology, free, request = case
    if request.policy in {PolicyName.BASELINE, PolicyName.TOPO_AWARE, PolicyName.WEAKEST}:
        return  # they depend on the indices or on the PCIe tree, which renumbering here removes
    # The PCIe bandwidth of a GPU is estimated from the version of its NVLinks. Among GPUs of
    # different generations, which no server has, embeddings of one set with equal aggregate
    # bandwidth can differ in effective bandwidth. Then the indices decide.
    assume(len({link.version for link in topology.links if link.kind is LinkKind.NVLINK}) <= 1)
    old = indices_of(topology.mask)
    new = dict(zip(old, data.draw(st.permutations(old)), strict=True))
    renamed = relabelled(topology, lambda index: new[GpuIndex(index)])
    moved = mask_of(new[index] for index in indices_of(free))
    assert figures(place(renamed, moved, request), request) == figures(
        place(topology, free, request), request
    )


def figures(result: Match | NoFit, request: PlacementRequest) -> tuple[int | None, ...] | NoFit:
    """Return the bandwidths that the policy maximises; others may differ among equals."""
    if isinstance(result, NoFit):
        return result
    if request.policy is PolicyName.GREEDY:
        return (result.aggregate_mb_per_s,)
    if request.sensitive:
        return result.effective_mb_per_s, result.preserved_mb_per_s
    return result.preserved_mb_per_s, result.aggregate_mb_per_s


@given(st.data(), topologies(min_gpus=2, max_gpus=6, specs=V100_LINKS))
def test_every_policy_chooses_as_the_exhaustive_search(
    data: st.DataObject, topology: NodeTopology
) -> None:
    model = MODELS[data.draw(st.sampled_from(["eq2", "aggregate"]))]
    size = data.draw(st.integers(2, min(5, len(topology.gpus))))
    assume(model.unsupported_reason(topology, ring(size)) is None)
    free = data.draw(free_sets(topology).filter(lambda mask: mask.bit_count() >= size))
    search = Exhaustive(topology, ring_edges(size), size, by_eq2=model.name == "eq2")
    chosen = {
        (policy, sensitive): tuple(sorted(result.gpus))
        for policy in MAPA_POLICIES
        for sensitive in (False, True)
        for result in [
            place(topology, free, PlacementRequest(ring(size), sensitive, policy), model)
        ]
        if isinstance(result, Match)
    }
    assert chosen == search.choices(indices_of(free))


@given(cases())
def test_greedy_has_the_highest_aggregate_of_all_policies(
    case: tuple[NodeTopology, GpuMask, PlacementRequest],
) -> None:
    topology, free, request = case
    one = place(topology, free, request)
    greedy = place(topology, free, replace(request, policy=PolicyName.GREEDY))
    if isinstance(one, Match) and isinstance(greedy, Match):
        assert greedy.aggregate_mb_per_s >= one.aggregate_mb_per_s


@given(cases())
def test_weakest_has_the_lowest_physical_bandwidth_of_all_sets(
    case: tuple[NodeTopology, GpuMask, PlacementRequest],
) -> None:
    topology, free, request = case
    weakest = replace(request, policy=PolicyName.WEAKEST)
    found = place(topology, free, weakest)
    if isinstance(found, Match) and found.common_mb_per_s is not None:
        everything = ranking(topology, free, request, most=100_000)
        assert found.common_mb_per_s == min(each.common_mb_per_s or 0 for each in everything)


@given(cases(), st.integers(1, 8))
def test_the_ranking_starts_with_the_result_of_place_without_repetition(
    case: tuple[NodeTopology, GpuMask, PlacementRequest], most: int
) -> None:
    topology, free, request = case
    result = place(topology, free, request)
    ranked = ranking(topology, free, request, most=most)
    if isinstance(result, NoFit):
        assert ranked == ()
        return
    assert ranked[0] == result
    assert len({mask_of(it.gpus) for it in ranked}) == len(ranked)
    assert len(ranked) == min(most, comb(free.bit_count(), request.pattern.size))


candidates = st.builds(
    lambda effective, common, left, lost, model: Candidate(
        Match((GpuIndex(0), GpuIndex(1)), 9, effective, model, common, left, 9), lost
    ),
    st.integers(1, 5),
    st.integers(1, 5),
    st.integers(0, 3),
    st.integers(0, 3),
    st.sampled_from(["eq2", "physical"]),
)


@given(st.dictionaries(st.text(min_size=1), candidates, max_size=15), st.data())
def test_scores_are_monotone_and_the_best_node_has_the_most(
    nodes: dict[str, Candidate], data: st.DataObject
) -> None:
    sensitive = data.draw(st.booleans())
    scores = score_nodes(nodes, sensitive=sensitive)
    assert set(scores) == set(nodes)
    assert all(0 <= score <= 10 for score in scores.values())
    assert not nodes or max(scores.values()) == 10
    one_model = len({it.match.model for it in nodes.values()}) == 1
    for name, one in nodes.items():
        for other_name, other in nodes.items():
            if better(one, other, sensitive=sensitive, one_model=one_model):
                assert scores[name] >= scores[other_name]
                assert scores[name] > scores[other_name] or scores[name] == 0


def better(one: Candidate, other: Candidate, *, sensitive: bool, one_model: bool) -> bool:
    if not sensitive:
        return one.lost_mb_per_s < other.lost_mb_per_s
    if one_model:
        assert one.match.effective_mb_per_s is not None
        assert other.match.effective_mb_per_s is not None
        return one.match.effective_mb_per_s > other.match.effective_mb_per_s
    assert one.match.common_mb_per_s is not None
    assert other.match.common_mb_per_s is not None
    return one.match.common_mb_per_s > other.match.common_mb_per_s

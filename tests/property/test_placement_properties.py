"""Whatever the node, the busy GPUs, the pattern and the policy."""

from dataclasses import replace
from math import comb

from hypothesis import assume, given
from hypothesis import strategies as st

from builders import relabelled
from gputopo.bandwidth.models import MODELS
from gputopo.bandwidth.preserved import preserved_mb_per_s
from gputopo.patterns.model import ring
from gputopo.placement.model import Match, NoFit, PlacementRequest, PolicyName
from gputopo.placement.place import place, ranking
from gputopo.placement.score import Candidate, score_nodes
from gputopo.topology.model import GpuIndex, GpuMask, NodeTopology, indices_of, mask_of
from oracle import Exhaustive, ring_edges
from strategies import V100_LINKS, free_sets, patterns, topologies

policies = st.sampled_from(list(PolicyName))


@st.composite
def questions(draw: st.DrawFn) -> tuple[NodeTopology, GpuMask, PlacementRequest]:
    topology = draw(topologies())
    request = PlacementRequest(draw(patterns()), draw(st.booleans()), draw(policies))
    return topology, draw(free_sets(topology)), request


@given(questions())
def test_a_match_has_the_size_asked_for_and_no_gpu_that_is_taken(
    question: tuple[NodeTopology, GpuMask, PlacementRequest],
) -> None:
    topology, free, request = question
    match place(topology, free, request):
        case NoFit(permanent=permanent):
            assert free.bit_count() < request.pattern.size
            assert permanent == (len(topology.gpus) < request.pattern.size)
        case Match(gpus=chosen):
            used = mask_of(chosen)
            assert len(chosen) == used.bit_count() == request.pattern.size
            assert used & ~free == 0


@given(questions())
def test_used_and_left_are_all_that_was_free_and_the_figures_are_theirs(
    question: tuple[NodeTopology, GpuMask, PlacementRequest],
) -> None:
    topology, free, request = question
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


@given(questions())
def test_the_same_question_has_the_same_answer(
    question: tuple[NodeTopology, GpuMask, PlacementRequest],
) -> None:
    topology, free, request = question
    again = NodeTopology(topology.gpus[::-1], topology.links[::-1], topology.numa_nodes)
    assert place(again, free, request) == place(topology, free, request)


@given(questions(), st.data())
def test_what_a_job_gets_does_not_depend_on_how_gpus_are_numbered(
    question: tuple[NodeTopology, GpuMask, PlacementRequest], data: st.DataObject
) -> None:
    topology, free, request = question
    if request.policy in {PolicyName.BASELINE, PolicyName.TOPO_AWARE}:
        return  # they go by the numbers, and renumbering here leaves no PCIe tree
    old = indices_of(topology.mask)
    new = dict(zip(old, data.draw(st.permutations(old)), strict=True))
    renamed = relabelled(topology, lambda index: new[GpuIndex(index)])
    moved = mask_of(new[index] for index in indices_of(free))
    assert figures(place(renamed, moved, request), request) == figures(
        place(topology, free, request), request
    )


def figures(answer: Match | NoFit, request: PlacementRequest) -> tuple[int | None, ...] | NoFit:
    """Return what the policy maximises; the rest may differ among equals."""
    if isinstance(answer, NoFit):
        return answer
    if request.policy is PolicyName.GREEDY:
        return (answer.aggregate_mb_per_s,)
    if request.sensitive:
        return answer.effective_mb_per_s, answer.preserved_mb_per_s
    return answer.preserved_mb_per_s, answer.aggregate_mb_per_s


@given(st.data(), topologies(min_gpus=2, max_gpus=6, sorts=V100_LINKS))
def test_every_policy_chooses_as_exhaustive_search_does(
    data: st.DataObject, topology: NodeTopology
) -> None:
    model = MODELS[data.draw(st.sampled_from(["eq2", "aggregate"]))]
    size = data.draw(st.integers(2, min(5, len(topology.gpus))))
    assume(model.unsupported_reason(topology, ring(size)) is None)
    free = data.draw(free_sets(topology).filter(lambda mask: mask.bit_count() >= size))
    search = Exhaustive(topology, ring_edges(size), size, by_eq2=model.name == "eq2")
    chosen = {
        (policy, sensitive): tuple(sorted(answer.gpus))
        for policy in PolicyName
        for sensitive in (False, True)
        for answer in [
            place(topology, free, PlacementRequest(ring(size), sensitive, policy), model)
        ]
        if isinstance(answer, Match)
    }
    assert chosen == search.choices(indices_of(free))


@given(questions())
def test_no_other_policy_gives_a_job_more_aggregate_bandwidth_than_greedy(
    question: tuple[NodeTopology, GpuMask, PlacementRequest],
) -> None:
    topology, free, request = question
    one = place(topology, free, request)
    greedy = place(topology, free, replace(request, policy=PolicyName.GREEDY))
    if isinstance(one, Match) and isinstance(greedy, Match):
        assert greedy.aggregate_mb_per_s >= one.aggregate_mb_per_s


@given(questions(), st.integers(1, 8))
def test_the_ranking_starts_with_the_answer_and_never_repeats_a_set(
    question: tuple[NodeTopology, GpuMask, PlacementRequest], most: int
) -> None:
    topology, free, request = question
    answer = place(topology, free, request)
    ranked = ranking(topology, free, request, most=most)
    if isinstance(answer, NoFit):
        assert ranked == ()
        return
    assert ranked[0] == answer
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

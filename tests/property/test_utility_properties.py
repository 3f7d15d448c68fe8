"""Properties of the utility, for any node, neighbours, slowdowns and weights."""

from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from gputopo.api.replay import RecordedUtility
from gputopo.placement.feasible import FeasibleSets
from gputopo.placement.model import Match, PlacementRequest, PolicyName
from gputopo.placement.paths import path_table
from gputopo.placement.place import place
from gputopo.topology.model import GpuMask, NodeTopology, mask_of
from gputopo.utility.cost import Cost
from gputopo.utility.interference import SlowdownSource
from gputopo.utility.surroundings import NodeNeighbour, PairSlowdown, Surroundings
from gputopo.utility.utility import (
    UNITS,
    PlacementCosts,
    UtilityWeights,
    job_utility,
    placement_utility,
    utility,
)
from support.builders.strategies import free_sets, patterns, topologies

WORST = 60
slowdowns = st.builds(PairSlowdown, st.integers(0, WORST), st.sampled_from(SlowdownSource))


@st.composite
def weights(draw: st.DrawFn) -> UtilityWeights:
    fragmentation = draw(st.integers(0, 99))
    communication = draw(st.integers(0, 100 - fragmentation))
    return UtilityWeights.of_percents(
        communication, 100 - fragmentation - communication, fragmentation
    )


@st.composite
def neighbours(draw: st.DrawFn, topology: NodeTopology) -> NodeNeighbour:
    indices = [gpu.index for gpu in topology.gpus]
    far = st.none() | st.tuples(st.integers(0, WORST), st.integers(0, WORST))
    return NodeNeighbour(
        workload=draw(st.text(max_size=20)),
        gpus=mask_of(draw(st.lists(st.sampled_from(indices), min_size=1, unique=True))),
        suffered=draw(slowdowns),
        caused=draw(slowdowns),
        far=draw(far),
    )


Case = tuple[NodeTopology, GpuMask, PlacementRequest, Surroundings]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw a node with enough free GPUs for a job, and the surroundings of the job."""
    topology = draw(topologies())
    free = draw(free_sets(topology)) or topology.mask
    pattern = draw(patterns(max_size=min(6, free.bit_count())))
    request = PlacementRequest(pattern, draw(st.booleans()), PolicyName.UTILITY)
    around = Surroundings(
        path_table(topology, pattern).scale,
        tuple(draw(st.lists(neighbours(topology), max_size=4))),
        worst_percent=WORST,
        weights=draw(weights()),
    )
    return topology, free, request, around


def placed(case: Case) -> Match:
    topology, free, request, around = case
    found = place(topology, free, request, surroundings=around)
    assert isinstance(found, Match)
    return found


@given(cases())
def test_utilities_are_between_a_hundredth_and_1_and_computed_from_the_costs(case: Case) -> None:
    topology, free, request, around = case
    feasible = FeasibleSets(topology, free, request, surroundings=around)
    for choice, value in enumerate(feasible.utilities.values):
        found = feasible.utilities.of(choice)
        assert UNITS // 100 <= found.value <= UNITS
        assert UNITS // 100 <= found.job_value <= UNITS
        assert abs(found.value - value) <= 1
        assert found == placement_utility(found.costs, around.weights)


@given(cases())
def test_no_set_has_a_higher_utility_than_the_chosen_one(case: Case) -> None:
    topology, free, request, around = case
    found = placed(case).utility
    assert found is not None
    values = FeasibleSets(topology, free, request, surroundings=around).utilities.values
    assert abs(found.value - values.max()) <= 1


@given(cases(), st.randoms())
def test_order_of_the_neighbours_changes_nothing(case: Case, chance: object) -> None:
    topology, free, request, around = case
    shuffled = list(around.neighbours)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    again = (topology, free, request, replace(around, neighbours=tuple(shuffled)))
    assert placed(again) == placed(case)


@given(cases())
def test_record_of_a_decision_gives_it_again(case: Case) -> None:
    topology, free, request, around = case
    text = RecordedUtility.of(around, None).model_dump_json(by_alias=True)
    again = RecordedUtility.model_validate_json(text).surroundings()
    assert placed((topology, free, request, again)) == placed(case)


@given(cases(), st.data())
def test_more_slowdown_by_a_neighbour_never_raises_a_utility(
    case: Case, data: st.DataObject
) -> None:
    topology, free, request, around = case
    assume(around.neighbours)
    number = data.draw(st.integers(0, len(around.neighbours) - 1))
    before = around.neighbours[number]
    worse = PairSlowdown(
        data.draw(st.integers(before.suffered.percent, WORST)), before.suffered.source
    )
    changed = list(around.neighbours)
    changed[number] = replace(before, suffered=worse)
    first, second = (
        FeasibleSets(topology, free, request, surroundings=each).utilities
        for each in (around, replace(around, neighbours=tuple(changed)))
    )
    assert (second.values <= first.values).all()
    for choice in range(len(first.values)):
        assert second.of(choice).job_value <= first.of(choice).job_value


@given(cases(), st.data())
def test_another_neighbour_never_raises_a_utility(case: Case, data: st.DataObject) -> None:
    topology, free, request, around = case
    more = (*around.neighbours, data.draw(neighbours(topology)))
    first, second = (
        FeasibleSets(topology, free, request, surroundings=each).utilities
        for each in (around, replace(around, neighbours=more))
    )
    assert (second.values <= first.values).all()
    for choice in range(len(first.values)):
        assert second.of(choice).job_value <= first.of(choice).job_value


costs = st.builds(Cost, st.floats(0, 10), st.floats(0, 5), st.floats(5, 10))


@given(
    st.builds(PlacementCosts, costs, costs, costs, costs),
    st.sampled_from(["communication", "interference", "suffered", "fragmentation"]),
    st.floats(0, 10),
    weights(),
)
def test_utilities_are_monotone_in_each_cost(
    before: PlacementCosts, name: str, more: float, weighted: UtilityWeights
) -> None:
    cost: Cost = getattr(before, name)
    after = replace(before, **{name: replace(cost, value=cost.value + more)})
    assert utility(after, weighted) <= utility(before, weighted)
    assert job_utility(after, weighted) <= job_utility(before, weighted)

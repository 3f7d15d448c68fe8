"""Plans of any ensemble: no GPU twice, every member trained, rates near each other, repeatable."""

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gputopo.ensemble.assignment import assign
from gputopo.ensemble.flotilla import Flotilla, create_flotilla
from gputopo.ensemble.model import (
    EnsembleMember,
    EnsembleSettings,
    MemberPlacement,
    NodeGpuCount,
    PaceMeasure,
)
from gputopo.ensemble.plan import plan_ensemble
from gputopo.ensemble.preprocessing import preprocessor_cores
from gputopo.ensemble.rates import MemberRates
from gputopo.ensemble.replan import replan
from support.ensembles import PROBED_CORES, used

clusters = st.lists(st.integers(0, 8), min_size=1, max_size=4).map(
    lambda sizes: [NodeGpuCount(f"n{number}", gpus) for number, gpus in enumerate(sizes)]
)
settings = st.builds(
    EnsembleSettings,
    max_gpus=st.none() | st.integers(1, 20),
    max_gpus_per_member=st.none() | st.integers(1, 10),
    one_node=st.booleans(),
    spread=st.floats(0, 0.9),
    pace=st.sampled_from(PaceMeasure),
    reference_parts=st.sampled_from([(1.0,), (1.0, 0.5)]),
    restarts=st.booleans(),
    restart_seconds=st.floats(0, 5),
)


@st.composite
def rates(draw: st.DrawFn) -> MemberRates:
    first, loss = draw(st.floats(1, 200)), draw(st.floats(0, 0.5))
    counts = draw(st.sets(st.integers(1, 6), min_size=1, max_size=4))
    error = st.floats(0.9, 1.1)
    return MemberRates.of({m: first * m / (1 + loss * (m - 1)) * draw(error) for m in counts})


@st.composite
def ensembles(draw: st.DrawFn, *, known: bool = False) -> list[EnsembleMember]:
    count = draw(st.integers(1, 8))
    items = st.floats(1, 1000)
    return [
        EnsembleMember(
            f"m{number}",
            draw(rates() if known else rates() | st.none()),
            draw(items if known else items | st.none()),
            draw(st.none() | st.integers(1, 8)),
        )
        for number in range(count)
    ]


def by_name(flotillas: tuple[Flotilla, ...]) -> dict[str, int]:
    return {each.name: each.gpus for flotilla in flotillas for each in flotilla.members}


@given(ensembles(), clusters, settings)
def test_every_member_is_in_one_flotilla_or_has_a_reason(
    members: list[EnsembleMember], cluster: list[NodeGpuCount], given_settings: EnsembleSettings
) -> None:
    plan = plan_ensemble(members, cluster, given_settings)
    planned = [each.name for flotilla in plan.flotillas for each in flotilla.members]
    assert sorted([*planned, *(each.name for each in plan.unplanned)]) == sorted(
        each.name for each in members
    )
    assert all(each.reason for each in plan.unplanned)


@given(ensembles(), clusters, settings)
def test_equal_arguments_give_equal_plans(
    members: list[EnsembleMember], cluster: list[NodeGpuCount], given_settings: EnsembleSettings
) -> None:
    plan = plan_ensemble(members, cluster, given_settings)
    assert plan_ensemble(list(members), list(cluster), given_settings) == plan


@given(ensembles(known=True), clusters, settings)
def test_every_planned_member_trains_to_its_end_and_no_gpu_is_used_twice(
    members: list[EnsembleMember], cluster: list[NodeGpuCount], given_settings: EnsembleSettings
) -> None:
    plan = plan_ensemble(members, cluster, given_settings)
    assert {run.placement.member: run.placement.gpus for run in plan.runs} == by_name(
        plan.flotillas
    )
    free = {node.name: node.gpus for node in cluster}
    for start in {run.start for run in plan.runs}:
        active = [
            run.placement
            for run in plan.runs
            if run.start <= start and run.end is not None and start < run.end
        ]
        assert all(gpus <= free[name] for name, gpus in used(active).items())
        if given_settings.max_gpus is not None:
            assert sum(used(active).values()) <= given_settings.max_gpus
    if given_settings.one_node:
        assert all(len(run.placement.nodes) == 1 for run in plan.runs)
    for run in plan.runs:
        member = next(each for each in members if each.name == run.placement.member)
        assert run.rate is not None
        assert run.end is not None
        assert member.items_left is not None
        assert abs((run.end - run.start) * run.rate - member.items_left) < 1e-6 * 1000


@given(ensembles(known=True), clusters, settings)
def test_member_is_below_the_spread_only_if_it_is_limited(
    members: list[EnsembleMember], cluster: list[NodeGpuCount], given_settings: EnsembleSettings
) -> None:
    chosen = replace(given_settings, pace=PaceMeasure.RATE)
    flotilla = create_flotilla(members, cluster, chosen)
    known = {each.name: each.rates for each in members}
    for each in () if flotilla is None else flotilla.members:
        assert flotilla is not None
        assert each.rate is not None
        rates_of = known[each.name]
        assert rates_of is not None
        assert each.rate == rates_of.at(each.gpus)
        if each.rate < (1 - chosen.spread) * flotilla.reference * (1 - 1e-9):
            assert each.reason


smooth = st.tuples(st.floats(1, 200), st.floats(0, 0.5), st.integers(1, 6)).map(
    lambda law: MemberRates.of(
        {m: law[0] * m / (1 + law[1] * (m - 1)) for m in range(1, law[2] + 1)}
    )
)


@given(st.lists(smooth, min_size=1, max_size=8), clusters)
def test_last_gpu_of_a_member_brought_it_to_the_reference_or_it_was_the_slowest(
    known: list[MemberRates], cluster: list[NodeGpuCount]
) -> None:
    """So the spread is limited: with one GPU less, a member would be the slowest one."""
    members = [EnsembleMember(f"m{number}", each) for number, each in enumerate(known)]
    flotilla = create_flotilla(members, cluster, EnsembleSettings(one_node=False))
    if flotilla is None:
        return
    growing = [
        rates_of.at(each.gpus)
        for each in flotilla.members
        if each.gpus < (rates_of := known[int(each.name[1:])]).fastest(99)
    ]
    for each in flotilla.members:
        rates_of = known[int(each.name[1:])]
        one_less = rates_of.at(each.gpus - 1) if each.gpus > 1 else 0.0
        distance = abs(rates_of.at(each.gpus) - flotilla.reference)
        is_nearest = distance <= abs(one_less - flotilla.reference)
        assert is_nearest or all(one_less <= rate * (1 + 1e-9) for rate in growing)


@given(ensembles(), clusters, settings)
def test_no_gpu_is_idle_that_would_make_the_slowest_member_faster(
    members: list[EnsembleMember], cluster: list[NodeGpuCount], given_settings: EnsembleSettings
) -> None:
    chosen = replace(given_settings, one_node=False, max_gpus_per_member=None, max_gpus=None)
    flotilla = create_flotilla(members, cluster, chosen)
    if flotilla is None or not flotilla.idle:
        return
    known = {each.name: each for each in members}
    for each in flotilla.members:
        member = known[each.name]
        if member.rates is None or member.max_gpus is not None:
            continue
        more = range(each.gpus + 1, min(each.gpus + flotilla.idle, member.rates.most) + 1)
        assert all(member.rates.at(gpus) <= member.rates.at(each.gpus) for gpus in more)


@given(ensembles(), clusters, clusters, settings)
def test_new_plan_uses_no_gpu_twice_and_keeps_what_it_can(
    members: list[EnsembleMember],
    before: list[NodeGpuCount],
    after: list[NodeGpuCount],
    given_settings: EnsembleSettings,
) -> None:
    plan = plan_ensemble(members, before, given_settings)
    running = {run.placement.member: run.placement for run in plan.runs if run.start == 0}
    found = replan(members, running, after, given_settings)
    assert set(found.stop) | set(found.keeps) == set(running)
    assert not set(found.stop) & set(found.keeps)
    active: list[MemberPlacement] = [running[name] for name in found.keeps]
    names = [each.member for each in (*active, *found.start)]
    assert len(set(names)) == len(names)
    free = {node.name: node.gpus for node in after}
    assert all(gpus <= free[name] for name, gpus in used([*active, *found.start]).items())
    assert replan(members, running, after, given_settings) == found


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 9)), clusters, st.booleans())
def test_assigned_members_have_their_gpus(
    sizes: dict[str, int],
    cluster: list[NodeGpuCount],
    one_node: bool,  # noqa: FBT001 - drawn
) -> None:
    found = assign(sizes, cluster, one_node=one_node)
    if found is None:
        assert one_node or sum(sizes.values()) > sum(node.gpus for node in cluster)
        return
    assert {each.member: each.gpus for each in found} == sizes
    free = {node.name: node.gpus for node in cluster}
    assert all(gpus <= free[name] for name, gpus in used(found).items())


@given(st.lists(st.floats(1, 500), max_size=6), st.booleans())
def test_preprocessor_is_the_smallest_that_is_enough(
    demand: list[float],
    shared: bool,  # noqa: FBT001 - drawn
) -> None:
    throughput = {cores: 60.0 * cores**0.8 for cores in PROBED_CORES}
    found = preprocessor_cores(demand, throughput, items_are_shared=shared)
    fewer = [cores for cores in PROBED_CORES if cores < found.cores]
    assert all(throughput[cores] < found.demand for cores in fewer)
    assert (found.throughput >= found.demand) == (not found.reason)


@given(rates())
def test_extrapolated_rates_lose_with_each_gpu(known: MemberRates) -> None:
    last = known.measured[-1][0]
    each = [known.at(gpus) / gpus for gpus in range(last, known.most + 1)]
    assert all(more <= fewer * (1 + 1e-9) for fewer, more in pairwise(each))

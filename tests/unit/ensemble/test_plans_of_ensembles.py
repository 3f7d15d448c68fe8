"""Plans: flotilla after flotilla, with a forecast of who trains when."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from gputopo.ensemble.model import (
    EnsembleMember,
    EnsembleSettings,
    NodeGpuCount,
    UnknownRates,
)
from gputopo.ensemble.plan import EnsemblePlan, plan_ensemble
from gputopo.ensemble.rates import EnsembleError, MemberRates
from gputopo.ensemble.starts import free_gpus, members_to_start
from gputopo.ensemble.timeline import TimelineChanges, TimelineState, end_of, run_ensemble
from support.ensembles import ANYWHERE, member, nodes, on

PAPER = replace(ANYWHERE, reference_parts=(1.0,))


def groups(plan: EnsemblePlan) -> list[dict[str, int]]:
    return [{each.name: each.gpus for each in flotilla.members} for flotilla in plan.flotillas]


def test_members_that_do_not_fit_are_in_later_flotillas() -> None:
    members = [member(name, 100, 1000, 0) for name in "abc"]
    plan = plan_ensemble(members, nodes(2), PAPER)
    assert groups(plan) == [{"a": 1, "b": 1}, {"c": 2}]
    assert [(run.placement.member, run.start, run.end) for run in plan.runs] == [
        ("a", 0, 10),
        ("b", 0, 10),
        ("c", 10, 15),
    ]
    assert plan.seconds == 15


def test_member_that_ends_early_frees_its_gpus_for_the_next_flotilla() -> None:
    members = [member("a", 100, 500, 0), member("b", 100, 2000, 0), member("c", 100, 600, 0.5)]
    plan = plan_ensemble(members, nodes(2), replace(PAPER, max_gpus_per_member=1))
    assert [(run.placement.member, run.start, run.end) for run in plan.runs] == [
        ("a", 0, 5),
        ("b", 0, 20),
        ("c", 5, 11),
    ]


def test_best_reference_is_chosen() -> None:
    members = [member("a", 100, 1000, 0), *(member(f"b{n}", 50, 500, 0.4) for n in range(3))]
    assert plan_ensemble(members, nodes(4), PAPER).seconds > 10
    plan = plan_ensemble(members, nodes(4), ANYWHERE)
    assert (len(plan.flotillas), plan.seconds) == (1, 10)


def test_running_members_keep_their_gpus() -> None:
    members = [member("a", 100, 1000, 0), member("b", 100, 1000, 0)]
    plan = plan_ensemble(members, nodes(4), PAPER, {"a": on("a", n0=3)})
    assert groups(plan) == [{"b": 4}]
    assert [(run.placement.member, run.start) for run in plan.runs] == [("a", 0), ("b", 10 / 3)]


def test_members_without_rates_are_planned_or_profiled() -> None:
    members = [member("a"), EnsembleMember("b", None, 100)]
    plan = plan_ensemble(members, nodes(4), PAPER)
    assert groups(plan) == [{"b": 1, "a": 3}]
    assert plan.seconds == math.inf
    assert [(run.placement.member, run.end is None) for run in plan.runs] == [
        ("a", False),
        ("b", True),
    ]
    plan = plan_ensemble(members, nodes(4), replace(PAPER, unknown=UnknownRates.PROFILE))
    assert groups(plan) == [{"a": 4}]
    assert [(each.name, each.reason, each.needs_profile) for each in plan.unplanned] == [
        ("b", "no rates are known: profile it first", True)
    ]


def test_start_behind_a_member_without_a_known_end_is_unknown() -> None:
    members = [member("a", 100, None, 0), member("b", 90, 100, 0)]
    plan = plan_ensemble(members, nodes(1), PAPER)
    assert [run.placement.member for run in plan.runs] == ["a"]
    assert plan.seconds == math.inf


def test_member_larger_than_every_node_is_not_planned() -> None:
    large = EnsembleMember("large", MemberRates.of({8: 100.0}), 100)
    plan = plan_ensemble([member("a"), large], nodes(4, 4), EnsembleSettings())
    assert plan.unplanned[0].reason == (
        "needs at least 8 GPUs; limited to 4 GPUs, those of the largest node: a member has one pod"
    )
    assert not plan.unplanned[0].needs_profile
    assert plan.seconds < math.inf
    assert groups(plan_ensemble([large], nodes(4, 4), PAPER)) == [{"large": 8}]
    plan = plan_ensemble([EnsembleMember("b")], nodes(), PAPER)
    assert (
        plan.unplanned[0].reason == "needs at least 1 GPUs; limited to 0 GPUs, those of all nodes"
    )


def test_empty_ensemble_has_an_empty_plan() -> None:
    assert plan_ensemble([], nodes(4), PAPER) == EnsemblePlan((), (), (), 0.0)


def test_limit_of_all_gpus_counts_running_members() -> None:
    members = [member("a", loss=0), member("b", loss=0)]
    settings = replace(PAPER, max_gpus=4)
    plan = plan_ensemble(members, nodes(8), settings, {"a": on("a", n0=2)})
    running = {"a": on("a", n0=2)}
    assert groups(plan) == [{"b": 4}]
    assert members_to_start(plan.flotillas, {"b"}, running, nodes(8), settings) == ()
    assert members_to_start(plan.flotillas, {"b"}, {}, nodes(8), settings) == (on("b", n0=4),)


def test_next_flotilla_starts_when_all_of_the_former_have_started() -> None:
    members = [member("a", 100, loss=0), member("b", 33.5, loss=0), member("c", 33, loss=0)]
    plan = plan_ensemble(members, nodes(4), PAPER)
    assert groups(plan) == [{"a": 1, "b": 3}, {"c": 4}]
    running = {"x": on("x", n0=2)}
    start = members_to_start(plan.flotillas, {"a", "b", "c"}, running, nodes(4), PAPER)
    assert start == (on("a", n0=1),)
    assert members_to_start(plan.flotillas, {"c"}, {}, nodes(4), PAPER) == (on("c", n0=4),)


def test_node_that_lost_gpus_has_none_free() -> None:
    assert free_gpus(nodes(1, 4), [on("a", n0=2, n1=1)]) == nodes(0, 3)


def test_in_lockstep_all_members_that_run_have_the_lowest_rate() -> None:
    members = [member("a", 100, 2000, 0), member("b", 50, 500, 0), member("c", 80, 800, 0)]
    settings = replace(PAPER, max_gpus_per_member=1, lockstep=True)
    plan = plan_ensemble(members[:2], nodes(2), settings)
    # b ends after 500 / 50 s. Until then a has trained on 500 items, and has 1500 left.
    assert [(run.placement.member, run.start, run.end) for run in plan.runs] == [
        ("a", 0, 10 + 1500 / 100),
        ("b", 0, 10),
    ]
    started = plan_ensemble(members, nodes(2), settings, {"b": on("b", n0=1)})
    assert {run.placement.member: run.end for run in started.runs} == {
        "b": 10,
        "a": 10 + 800 / 80 + 700 / 100,
        "c": 10 + 800 / 80,
    }


def test_in_lockstep_a_member_without_rates_slows_down_no_other_one() -> None:
    members = [member("a", 100, 1000, 0), EnsembleMember("b", None, 100)]
    plan = plan_ensemble(members, nodes(2), replace(PAPER, max_gpus_per_member=1, lockstep=True))
    assert {run.placement.member: run.end for run in plan.runs} == {"a": 10, "b": None}


def test_restart_costs_time_without_progress() -> None:
    members = [member("a", 100, 1000, 0), member("b", 100, 200, 0)]

    def choose(state: TimelineState) -> TimelineChanges:
        if not state.now:
            return TimelineChanges(start=[on("a", n0=1), on("b", n0=1)])
        if state.now == 2:
            return TimelineChanges(["a"], [on("a", n0=2)])
        return TimelineChanges()

    runs = run_ensemble(members, nodes(2), choose, restart_seconds=10)
    assert [(run.placement.gpus, run.start, run.end) for run in runs] == [
        (1, 0, 2),
        (1, 0, 2),
        (2, 2, 2 + 10 + 800 / 200),
    ]
    assert end_of(runs, 2) == 16


def test_stopped_member_that_is_in_its_restart_has_made_no_progress() -> None:
    members = [member("a", 100, 1000, 0), *(member(name, 100, 200, 0) for name in "bc")]
    changes = iter(
        [
            TimelineChanges(start=[on("a", n0=1), on("b", n0=1)]),
            TimelineChanges(["a"], [on("a", n0=1), on("c", n0=1)]),
            TimelineChanges(["a"]),
        ]
    )
    left = []

    def choose(state: TimelineState) -> TimelineChanges:
        left.append(state.members[0].items_left)
        return next(changes)

    runs = run_ensemble(members, nodes(2), choose, restart_seconds=10)
    assert end_of(runs, 4) == math.inf
    assert [(run.placement.member, run.start, run.end) for run in runs] == [
        ("a", 0, 2),
        ("b", 0, 2),
        ("a", 2, 4),
        ("c", 2, 4),
    ]
    assert left == [1000, 800, 800]


def test_unknown_items_stay_unknown_when_a_member_stops() -> None:
    left: list[float | None] = []

    def choose(state: TimelineState) -> TimelineChanges:
        if not state.now:
            return TimelineChanges(start=[on("a", n0=1), on("b", n0=1)])
        left.extend(each.items_left for each in state.members)
        return TimelineChanges(["a"])

    members = [member("a", items=None), member("b", 100, 200)]
    runs = run_ensemble(members, nodes(2), choose)
    assert left == [None]
    assert [run.end for run in runs] == [2, 2]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: EnsembleMember("a", None, -1), "items_left: -1 of 'a'"),
        (lambda: EnsembleMember("a", None, math.nan), "items_left: nan of 'a'"),
        (lambda: EnsembleMember("a", None, 1, 0), "max_gpus: 0 of 'a'"),
        (lambda: NodeGpuCount("n", -1), "gpus: -1 of node 'n'"),
        (lambda: EnsembleSettings(max_gpus=0), "max_gpus: 0"),
        (lambda: EnsembleSettings(max_gpus_per_member=0), "max_gpus_per_member: 0"),
        (lambda: EnsembleSettings(spread=1.5), "spread: 1.5; must be .* at most 1"),
        (lambda: EnsembleSettings(rate_difference=-1), "rate_difference: -1; must be"),
        (lambda: EnsembleSettings(restart_seconds=math.inf), "restart_seconds: inf"),
        (lambda: EnsembleSettings(reference_parts=()), "reference_parts: "),
        (lambda: EnsembleSettings(reference_parts=(0.0,)), "reference_parts: "),
        (lambda: plan_ensemble([member("a")] * 2, nodes(1), PAPER), "members: 'a' is listed twice"),
        (lambda: plan_ensemble([], nodes(1) * 2, PAPER), "nodes: 'n0' is listed twice"),
    ],
)
def test_impossible_values_are_rejected(make: Callable[[], object], message: str) -> None:
    with pytest.raises(EnsembleError, match=message):
        make()

"""New plans: after an end, if GPUs were taken, with restarts."""

from dataclasses import replace

from gputopo.ensemble.replan import replan
from support.ensembles import ANYWHERE, member, nodes, on

SETTINGS = replace(ANYWHERE, reference_parts=(1.0,))
RESTARTS = replace(SETTINGS, restarts=True, restart_seconds=1.0)


def test_freed_gpus_start_the_next_member() -> None:
    members = [member("b", 100, 1000, 0), member("c", 100, 1000, 0)]
    found = replan(members, {"b": on("b", n0=1)}, nodes(2, 1), SETTINGS)
    assert (found.stop, found.start, found.keeps) == ({}, (), ("b",))
    found = replan(members, {"b": on("b", n0=1)}, nodes(2, 1), replace(SETTINGS, max_gpus=2))
    assert found.start == ()  # one GPU is free for it, and it is planned with two
    limited = replace(SETTINGS, max_gpus_per_member=1)
    assert replan(members, {"b": on("b", n0=1)}, nodes(2, 1), limited).start == (on("c", n0=1),)


def test_member_whose_gpus_were_taken_stops_and_waits() -> None:
    members = [member("a", 100, 1000, 0), member("b", 100, 1000, 0), member("c", 100, 1000, 0)]
    running = {"a": on("a", n0=2), "b": on("b", n0=2), "c": on("c", n1=1)}
    found = replan(members, running, nodes(3), SETTINGS)
    assert found.stop == {
        "b": "node n0 has 1 of 2 GPUs left",
        "c": "node n1 has 0 of 1 GPUs left",
    }
    assert found.keeps == ("a",)
    assert [each.name for flotilla in found.plan.flotillas for each in flotilla.members] == [
        "b",
        "c",
    ]


def test_plan_shrinks_to_the_gpus_that_are_left() -> None:
    members = [member("a", 100, 1000, 0)]
    assert replan(members, {}, nodes(2), SETTINGS).start == (on("a", n0=2),)
    found = replan(members, {}, nodes(0), SETTINGS)
    assert (found.start, found.plan.unplanned[0].name) == ((), "a")


def test_member_restarts_with_more_gpus_if_the_ensemble_ends_earlier() -> None:
    members = [member("a", 100, 1000, 0)]
    found = replan(members, {"a": on("a", n0=1)}, nodes(4), RESTARTS)
    assert found.stop == {"a": "continues with 4 GPUs instead of 1"}
    assert found.start == (on("a", n0=4),)
    assert found.keeps == ()


def test_member_does_not_restart_for_a_small_gain_or_without_a_checkpoint() -> None:
    members = [member("a", 100, 1000, 0)]
    running = {"a": on("a", n0=1)}
    for settings in (SETTINGS, replace(RESTARTS, restart_seconds=8.0)):
        found = replan(members, running, nodes(4), settings)
        assert (found.stop, found.start, found.keeps) == ({}, (), ("a",))


def test_members_with_the_planned_gpus_run_on_and_others_wait_for_a_later_flotilla() -> None:
    members = [
        member("kept", 100, 4000, 0),
        member("later", 20, 2000, 0, measured=8),
        member("next", 90, 9000, 0, measured=8),
    ]
    running = {"kept": on("kept", n0=2), "later": on("later", n0=1)}
    found = replan(members, running, nodes(4), RESTARTS)
    assert found.keeps == ("kept",)
    assert found.stop == {"later": "continues in a later flotilla"}
    assert found.start == (on("next", n0=2),)

"""Flotillas (algorithm 1): who trains together, with how many GPUs."""

import random
from dataclasses import replace

import pytest

from gputopo.ensemble.candidate import FlotillaCandidate, candidates
from gputopo.ensemble.flotilla import Flotilla, create_flotilla, find_next
from gputopo.ensemble.model import EnsembleMember, EnsembleSettings, PaceMeasure
from gputopo.ensemble.rates import MemberRates
from support.ensembles import ANYWHERE, highest_pace, member, nodes


def gpus_of(flotilla: Flotilla | None) -> dict[str, int]:
    assert flotilla is not None
    return {each.name: each.gpus for each in flotilla.members}


def reasons_of(flotilla: Flotilla | None) -> dict[str, str]:
    assert flotilla is not None
    return {each.name: each.reason for each in flotilla.members}


def waiting(*members: EnsembleMember, gpus: int = 16) -> list[FlotillaCandidate]:
    return candidates(members, nodes(gpus), ANYWHERE)


def random_members(source: random.Random, count: int) -> list[EnsembleMember]:
    return [
        member(f"m{number}", source.uniform(21, 176), 1000, source.uniform(0, 0.2))
        for number in range(count)
    ]


def least_pace(candidate: FlotillaCandidate, reference: float) -> float:
    highest = candidate.paces[-1]
    return 2 / 3 * (reference if highest >= 2 / 3 * reference else highest)


def test_find_next_takes_the_nearest_pace() -> None:
    found = find_next(100, waiting(member("a", 70, loss=0), member("b", 51, loss=0)), 4, 1 / 3)
    assert found is not None
    assert (found[0].name, found[1]) == ("b", 2)


def test_find_next_is_the_best_of_all_members_and_numbers_of_gpus() -> None:
    source = random.Random(4)  # noqa: S311 - repeatable
    for _ in range(200):
        members = waiting(*random_members(source, source.randint(1, 5)))
        reference, most = source.uniform(21, 176), source.randint(1, 8)
        allowed = [
            (abs(each.pace(gpus) - reference), gpus, place)
            for place, each in enumerate(members)
            for gpus in each.gpus
            if gpus <= most and each.pace(gpus) >= least_pace(each, reference)
        ]
        best = min(allowed, default=None)
        found = find_next(reference, members, most, 1 / 3)
        if found is None:
            # Only the nearest number of each member is compared with the limit.
            assert best is None or best[0] > reference / 3
        else:
            assert best is not None
            assert (found[1], members.index(found[0])) == best[1:]


def test_member_that_needs_more_gpus_than_are_left_waits() -> None:
    large = EnsembleMember("large", MemberRates.of({3: 100.0}))
    assert find_next(100, waiting(large), 2, 1 / 3) is None
    assert find_next(100, waiting(large), 3, 1 / 3) is not None


def test_equal_members_are_added_in_their_order() -> None:
    found = find_next(100, waiting(member("b"), member("a")), 4, 1 / 3)
    assert found is not None
    assert found[0].name == "b"


def test_member_that_is_too_slow_with_the_gpus_that_are_left_waits() -> None:
    assert find_next(100, waiting(member("slow", 20, loss=0)), 2, 1 / 3) is None
    flotilla = create_flotilla([member("slow", 20), member("fast")], nodes(2), ANYWHERE)
    assert gpus_of(flotilla) == {"fast": 2}


def test_member_that_can_never_be_fast_enough_joins_with_all_that_it_can_get() -> None:
    members = [member("fast"), member("slow", 10, loss=0)]
    flotilla = create_flotilla(members, nodes(4, 4), EnsembleSettings())
    assert gpus_of(flotilla) == {"fast": 4, "slow": 4}
    assert reasons_of(flotilla) == {
        "fast": "",
        "slow": "limited to 4 GPUs, those of the largest node: a member has one pod",
    }


@pytest.mark.parametrize(
    ("settings", "limit", "gpus", "reason"),
    [
        (replace(ANYWHERE, max_gpus_per_member=3), None, 3, "3 GPUs by max_gpus_per_member"),
        (ANYWHERE, 2, 2, "2 GPUs by max_gpus of the member"),
        (replace(ANYWHERE, max_gpus=1), None, 1, ""),
        (ANYWHERE, None, 8, "not faster with more than 8 GPUs, or no rates are known"),
    ],
)
def test_limits_are_kept_and_stated(
    settings: EnsembleSettings, limit: int | None, gpus: int, reason: str
) -> None:
    slow = member("slow", 5, loss=0, max_gpus=limit)
    flotilla = create_flotilla([member("fast"), slow], nodes(8, 8), settings)
    assert gpus_of(flotilla).get("slow", 1) == gpus
    assert reasons_of(flotilla).get("slow", "").endswith(reason)


def test_left_over_gpus_go_to_the_slowest_member() -> None:
    members = [member("a", 100, loss=0), member("b", 90, loss=0), member("c", 80, loss=0)]
    assert gpus_of(create_flotilla(members, nodes(4), ANYWHERE)) == {"a": 1, "b": 1, "c": 2}
    assert gpus_of(create_flotilla(members, nodes(5), ANYWHERE)) == {"a": 1, "b": 2, "c": 2}


def test_in_lockstep_members_get_the_fewest_gpus_for_the_pace_of_the_slowest() -> None:
    slow = EnsembleMember("slow", MemberRates.of({1: 50.0, 2: 100.0, 3: 100.0}), 1)
    fast = EnsembleMember("fast", MemberRates.of({1: 100.0, 2: 140.0, 3: 200.0}), 1)
    alone, together = (replace(ANYWHERE, lockstep=lockstep) for lockstep in (False, True))
    assert gpus_of(create_flotilla([slow, fast], nodes(5), alone)) == {"fast": 3, "slow": 2}
    flotilla = create_flotilla([slow, fast], nodes(5), together)
    assert flotilla is not None
    assert (gpus_of(flotilla), flotilla.idle, flotilla.spread) == ({"fast": 1, "slow": 2}, 2, 0)
    unknown = EnsembleMember("new", None, 1)
    assert gpus_of(create_flotilla([unknown], nodes(5), together)) == {"new": 1}
    equal = [replace(fast, name=name) for name in "ab"]
    assert gpus_of(create_flotilla(equal, nodes(4), together)) == {"a": 2, "b": 2}


def test_gpus_that_make_no_member_faster_stay_idle() -> None:
    known = EnsembleMember("a", MemberRates.of({1: 100.0, 2: 120.0, 3: 110.0}), 1)
    flotilla = create_flotilla([known], nodes(8), ANYWHERE)
    assert flotilla is not None
    assert (gpus_of(flotilla), flotilla.idle) == ({"a": 2}, 6)


def test_number_of_gpus_that_is_not_faster_is_skipped() -> None:
    known = EnsembleMember("a", MemberRates.of({1: 100.0, 2: 95.0, 3: 130.0}), 1)
    assert gpus_of(create_flotilla([known], nodes(2), ANYWHERE)) == {"a": 1}
    assert gpus_of(create_flotilla([known], nodes(3), ANYWHERE)) == {"a": 3}


def test_members_on_one_node_each_fit_on_their_nodes() -> None:
    members = [member(f"m{number}", 34, loss=0) for number in range(2)]
    members.append(member("fast", 100))
    flotilla = create_flotilla(members, nodes(4, 4), EnsembleSettings())
    assert gpus_of(flotilla) == {"fast": 1, "m0": 4, "m1": 3}


def test_member_that_fits_on_no_node_beside_the_others_waits() -> None:
    members = [member("fast"), *(member(f"m{number}", 33, loss=0) for number in range(3))]
    flotilla = create_flotilla(members, nodes(5, 5), EnsembleSettings())
    assert gpus_of(flotilla) == {"fast": 1, "m0": 5, "m1": 4}


def test_member_without_rates_gets_one_gpu() -> None:
    flotilla = create_flotilla([member("a"), EnsembleMember("b")], nodes(4), ANYWHERE)
    assert gpus_of(flotilla) == {"b": 1, "a": 3}
    assert reasons_of(flotilla)["b"] == "no rates are known: one GPU until they are measured"
    assert flotilla is not None
    assert (flotilla.members[0].rate, flotilla.spread) == (None, 0)


def test_members_without_rates_use_at_most_all_gpus() -> None:
    members = [EnsembleMember(name) for name in "abc"]
    assert gpus_of(create_flotilla([*members, member("d")], nodes(2), ANYWHERE)) == {"a": 1, "b": 1}


def test_no_flotilla_without_gpus_or_members() -> None:
    assert create_flotilla([member("a")], nodes(), ANYWHERE) is None
    assert create_flotilla([], nodes(4), ANYWHERE) is None
    large = EnsembleMember("large", MemberRates.of({8: 100.0}))
    assert create_flotilla([large], nodes(4, 4), EnsembleSettings()) is None


def test_members_end_together_if_the_pace_is_the_end() -> None:
    members = [member("short", 100, 1000, 0), member("long", 100, 3000, 0)]
    settings = replace(ANYWHERE, pace=PaceMeasure.END)
    assert gpus_of(create_flotilla(members, nodes(4), settings)) == {"short": 1, "long": 3}
    assert gpus_of(create_flotilla(members, nodes(4), ANYWHERE)) == {"short": 2, "long": 2}


def test_lower_reference_uses_fewer_gpus() -> None:
    members = [member("a", 100, loss=0), *(member(f"b{n}", 50, loss=0) for n in range(3))]
    assert len(gpus_of(create_flotilla(members, nodes(4), ANYWHERE))) == 2
    assert len(gpus_of(create_flotilla(members, nodes(4), ANYWHERE, 0.5))) == 4


def test_spread_is_that_of_the_chosen_members() -> None:
    flotilla = create_flotilla([member("a", 100), member("b", 80)], nodes(2), ANYWHERE)
    assert flotilla is not None
    assert flotilla.spread == pytest.approx(0.2)
    assert (flotilla.reference, flotilla.gpus) == (100, 2)


def test_slowest_member_against_an_exhaustive_search() -> None:
    source = random.Random(7)  # noqa: S311 - repeatable
    gaps = []
    for _ in range(150):
        members = random_members(source, source.randint(1, 3))
        gpus = source.randint(3, 7)
        flotilla = create_flotilla(members, nodes(gpus), ANYWHERE)
        assert flotilla is not None
        chosen = [each for each in members if each.name in gpus_of(flotilla)]
        lowest = min(each.rate or 0 for each in flotilla.members)
        gaps.append(1 - lowest / highest_pace(chosen, gpus))
    assert max(gaps) < 0.45
    assert sum(gap < 1e-9 for gap in gaps) > 0.75 * len(gaps)

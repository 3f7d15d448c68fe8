"""Synergy-Opt on several kinds of GPUs."""

from collections.abc import Callable

import pytest

from allocations import matrix
from gputopo.sizing.heterogeneous import MixedAsk, heterogeneous
from gputopo.sizing.model import Server

OLD = [Server("old1", 4, 12, 240), Server("old2", 4, 12, 240)]
NEW = [Server("new1", 2, 12, 200)]
KINDS = {"old": OLD, "new": NEW}


def job(name: str, gpus: int, fair: float, **speeds: float) -> MixedAsk:
    """Return a job with one speed on each kind, for 1 CPU and 10 GB a GPU."""
    return MixedAsk(
        name,
        {kind: matrix(gpus, [gpus], [10 * gpus], [speed]) for kind, speed in speeds.items()},
        fair,
    )


def kinds_of(asks: list[MixedAsk]) -> dict[str, str]:
    grants = heterogeneous(KINDS, asks).grants
    return {
        grant.job: ",".join(sorted({part.server[:3] for part in grant.parts})) for grant in grants
    }


def test_the_new_gpus_go_to_whom_they_help_most() -> None:
    asks = [job("little", 2, 1, old=1, new=1.5), job("much", 2, 1, old=1, new=4)]
    assert kinds_of(asks) == {"little": "old", "much": "new"}


def test_nobody_goes_where_the_fair_throughput_is_not_to_be_had() -> None:
    asks = [job("a", 2, 2, old=1, new=2), job("b", 2, 2, old=1, new=9)]
    outcome = heterogeneous(KINDS, asks)
    assert [grant.job for grant in outcome.grants] == ["b"]
    assert outcome.waiting == ("a",)


def test_no_job_is_split_over_kinds_and_who_comes_next_uses_what_that_leaves() -> None:
    """Eight old GPUs and two new: six leave two of each, which are no three."""
    asks = [job(name, gpus, 1, old=1, new=1) for name, gpus in (("a", 6), ("b", 3), ("c", 2))]
    outcome = heterogeneous(KINDS, asks)
    assert [grant.job for grant in outcome.grants] == ["a", "c"]
    assert outcome.waiting == ("b",)


def test_as_many_gpus_as_can_be_are_used_whatever_that_costs_others() -> None:
    """Seven that go nine times as fast with 3.4 CPUs leave none of 24 to the eighth."""
    kinds = {"old": [Server("old1", 8, 24, 240)]}
    hungry = [MixedAsk(f"j{n}", {"old": matrix(1, [2, 3.4], [10], [1], [9])}, 1) for n in range(7)]
    outcome = heterogeneous(
        kinds, [*hungry, MixedAsk("last", {"old": matrix(1, [3], [10], [1])}, 1)]
    )
    assert not outcome.waiting
    assert sum(grant.throughput for grant in outcome.grants) == 5 * 9 + 2 + 1


def test_each_kind_gives_no_more_than_it_has() -> None:
    hungry = [
        MixedAsk(
            f"j{n}",
            {
                "old": matrix(1, [1, 6], [10], [1], [3]),
                "new": matrix(1, [1, 9], [10], [2], [5]),
            },
            1,
        )
        for n in range(10)
    ]
    outcome = heterogeneous(KINDS, hungry)
    assert len(outcome.grants) == 10
    for server in (*OLD, *NEW):
        parts = [part for grant in outcome.grants for part in grant.parts]
        here = [part for part in parts if part.server == server.name]
        assert sum(part.gpus for part in here) <= server.gpus
        assert sum(part.cpus for part in here) <= server.cpus
    assert all(grant.throughput >= 1 for grant in outcome.grants)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: MixedAsk("j", {}, 1), r"job j: matrices: of \[\] GPUs"),
        (
            lambda: MixedAsk(
                "j", {"a": matrix(1, [1], [1], [1]), "b": matrix(2, [1], [1], [1])}, 1
            ),
            r"job j: matrices: of \[1, 2\] GPUs, not of one number",
        ),
        (lambda: job("j", 1, 0, old=1), "job j: fair_throughput: 0 is not a positive number"),
        (
            lambda: heterogeneous(KINDS, [job("j", 1, 1, old=1)] * 2),
            "job j: there are two of that name",
        ),
        (lambda: heterogeneous({"old": []}, []), "servers: none"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(build: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        build()


def test_a_kind_without_servers_is_no_home() -> None:
    outcome = heterogeneous({"old": OLD, "gone": []}, [job("j", 1, 1, gone=9)])
    assert outcome.waiting == ("j",)

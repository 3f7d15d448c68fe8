"""When a sharing ends: every check of the stated time must show that it does not pay."""

from gputopo.sharing.judge import SharingVerdict
from gputopo_operator.decision.sharing import SharingKey, due

GPU: SharingKey = ("GPU-0", "first", "last")
OTHER: SharingKey = ("GPU-1", "one", "two")
END, KEEP = SharingVerdict.END, SharingVerdict.KEEP


def test_time_begins_with_the_first_check_that_shows_no_gain() -> None:
    assert due({}, {GPU: END}, 100.0, 60.0) == ({GPU: 100.0}, set())
    assert due({GPU: 100.0}, {GPU: END}, 159.0, 60.0) == ({GPU: 100.0}, set())


def test_sharing_ends_after_the_time_and_stays_due_until_its_pods_change() -> None:
    assert due({GPU: 100.0}, {GPU: END}, 160.0, 60.0) == ({GPU: 100.0}, {GPU})
    assert due({GPU: 100.0}, {GPU: END}, 165.0, 60.0) == ({GPU: 100.0}, {GPU})


def test_check_with_gain_begins_the_time_again() -> None:
    assert due({GPU: 100.0}, {GPU: KEEP}, 159.0, 60.0) == ({}, set())
    assert due({}, {GPU: END}, 160.0, 60.0) == ({GPU: 160.0}, set())


def test_sharings_are_independent_and_one_that_has_ended_is_forgotten() -> None:
    gone: SharingKey = ("GPU-0", "first", "former")
    bad = {gone: 0.0, GPU: 100.0, OTHER: 120.0}
    found = due(bad, {GPU: END, OTHER: END}, 160.0, 60.0)
    assert found == ({GPU: 100.0, OTHER: 120.0}, {GPU})

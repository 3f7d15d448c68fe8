"""The annotations of a pod that waits for a better placement."""

import pytest

from gputopo.api.annotations import AnnotationError
from gputopo.api.names import POSTPONED_ANNOTATION
from gputopo.api.v1alpha1 import PlacementSpec
from gputopo.api.waiting import (
    MAX_WAIT_SECONDS,
    PostponedAnnotation,
    WaitEnd,
    format_max_wait,
    parse_max_wait,
    parse_postponed,
)

RECORD = PostponedAnnotation(
    uid="u",
    value="utility",
    since="2026-01-01T12:00:00Z",
    until="2026-01-01T12:10:00Z",
    minimum_permille=700,
    now_permille=450,
    then_permille=1000,
)


@pytest.mark.parametrize("seconds", [None, 0, 600, MAX_WAIT_SECONDS])
def test_longest_wait_is_written_and_read_again(seconds: int | None) -> None:
    assert parse_max_wait(format_max_wait(seconds)) == seconds
    assert PlacementSpec(max_wait_seconds=seconds).max_wait_seconds == seconds


@pytest.mark.parametrize("text", ["", "-1", "1.5", "604801", "9" * 100, "٣", "10 s"])
def test_wrong_longest_wait_is_rejected_with_its_limits(text: str) -> None:
    with pytest.raises(AnnotationError, match=r"max-wait-seconds: .* from 0 to 604800$"):
        parse_max_wait({"gputopo.io/max-wait-seconds": text})


def test_record_is_written_and_read_again() -> None:
    ended = RECORD.ended(WaitEnd(seconds=37, permille=910, expired=False))
    for record in (RECORD, ended):
        assert parse_postponed({POSTPONED_ANNOTATION: record.dump()}, "u") == record


@pytest.mark.parametrize(
    "text", ["{}", "x", RECORD.dump().replace("2026-01-01T12:10", "2026-13-01T12:10")]
)
def test_record_that_cannot_be_parsed_is_ignored(text: str) -> None:
    assert parse_postponed({POSTPONED_ANNOTATION: text}, "u") is None


def test_record_of_another_pod_is_ignored() -> None:
    assert parse_postponed({POSTPONED_ANNOTATION: RECORD.dump()}, "other") is None
    assert parse_postponed({}, "u") is None


def test_record_is_described_in_words() -> None:
    assert RECORD.wait_text() == (
        "waiting for utility 0.7: 0.45 at first, 1 on idle GPUs; until 2026-01-01T12:10:00Z at most"
    )
    assert RECORD.end_text() == ""
    placed = RECORD.ended(WaitEnd(seconds=37, permille=910, expired=False))
    assert placed.end_text() == "waited 37 s for utility 0.7: got 0.91 instead of 0.45"
    expired = RECORD.ended(WaitEnd(seconds=600, permille=450, expired=True))
    assert expired.end_text() == (
        "waited 600 s for utility 0.7: got 0.45 instead of 0.45; the longest wait is over"
    )

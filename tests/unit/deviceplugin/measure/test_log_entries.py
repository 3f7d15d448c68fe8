from datetime import UTC, datetime

import pytest

from gputopo_deviceplugin.measure.log_entries import LogEntryParser, StepEntry

START = datetime(2026, 1, 1, tzinfo=UTC).timestamp()


def entry(text: str, *, second: int = 0, tag: str = "F") -> bytes:
    return f"2026-01-01T00:00:{second:02}.123456789Z stdout {tag} {text}\n".encode()


def parse(*pieces: bytes) -> list[StepEntry]:
    parser = LogEntryParser()
    return [found for piece in pieces for found in parser.feed(piece)]


def test_a_count_has_the_time_of_its_entry() -> None:
    [found] = parse(entry("epoch 3: gputopo-steps 1200, loss 0.25", second=7))
    assert found.steps == 1200
    assert found.seconds == pytest.approx(START + 7.123456)


def test_entries_may_arrive_in_any_pieces() -> None:
    data = entry("gputopo-steps 1") + entry("loading") + entry("gputopo-steps 2", second=1)
    pieces = [data[at : at + 7] for at in range(0, len(data), 7)]
    assert [found.steps for found in parse(*pieces)] == [1, 2]
    assert parse(*pieces) == parse(data)


def test_an_entry_without_its_end_is_not_parsed_yet() -> None:
    assert parse(entry("gputopo-steps 12")[:-1]) == []


def test_after_a_gap_the_rest_of_an_entry_is_ignored() -> None:
    parser = LogEntryParser()
    list(parser.feed(entry("gputopo-steps 1")[:-1]))
    parser.skip()
    counts = parser.feed(entry("gputopo-steps 2") + entry("gputopo-steps 3"))
    assert [found.steps for found in counts] == [3]


def test_only_the_begin_of_a_long_line_counts() -> None:
    counts = parse(
        entry("x", tag="P"),
        entry("gputopo-steps 1", tag="P"),
        entry("gputopo-steps 2"),
        entry("gputopo-steps 3"),
    )
    assert [found.steps for found in counts] == [3]


def test_a_line_of_ten_megabytes_needs_no_memory() -> None:
    parser = LogEntryParser()
    for _ in range(160):
        assert list(parser.feed(b"y" * 65_536)) == []
    assert len(parser._entry) == 2048
    assert [found.steps for found in parser.feed(b"\n" + entry("gputopo-steps 5"))] == [5]


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"gputopo-steps 5\n",
        b"yesterday stdout F gputopo-steps 5\n",
        b"\xff stdout F gputopo-steps 5\n",
        b"2026-01-01T00:00:00Z stdout F gputopo-steps five\n",
        b"2026-01-01T00:00:00Z stdout\n",
    ],
)
def test_other_text_has_no_count(line: bytes) -> None:
    assert parse(line) == []

"""Datagrams, log lines and Prometheus endpoints: valid ones are parsed, all others rejected."""

import json
import math
from typing import Any

import pytest

from gputopo.throughput.exposition import MAX_EXPOSITION_BYTES, StepMetricError, parse_metric
from gputopo.throughput.message import (
    MAX_COUNT,
    MAX_DATAGRAM_BYTES,
    MAX_LINE_BYTES,
    StepMessage,
    StepMessageError,
    parse_log_line,
    parse_message,
)

VALID: dict[str, Any] = {"v": 1, "run": "r-1_A", "steps": 1234, "seconds": 57.25}


def datagram(**changed: Any) -> bytes:
    return json.dumps(VALID | changed).encode()


def test_message_has_run_steps_seconds_and_samples() -> None:
    assert parse_message(datagram(samples=315904)) == StepMessage("r-1_A", 1234, 57.25, 315904)


def test_samples_are_optional_and_unknown_fields_are_ignored() -> None:
    expected = StepMessage("r-1_A", 1234, 57.25)
    assert parse_message(datagram()) == expected
    assert parse_message(datagram(samples=None, loss=[0.25])) == expected


INVALID: dict[str, list[Any]] = {
    "v": [2, 0, True, 1.0, "1", None],
    "run": ["", "a" * 33, "a b", "ä", "a\n", 7, None],
    "steps": [-1, 1.0, "1", True, None, MAX_COUNT + 1, 10**400],
    "samples": [-1, 1.5, False, [], math.nan],
    "seconds": [-0.5, "1", True, None, 1e11, 10**400, math.nan, math.inf, -math.inf],
}


@pytest.mark.parametrize(
    ("field", "value"), [(field, value) for field, values in INVALID.items() for value in values]
)
def test_invalid_value_is_rejected_with_its_field(field: str, value: Any) -> None:
    with pytest.raises(StepMessageError, match=rf"^{field}: ") as raised:
        parse_message(datagram(**{field: value}))
    assert len(str(raised.value)) < 200


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xff\xfe",
        b"steps 7",
        b"[1]",
        b"7",
        b"null",
        datagram()[:-1],
        b"[" * MAX_DATAGRAM_BYTES,
        b'{"v":' * 100,
        datagram(pad="x" * MAX_DATAGRAM_BYTES),
    ],
)
def test_bytes_that_are_no_json_object_are_rejected(raw: bytes) -> None:
    with pytest.raises(StepMessageError, match=r"^message: ") as raised:
        parse_message(raw)
    assert len(str(raised.value)) < 200


def test_message_of_the_maximum_size_is_accepted() -> None:
    pad = MAX_DATAGRAM_BYTES - len(datagram(pad=""))
    assert parse_message(datagram(pad="x" * pad)).steps == 1234


def test_seconds_may_be_an_integer() -> None:
    assert parse_message(datagram(seconds=57)).seconds == 57.0


@pytest.mark.parametrize(
    ("line", "steps"),
    [
        (b"gputopo-steps 1200", 1200),
        (b"epoch 3: gputopo-steps 1200, loss 0.25\n", 1200),
        (b"gputopo-steps x gputopo-steps 7", 7),
        (b"gputopo-steps 12.", 12),
        (b"gputopo-steps 0", 0),
        (b"\xff\x00 gputopo-steps 5", 5),
        (b"", None),
        (b"gputopo-steps", None),
        (b"gputopo-steps 12.5", None),
        (b"gputopo-steps 12e3", None),
        (b"gputopo-steps -12", None),
        (b"no-gputopo-steps 12", None),
        (b"gputopo-steps \xd9\xa3", None),
        (b"gputopo-steps " + b"9" * 16, None),
        (b"gputopo-steps " + b"1" * 17, None),
    ],
)
def test_steps_of_a_log_line(line: bytes, steps: int | None) -> None:
    assert parse_log_line(line) == steps


def test_colours_of_a_terminal_do_not_hide_the_steps() -> None:
    assert parse_log_line(b"\x1b[32mINFO\x1b[0m \x1b[1;32mgputopo-steps 5\x1b[0m") == 5
    assert parse_log_line(b"\x1b[32mmy-gputopo-steps 5") is None


def test_number_that_is_cut_at_the_end_of_the_parsed_part_is_ignored() -> None:
    begin = b"gputopo-steps 12".rjust(MAX_LINE_BYTES)
    assert parse_log_line(begin) == 12
    assert parse_log_line(begin + b"34") is None
    assert parse_log_line(begin[1:] + b" and ten million more") == 12


def test_line_of_10_mb_is_parsed_by_its_beginning() -> None:
    assert parse_log_line(b"gputopo-steps 1" * 700_000) is None
    assert parse_log_line(b"gputopo-steps 1 " * 700_000) == 1


EXPOSITION = b"""\
# HELP training_steps_total Steps, for instance training_steps_total 999.
# TYPE training_steps_total counter
training_steps_total_created 5
training_steps_total{rank="0",host="a } \\" b"} 1200 1700000000
training_steps_total{rank="1"} 1.199e+03
training_steps 17
\tother 3
empty{} 4
tight{a="b"}4
tabbed\t 8.9 # {trace="x"} 1
"""


@pytest.mark.parametrize(
    ("name", "steps"),
    [("training_steps_total", 1200), ("training_steps", 17), ("empty", 4), ("tight", 4)],
)
def test_metric_is_the_maximum_over_its_label_sets(name: str, steps: int) -> None:
    assert parse_metric(EXPOSITION, name) == steps


def test_fraction_of_a_step_is_dropped() -> None:
    assert parse_metric(EXPOSITION, "tabbed") == 8


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"stepsx 1",
        b" steps 1",
        b"# steps 1",
        b"steps",
        b"steps{ 1",
        b'steps{a="b} 1',
        b'steps{a="b\n"} 1',
        b"steps{" + b'"' * 1_000_000,
        b'steps{a="' + b"\\" * 1_000_000,
        b"steps{" * 170_000,
        b"\n" * MAX_EXPOSITION_BYTES,
    ],
)
def test_metric_that_is_absent_or_malformed_is_not_found(text: bytes) -> None:
    with pytest.raises(StepMetricError, match="metric steps: not found"):
        parse_metric(text, "steps")


@pytest.mark.parametrize(
    "value",
    [
        b"NaN",
        b"+Inf",
        b"-Inf",
        b"-1",
        b"1e400",
        b"9007199254740993",
        b"x",
        b"9" * 1_000_000,
        b"\xff",
    ],
)
def test_value_that_is_no_count_is_rejected(value: bytes) -> None:
    with pytest.raises(StepMetricError, match=r"metric steps: b'.*; must be a number") as raised:
        parse_metric(b'steps{rank="0"} 5\nsteps{rank="1"} ' + value, "steps")
    assert len(str(raised.value)) < 200


def test_text_that_is_too_large_is_rejected() -> None:
    with pytest.raises(StepMetricError, match="at most 1048576 are allowed"):
        parse_metric(b"steps 1\n".ljust(MAX_EXPOSITION_BYTES + 1), "steps")


def test_metric_with_too_many_label_sets_is_rejected() -> None:
    assert parse_metric(b"a 1\n" * 1024, "a") == 1
    with pytest.raises(StepMetricError, match="metric a: more than 1024 label sets"):
        parse_metric(b"a 1\n" * 1025, "a")


def test_name_is_not_a_pattern() -> None:
    with pytest.raises(StepMetricError, match="not found"):
        parse_metric(EXPOSITION, ".*")

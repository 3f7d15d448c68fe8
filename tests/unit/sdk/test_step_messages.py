"""The bytes of a message."""

import json
import re

import numpy as np
import pytest

from gputopo_steps.message import MAX_COUNT, as_count, encode, new_run


def test_message_has_the_documented_fields() -> None:
    message = json.loads(encode("6fd0c3a7", 1234, 57.25, 315904))
    assert message == {
        "v": 1,
        "run": "6fd0c3a7",
        "steps": 1234,
        "seconds": 57.25,
        "samples": 315904,
    }


def test_samples_are_optional() -> None:
    assert encode("a", 1, 0.5, None) == b'{"v":1,"run":"a","steps":1,"seconds":0.500000}'


def test_longest_message_has_at_most_150_bytes() -> None:
    century = 100 * 366 * 86400
    assert len(encode(new_run(), MAX_COUNT, century, MAX_COUNT)) <= 150


def test_names_of_runs_are_valid_and_different() -> None:
    first, second = new_run(), new_run()
    assert first != second
    assert re.fullmatch("[A-Za-z0-9_-]{1,32}", first)


@pytest.mark.parametrize("value", [0, 5, MAX_COUNT, np.int64(5), np.uint8(5)])
def test_integers_are_counts(value: int) -> None:
    assert as_count(value) == value
    assert type(as_count(value)) is int


class Tensor:
    """Converting it to an integer would wait for the GPU."""

    def __index__(self) -> int:
        raise AssertionError


@pytest.mark.parametrize("value", [None, -1, MAX_COUNT + 1, 1.0, np.float32(1), "1", Tensor()])
def test_other_values_are_no_counts(value: object) -> None:
    assert as_count(value) is None

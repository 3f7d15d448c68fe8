"""Quantities of memory in the notation of Kubernetes."""

import pytest

from gputopo.api.quantity import format_bytes, parse_bytes
from gputopo.errors import InvalidInputError


@pytest.mark.parametrize(
    ("text", "count"),
    [("0", 0), ("17", 17), ("32Gi", 2**35), ("1Ti", 2**40), ("40G", 40 * 10**9), ("3k", 3000)],
)
def test_whole_numbers_with_a_suffix_are_bytes(text: str, count: int) -> None:
    assert parse_bytes(text, "memory") == count


@pytest.mark.parametrize("text", ["", "Gi", "1.5Gi", "-1", "1e3", "12 Gi", "1gi", "1Gi\n", "٣Gi"])
def test_another_text_is_rejected_with_its_value(text: str) -> None:
    with pytest.raises(InvalidInputError, match=r"dataset\.size: ") as rejected:
        parse_bytes(text, "dataset.size")
    assert repr(text) in str(rejected.value)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (1, "1"),
        (1024, "1Ki"),
        (2**35, "32Gi"),
        (2**35 + 1, "34359738369"),
        (2**40, "1Ti"),
    ],
)
def test_bytes_are_written_shortest_and_exact(count: int, text: str) -> None:
    assert format_bytes(count) == text

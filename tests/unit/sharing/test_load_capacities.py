"""The load capacities of GPU models, as an administrator writes them."""

import pytest

from gputopo.sharing.capacities import parse_capacities
from gputopo.sharing.loadlaw import LoadCapacity
from gputopo.sharing.model import SharingError


def test_each_gpu_model_has_a_capacity() -> None:
    found = parse_capacities("NVIDIA A100-SXM4-80GB=50, Tesla V100-SXM2-16GB = 120")
    assert found == {
        "NVIDIA A100-SXM4-80GB": LoadCapacity(0.5),
        "Tesla V100-SXM2-16GB": LoadCapacity(1.2),
    }
    assert parse_capacities("") == {}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("A100=50,", "''"),
        ("A100", "'A100'"),
        ("=50", "'=50'"),
        ("A100=0", "'A100=0'"),
        ("A100=201", "'A100=201'"),
        ("A100=0.5", "'A100=0.5'"),
        ("A100=½", "'A100=½'"),
        ("A100=50,A100=60", "'A100' occurs twice"),
    ],
)
def test_wrong_entry_is_rejected_by_name(text: str, named: str) -> None:
    with pytest.raises(SharingError, match="load capacity: ") as error:
        parse_capacities(text)
    assert named in str(error.value)

"""A resize keeps the QoS class of the pod."""

import pytest

from gputopo.api.tuning import Amounts
from gputopo.tuning.model import ContainerAmounts
from gputopo.tuning.pods import amounts_of
from gputopo.tuning.qos import has_own_limit, resized_spec
from support.tuning.nodes import GIB, tuned


def container(milli_cpu: int, limit: int | None, memory: int, most: int | None) -> ContainerAmounts:
    return ContainerAmounts(
        Amounts(milli_cpu, memory * GIB), limit, None if most is None else most * GIB
    )


@pytest.mark.parametrize(
    ("before", "amounts", "after"),
    [
        (container(2000, 2000, 8, 8), (4000, 16), container(4000, 4000, 16, 16)),
        (container(2000, 8000, 8, 8), (4000, 16), container(3999, 4000, 16, 16)),
        (container(3999, 4000, 16, 16), (2000, 16), container(1999, 2000, 16, 16)),
        (container(2000, 2000, 8, 10), (4000, 16), container(4000, 4000, 16, 18)),
        (container(2000, 8000, 8, 10), (4000, 8), container(3999, 4000, 8, 10)),
        (container(2000, 2000, 8, None), (4000, 8), container(4000, 4000, 8, None)),
    ],
)
def test_each_resource_keeps_whether_its_request_equals_its_limit(
    before: ContainerAmounts, amounts: tuple[int, int], after: ContainerAmounts
) -> None:
    wanted = Amounts(amounts[0], amounts[1] * GIB)
    assert resized_spec(before, wanted) == after
    assert amounts_of(tuned("a", spec=after)) == wanted


@pytest.mark.parametrize(
    ("limit", "own"), [(2000, True), (2001, True), (2002, False), (1999, False), (None, False)]
)
def test_limit_of_a_resize_is_at_most_1m_above_the_request(limit: int | None, own: bool) -> None:  # noqa: FBT001
    assert has_own_limit(container(2000, limit, 8, 8)) is own

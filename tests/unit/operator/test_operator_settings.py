"""Flags and environment variables of the operator."""

import pytest

from gputopo.queueing.model import QueueOrder, QueueRules
from gputopo.runtime.settings import SettingsError
from gputopo_operator.settings import OperatorSettings


@pytest.mark.parametrize(
    ("names", "expected"),
    [("", ()), ("a", ("a",)), ("a, b,", ("a", "b"))],
)
def test_namespaces_are_separated_by_commas(names: str, expected: tuple[str, ...]) -> None:
    assert OperatorSettings.load(["--namespaces", names], {}).namespace_names == expected


@pytest.mark.parametrize("workers", ["0", "65", "two"])
def test_number_of_workers_is_1_to_64(workers: str) -> None:
    with pytest.raises(
        SettingsError, match=rf"--workers \(GPUTOPO_OPERATOR_WORKERS\): '{workers}'"
    ):
        OperatorSettings.load([], {"GPUTOPO_OPERATOR_WORKERS": workers})


def test_queue_has_rules_if_an_order_is_set() -> None:
    assert OperatorSettings.load([], {}).queue_order == ""
    found = OperatorSettings.load(["--queue-order", "LAS", "--queue-max-skip-seconds", "60"], {})
    assert found.queue_rules == QueueRules(QueueOrder.LAS, 60)


@pytest.mark.parametrize("order", QueueOrder)
def test_every_order_is_a_setting(order: QueueOrder) -> None:
    rules = OperatorSettings.load(["--queue-order", order], {}).queue_rules
    assert rules == QueueRules(order, 3600)


def test_unknown_order_is_rejected() -> None:
    with pytest.raises(SettingsError, match=r"--queue-order .*'fifo'"):
        OperatorSettings.load(["--queue-order", "fifo"], {})

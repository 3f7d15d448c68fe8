"""Flags and environment variables of the operator."""

import pytest

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

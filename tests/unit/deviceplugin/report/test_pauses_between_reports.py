"""The agent reports more often while other parts wait for its report."""

import pytest

from gputopo_deviceplugin.report.reporter import pause_seconds


@pytest.mark.parametrize(
    ("usual", "stable", "admitted", "expected"),
    [
        (5.0, True, True, 5.0),
        (5.0, True, False, 0.5),
        (0.1, True, False, 0.1),
        (5.0, False, True, 0.2),
    ],
)
def test_pause_is_short_after_kubelets_start_and_while_it_admits_a_pod(
    usual: float, *, stable: bool, admitted: bool, expected: float
) -> None:
    assert pause_seconds(usual, stable=stable, admitted=admitted) == expected

"""Flags, environment and what is wrong with them."""

import pytest

from gputopo_operator.settings import Settings, SettingsError


def test_flag_wins_over_environment_over_default() -> None:
    environment = {"GPUTOPO_OPERATOR_WORKERS": "7", "GPUTOPO_OPERATOR_METRICS_PORT": "9000"}
    settings = Settings.load(["--workers", "2"], environment)
    assert (settings.workers, settings.metrics_port, settings.health_port) == (2, 9000, 8891)


@pytest.mark.parametrize(
    ("names", "expected"),
    [("", ()), ("a", ("a",)), ("a, b,", ("a", "b"))],
)
def test_namespaces_are_separated_by_commas(names: str, expected: tuple[str, ...]) -> None:
    assert Settings.load(["--namespaces", names], {}).namespace_names == expected


def test_wrong_value_is_named_with_flag_and_variable() -> None:
    with pytest.raises(SettingsError, match=r"--workers \(GPUTOPO_OPERATOR_WORKERS\): '0'"):
        Settings.load([], {"GPUTOPO_OPERATOR_WORKERS": "0"})


def test_unknown_flag_ends_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        Settings.load(["--worker", "2"], {})
    assert "--worker" in capsys.readouterr().err


def test_variables_that_kubernetes_sets_for_a_service_do_no_harm() -> None:
    environment = {"GPUTOPO_OPERATOR_PORT": "tcp://10.0.0.1:8892"}
    assert Settings.load([], environment) == Settings()

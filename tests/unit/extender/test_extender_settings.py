"""Flags and environment of the extender."""

import pytest

from gputopo.api.enums import PolicyName
from gputopo_extender.settings import Settings, SettingsError


def test_defaults_listen_on_loopback_for_verbs_and_everywhere_for_probes() -> None:
    settings = Settings.load([], {"PATH": "/bin"})
    assert (settings.verbs_host, settings.verbs_port) == ("127.0.0.1", 8888)
    assert (settings.probes_host, settings.probes_port) == ("0.0.0.0", 8889)  # noqa: S104
    assert settings.default_policy is PolicyName.PRESERVE


def test_a_flag_wins_over_the_environment() -> None:
    environment = {"GPUTOPO_EXTENDER_VERBS_PORT": "1", "GPUTOPO_EXTENDER_LOG_LEVEL": "debug"}
    settings = Settings.load(["--verbs-port", "2"], environment)
    assert (settings.verbs_port, settings.log_level) == (2, "debug")


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"GPUTOPO_EXTENDER_VERB_PORT": "1"}, "GPUTOPO_EXTENDER_VERB_PORT: there is no such"),
        ({"GPUTOPO_EXTENDER_VERBS_PORT": "70000"}, "--verbs-port .*'70000'"),
        ({"GPUTOPO_EXTENDER_DEFAULT_POLICY": "best"}, "--default-policy .*'best'.*'Preserve'"),
        ({"GPUTOPO_EXTENDER_API_TIMEOUT_SECONDS": "inf"}, "--api-timeout-seconds .*'inf'"),
        ({"GPUTOPO_EXTENDER_STALE_AFTER_SECONDS": "-1"}, "--stale-after-seconds .*'-1'"),
    ],
)
def test_a_wrong_setting_is_named_with_its_value(environment: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        Settings.load([], environment)


def test_an_unknown_flag_ends_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        Settings.load(["--verb-port", "1"], {})
    assert "--verb-port" in capsys.readouterr().err


def test_what_kubernetes_sets_beside_a_service_of_our_name_is_no_setting() -> None:
    links = {
        "GPUTOPO_EXTENDER_SERVICE_HOST": "10.96.0.7",
        "GPUTOPO_EXTENDER_SERVICE_PORT": "8889",
        "GPUTOPO_EXTENDER_SERVICE_PORT_METRICS": "8889",
        "GPUTOPO_EXTENDER_PORT": "tcp://10.96.0.7:8889",
        "GPUTOPO_EXTENDER_PORT_8889_TCP": "tcp://10.96.0.7:8889",
        "GPUTOPO_EXTENDER_PORT_8889_TCP_ADDR": "10.96.0.7",
    }
    assert Settings.load([], links) == Settings()

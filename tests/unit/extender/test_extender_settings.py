"""Flags and environment of the extender."""

import pytest

from gputopo.placement.model import PolicyName
from gputopo.runtime.settings import SettingsError
from gputopo_extender.settings import ExtenderSettings


def test_defaults_listen_on_loopback_for_verbs_and_everywhere_for_probes() -> None:
    settings = ExtenderSettings.load([], {})
    assert (settings.verbs_host, settings.verbs_port) == ("127.0.0.1", 8888)
    assert (settings.probes_host, settings.probes_port) == ("", 8889)


def test_default_policy_is_preserve_and_an_unknown_one_is_rejected() -> None:
    assert ExtenderSettings.load([], {}).default_policy is PolicyName.PRESERVE
    with pytest.raises(SettingsError, match=r"--default-policy .*'best'.*'TopoAware'.*'Preserve'"):
        ExtenderSettings.load([], {"GPUTOPO_EXTENDER_DEFAULT_POLICY": "best"})


@pytest.mark.parametrize("policy", list(PolicyName))
def test_every_policy_can_be_the_default(policy: PolicyName) -> None:
    assert ExtenderSettings.load([f"--default-policy={policy}"], {}).default_policy is policy


def test_nominations_are_off_and_a_wrong_number_is_rejected() -> None:
    settings = ExtenderSettings.load([], {})
    assert (settings.nominate_above, settings.scheduler_name) == (0, "gputopo")
    assert ExtenderSettings.load(["--nominate-above=50"], {}).nominate_above == 50
    for text in ("-1", "many"):
        with pytest.raises(SettingsError, match=rf"--nominate-above .*{text}"):
            ExtenderSettings.load([f"--nominate-above={text}"], {})


def test_weights_of_the_policy_utility_are_about_a_third_each() -> None:
    assert ExtenderSettings.load([], {}).weights.percents == (34, 33, 33)
    set_ = ExtenderSettings.load(["--utility-weights=50,40,10"], {})
    assert set_.weights.percents == (50, 40, 10)


@pytest.mark.parametrize(
    ("text", "problem"),
    [("50,50", "is not written as 34,33,33"), ("50,40,20", "their sum is 1.1; must be 1")],
)
def test_wrong_weights_are_rejected(text: str, problem: str) -> None:
    with pytest.raises(SettingsError, match=r"--utility-weights .*") as rejected:
        ExtenderSettings.load([f"--utility-weights={text}"], {})
    assert problem in str(rejected.value)

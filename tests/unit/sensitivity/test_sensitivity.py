"""Decision whether a job is sensitive."""

import pytest

from gputopo.sensitivity.resolve import ResolvedSensitivity, Sensitivity, resolve_sensitivity


@pytest.mark.parametrize("gpus", [1, 4])
@pytest.mark.parametrize("profile_percent", [None, 0, 100])
def test_the_declaration_has_priority(gpus: int, profile_percent: int | None) -> None:
    yes = resolve_sensitivity(Sensitivity.SENSITIVE, gpus=gpus, profile_percent=profile_percent)
    no = resolve_sensitivity(Sensitivity.INSENSITIVE, gpus=gpus, profile_percent=profile_percent)
    assert (yes, no) == (
        ResolvedSensitivity(True, "Declared"),
        ResolvedSensitivity(False, "Declared"),
    )


@pytest.mark.parametrize(
    ("percent", "sensitive"), [(0, False), (9, False), (10, True), (100, True)]
)
def test_a_profile_of_at_least_ten_percent_is_sensitive(percent: int, *, sensitive: bool) -> None:
    resolved = resolve_sensitivity(Sensitivity.AUTO, gpus=2, profile_percent=percent)
    assert resolved == ResolvedSensitivity(sensitive, "Profile")


def test_an_unknown_job_of_several_gpus_counts_as_sensitive() -> None:
    assert resolve_sensitivity(Sensitivity.AUTO, gpus=2) == ResolvedSensitivity(
        True, "SensitivityUnknown"
    )


def test_a_single_gpu_is_insensitive() -> None:
    assert resolve_sensitivity(Sensitivity.AUTO, gpus=1) == ResolvedSensitivity(False, "SingleGpu")

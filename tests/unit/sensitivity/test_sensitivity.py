"""Decision whether a job is sensitive."""

import pytest

from gputopo.sensitivity.resolve import ResolvedSensitivity, Sensitivity, resolve_sensitivity


@pytest.mark.parametrize("gpus", [1, 4])
@pytest.mark.parametrize("known", [None, (0, 0), (100, 100)])
def test_the_declaration_has_priority(gpus: int, known: tuple[int, int] | None) -> None:
    yes = resolve_sensitivity(Sensitivity.SENSITIVE, gpus=gpus, percent_range=known)
    no = resolve_sensitivity(Sensitivity.INSENSITIVE, gpus=gpus, percent_range=known)
    assert (yes, no) == (
        ResolvedSensitivity(True, "Declared"),
        ResolvedSensitivity(False, "Declared"),
    )


@pytest.mark.parametrize(
    ("low", "high", "sensitive"),
    [(0, 0, False), (-3, 9, False), (10, 10, True), (100, 140, True)],
)
def test_a_profile_of_at_least_ten_percent_is_sensitive(
    low: int, high: int, *, sensitive: bool
) -> None:
    resolved = resolve_sensitivity(Sensitivity.AUTO, gpus=2, percent_range=(low, high))
    assert resolved == ResolvedSensitivity(sensitive, "Profile")


@pytest.mark.parametrize(("gpus", "reason"), [(1, "SingleGpu"), (2, "SensitivityUnknown")])
def test_an_interval_around_ten_percent_decides_nothing(gpus: int, reason: str) -> None:
    resolved = resolve_sensitivity(Sensitivity.AUTO, gpus=gpus, percent_range=(4, 25))
    assert resolved == ResolvedSensitivity(gpus > 1, reason)


def test_an_unknown_job_of_several_gpus_counts_as_sensitive() -> None:
    assert resolve_sensitivity(Sensitivity.AUTO, gpus=2) == ResolvedSensitivity(
        True, "SensitivityUnknown"
    )


def test_a_single_gpu_is_insensitive() -> None:
    assert resolve_sensitivity(Sensitivity.AUTO, gpus=1) == ResolvedSensitivity(False, "SingleGpu")

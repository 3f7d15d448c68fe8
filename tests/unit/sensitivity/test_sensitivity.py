"""What makes a job sensitive."""

import pytest

from gputopo.sensitivity.resolve import Resolved, Sensitivity, resolve


@pytest.mark.parametrize("gpus", [1, 4])
@pytest.mark.parametrize("profile_percent", [None, 0, 100])
def test_the_users_word_wins(gpus: int, profile_percent: int | None) -> None:
    yes = resolve(Sensitivity.SENSITIVE, gpus=gpus, profile_percent=profile_percent)
    no = resolve(Sensitivity.INSENSITIVE, gpus=gpus, profile_percent=profile_percent)
    assert (yes, no) == (Resolved(True, "Declared"), Resolved(False, "Declared"))


@pytest.mark.parametrize(
    ("percent", "sensitive"), [(0, False), (9, False), (10, True), (100, True)]
)
def test_a_profile_speaks_from_ten_percent_on(percent: int, *, sensitive: bool) -> None:
    resolved = resolve(Sensitivity.AUTO, gpus=2, profile_percent=percent)
    assert resolved == Resolved(sensitive, "Profile")


def test_an_unknown_job_of_several_gpus_counts_as_sensitive() -> None:
    assert resolve(Sensitivity.AUTO, gpus=2) == Resolved(True, "SensitivityUnknown")


def test_a_single_gpu_has_no_links_to_be_sensitive_to() -> None:
    assert resolve(Sensitivity.AUTO, gpus=1) == Resolved(False, "SingleGpu")

import pytest

from gputopo.api.resource_names import matches_any


@pytest.mark.parametrize(
    ("resource", "patterns", "expected"),
    [
        ("nvidia.com/gpu", ["nvidia.com/gpu"], True),
        ("nvidia.com/gpu.shared", ["nvidia.com/gpu"], False),
        ("nvidia.com/mig-1g.10gb", ["amd.com/gpu", "nvidia.com/mig-*"], True),
        ("nvidia.com/mig", ["nvidia.com/mig-*"], False),
        ("amd.com/gpu", ["*"], True),
        ("amd.com/gpu", [], False),
    ],
)
def test_a_pattern_matches_names(resource: str, patterns: list[str], expected: bool) -> None:  # noqa: FBT001
    assert matches_any(resource, patterns) is expected

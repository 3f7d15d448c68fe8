import pytest

from gputopo.api.resources import is_named


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
def test_a_pattern_names_resources(resource: str, patterns: list[str], expected: bool) -> None:  # noqa: FBT001
    assert is_named(resource, patterns) is expected

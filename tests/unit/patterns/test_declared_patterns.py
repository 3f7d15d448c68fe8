"""What a user declares of the communication, and which pattern the job gets."""

import pytest

from gputopo.patterns.declared import DeclaredPattern, ResolvedPattern, resolve_pattern
from gputopo.patterns.model import PatternKind


def test_every_pattern_can_be_declared_and_auto_is_the_only_other_value() -> None:
    assert [*DeclaredPattern] == [*PatternKind, "Auto"]


@pytest.mark.parametrize("kind", PatternKind)
def test_declared_pattern_has_priority_over_a_learnt_one(kind: PatternKind) -> None:
    resolved = resolve_pattern(DeclaredPattern(kind.value), PatternKind.STAR)
    assert resolved == ResolvedPattern(kind, "Declared")


def test_auto_is_the_learnt_pattern_or_a_ring() -> None:
    learnt = resolve_pattern(DeclaredPattern.AUTO, PatternKind.STAR)
    assert learnt == ResolvedPattern(PatternKind.STAR, "Profile")
    unknown = resolve_pattern(DeclaredPattern.AUTO)
    assert unknown == ResolvedPattern(PatternKind.RING, "Default")

"""What hardware counters showed, in the annotation ``gputopo.io/facts``."""

import json
from typing import Annotated, Literal

import pytest
from pydantic import Field

from gputopo.api.annotations import JsonAnnotation
from gputopo.api.known_facts import (
    FactsAnnotation,
    KnownPattern,
    KnownSlowdown,
    parse_facts,
    parse_known_facts,
)
from gputopo.api.model import ApiModel, ProfileName
from gputopo.api.names import FACTS_ANNOTATION
from gputopo.api.profile import Percent
from gputopo.api.replay import RecordedFact
from gputopo.patterns.declared import DeclaredPattern
from gputopo.patterns.model import PatternKind
from gputopo.sensitivity.resolve import Sensitivity

LEARNT = KnownPattern(kind="AllToAll", confidence=967, windows=40)
FACTS = FactsAnnotation(
    profile="bert",
    source="Counters",
    links={4: KnownSlowdown.by_counters(4, 3), 8: KnownSlowdown.by_counters(25, 3)},
    patterns={4: LEARNT},
)


class SlowdownOfRelease01(ApiModel):
    """The slowdown in the annotation before gputopo read counters."""

    percent: Percent
    low: Percent
    high: Percent
    samples: Annotated[int, Field(ge=0, le=10**6)] = 0


class FactsOfRelease01(JsonAnnotation):
    """The annotation before gputopo read counters."""

    v: Literal[1] = 1
    profile: ProfileName
    source: str
    links: dict[int, SlowdownOfRelease01] = Field(default_factory=dict, max_length=17)


def test_facts_are_written_and_read_again() -> None:
    assert json.loads(FACTS.dump()) == {
        "v": 1,
        "profile": "bert",
        "source": "Counters",
        "links": {
            "4": {"percent": 4, "low": 0, "high": 4, "samples": 3, "source": "Counters"},
            "8": {"percent": 25, "low": 0, "high": 25, "samples": 3, "source": "Counters"},
        },
        "patterns": {"4": {"kind": "AllToAll", "confidence": 967, "windows": 40}},
    }
    assert parse_facts({FACTS_ANNOTATION: FACTS.dump()}) == FACTS


def test_older_extender_reads_the_annotation_and_decides_the_same() -> None:
    older = FactsOfRelease01.model_validate_json(FACTS.dump())
    assert [(it.low, it.high) for it in older.links.values()] == [(0, 4), (0, 25)]
    assert parse_facts({FACTS_ANNOTATION: older.dump()}) is not None


def test_annotation_of_an_older_operator_has_no_pattern() -> None:
    facts = FactsAnnotation.declared("bert", 45)
    assert "patterns" not in json.loads(facts.dump())
    resolved, fact = facts.resolve_pattern(DeclaredPattern.AUTO, 4)
    assert (resolved.kind, resolved.reason, fact) == (PatternKind.RING, "Default", None)


def test_pattern_of_the_same_number_of_gpus_decides() -> None:
    resolved, fact = FACTS.resolve_pattern(DeclaredPattern.AUTO, 4)
    assert (resolved.kind, resolved.reason) == (PatternKind.ALL_TO_ALL, "Profile")
    assert fact == "GPUProfile bert: AllToAll, seen in 96 % of 40 windows"
    resolved, fact = FACTS.resolve_pattern(DeclaredPattern.AUTO, 8)
    assert (resolved.kind, fact) == (PatternKind.RING, None)


def test_pattern_that_the_pod_declares_has_priority() -> None:
    resolved, fact = FACTS.resolve_pattern(DeclaredPattern.RING, 4)
    assert (resolved.kind, resolved.reason, fact) == (PatternKind.RING, "Declared", None)


@pytest.mark.parametrize("kind", ["Torus", "Custom", "None", "Unknown", "Auto"])
def test_pattern_that_cannot_be_built_is_ignored(kind: str) -> None:
    facts = FACTS.model_copy(update={"patterns": {4: LEARNT.model_copy(update={"kind": kind})}})
    found = parse_known_facts({FACTS_ANNOTATION: facts.dump()})
    assert found is not None
    resolved, fact = found.resolve_pattern(DeclaredPattern.AUTO, 4)
    assert (resolved.kind, resolved.reason, fact) == (PatternKind.RING, "Default", None)


def test_small_upper_bound_makes_a_job_insensitive_and_a_large_one_decides_nothing() -> None:
    resolved, fact = FACTS.resolve(Sensitivity.AUTO, 4)
    assert (resolved.sensitive, resolved.reason) == (False, "Profile")
    assert fact == "GPUProfile bert: at most 4 % slower on the worst links by counters, 3 samples"
    resolved, fact = FACTS.resolve(Sensitivity.AUTO, 8)
    assert (resolved.sensitive, resolved.reason, fact) == (True, "SensitivityUnknown", None)


def test_record_of_a_placement_names_the_counters_as_the_source() -> None:
    recorded = RecordedFact.of(FACTS, 4)
    assert recorded is not None
    assert recorded.source == "Counters"
    assert recorded.slowdown == FACTS.links[4]


def test_longest_texts_fit_into_the_placement_annotation() -> None:
    longest = KnownPattern(kind="RingTree", confidence=1000, windows=2**53 - 1)
    facts = FactsAnnotation(profile="p" * 253, source="x", patterns={2: longest})
    _, fact = facts.resolve_pattern(DeclaredPattern.AUTO, 2)
    assert len(fact or "") < 512


def test_annotation_with_facts_for_every_number_of_gpus_fits_into_the_status() -> None:
    widest = KnownSlowdown.by_counters(100_000, 10**6)
    pattern = KnownPattern(kind="RingTree", confidence=1000, windows=2**53 - 1)
    sizes = range(1, 17)
    facts = FactsAnnotation(
        profile="p" * 253,
        source="Counters",
        links=dict.fromkeys(sizes, widest),
        patterns=dict.fromkeys(sizes, pattern),
    )
    assert len(facts.dump()) <= 4096

"""The record for a replay is bounded, and older components ignore it."""

import json
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from gputopo.api.annotations import AnnotationError, PlacementAnnotation, parse_placement
from gputopo.api.known_facts import FactsAnnotation, KnownSlowdown
from gputopo.api.model import ApiModel
from gputopo.api.names import PLACEMENT_ANNOTATION
from gputopo.api.replay import RecordedFact, parse_replay

RECORD: dict[str, Any] = {
    "fingerprint": "0123456789abcdef0123456789abcdef",
    "size": 2,
    "free": [0, 1, 3],
    "gpus": [3, 0],
    "patternFrom": "Default",
    "policyFrom": "Installation",
    "declared": "Auto",
}
PLACEMENT: dict[str, Any] = {
    "v": 1,
    "policy": "Preserve",
    "pattern": "Ring",
    "sensitive": True,
    "reason": "SensitivityUnknown",
    "aggregateMBps": 50000,
    "preservedMBps": 25000,
}
FACTS = FactsAnnotation(
    profile="bert",
    source="Measured",
    links={2: KnownSlowdown(percent=45, low=40, high=50, samples=8)},
)


class PlacementOfRelease01(ApiModel):
    """The fields of the annotation before gputopo recorded the input of the decision."""

    v: Literal[1] = 1
    policy: str
    pattern: str
    sensitive: bool
    reason: str
    fact: Annotated[str | None, Field(max_length=512)] = None
    model: str | None = None
    aggregate_mb_per_s: Annotated[int, Field(alias="aggregateMBps")]
    preserved_mb_per_s: Annotated[int, Field(alias="preservedMBps")]


def placement(replay: Any) -> PlacementAnnotation:
    text = json.dumps(PLACEMENT | {"replay": replay})
    parsed = parse_placement({PLACEMENT_ANNOTATION: text})
    assert parsed is not None
    return parsed


def test_record_is_parsed() -> None:
    record = parse_replay(placement(RECORD))
    assert record is not None
    assert record.model_dump(by_alias=True, exclude_defaults=True) == RECORD


def test_placement_of_an_older_version_has_no_record() -> None:
    parsed = parse_placement({PLACEMENT_ANNOTATION: json.dumps(PLACEMENT)})
    assert parsed is not None
    assert parse_replay(parsed) is None


def test_older_component_ignores_the_record() -> None:
    text = placement(RECORD).dump()
    older = PlacementOfRelease01.model_validate_json(text)
    assert (older.policy, older.aggregate_mb_per_s) == ("Preserve", 50000)


def test_record_in_an_unknown_format_does_not_hide_the_figures() -> None:
    later = placement(["another", "format"])
    assert later.aggregate_mb_per_s == 50000
    with pytest.raises(AnnotationError, match=r"^gputopo.io/placement: replay: "):
        parse_replay(later)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"size": 17}, "replay.size: 17: "),
        ({"free": [64]}, r"replay.free\[0\]: 64: "),
        ({"free": [0] * 65}, "replay.free: "),
        ({"gpus": []}, "replay.gpus: "),
        ({"edges": [[0, 16, 1]]}, r"replay.edges\[0\]\[1\]: 16: "),
        ({"edges": [[0, 1, 0]]}, r"replay.edges\[0\]\[2\]: 0: "),
        ({"edges": [[0, 1, 1]] * 121}, "replay.edges: "),
        ({"fingerprint": "f" * 65}, "replay.fingerprint: "),
        ({"nodes": {"compared": 1}}, "replay.nodes.fitted: is required"),
    ],
)
def test_wrong_records_are_rejected_with_the_field(change: dict[str, Any], part: str) -> None:
    with pytest.raises(AnnotationError, match=rf"^gputopo.io/placement: {part}"):
        parse_replay(placement(RECORD | change))


def test_fact_about_the_number_of_gpus_is_recorded_with_its_interval() -> None:
    fact = RecordedFact.of(FACTS, 2)
    assert fact is not None
    assert fact.model_dump(by_alias=True, exclude_none=True) == {
        "profile": "bert",
        "source": "Measured",
        "slowdown": {"percent": 45, "low": 40, "high": 50, "samples": 8},
    }
    assert RecordedFact.of(FACTS, 4) is None

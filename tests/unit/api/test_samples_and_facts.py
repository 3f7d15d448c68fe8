"""Samples of GPUTopologies and GPUProfiles, and the annotation with the facts."""

import json

import pytest

from gputopo.api.annotations import AnnotationError
from gputopo.api.known_facts import FactsAnnotation, KnownSlowdown, parse_facts
from gputopo.api.names import FACTS_ANNOTATION
from gputopo.api.profile import NodeSample, Sample
from gputopo.sensitivity.resolve import Sensitivity

FIELDS = {
    "podUID": "u1",
    "container": "main",
    "time": "2026-11-22T10:00:00Z",
    "seconds": 60,
    "source": "SDK",
    "microStepsPerSecond": 12_500_000,
    "ciPermille": 20,
    "gpuModel": "Tesla V100-SXM2-32GB",
    "gpus": 2,
    "effectiveMBps": 48_000,
}


def test_profile_stores_the_sample_of_a_node_without_its_own_name() -> None:
    found = NodeSample.model_validate({**FIELDS, "namespace": "ml", "profile": "bert"})
    assert found.to_sample() == Sample.model_validate(FIELDS)
    assert found.to_sample().to_json() == {
        **FIELDS,
        "imageDigest": "",
        "socketNeighbours": [],
        "nodeNeighbours": [],
    }


def test_sample_is_identified_by_pod_container_and_time() -> None:
    sample = Sample.model_validate(FIELDS)
    assert sample.key == ("u1", "main", "2026-11-22T10:00:00Z")
    assert sample.steps_per_second == 12.5


def test_facts_are_written_and_read_again() -> None:
    known = KnownSlowdown(percent=45, low=40, high=50, samples=8)
    facts = FactsAnnotation(profile="bert", source="Measured", links={2: known})
    assert facts.dump() == (
        '{"v":1,"profile":"bert","source":"Measured",'
        '"links":{"2":{"percent":45,"low":40,"high":50,"samples":8}}}'
    )
    assert parse_facts({FACTS_ANNOTATION: facts.dump()}) == facts
    assert facts.slowdown(2) == known
    assert facts.slowdown(4) is None


def test_declared_slowdown_holds_for_every_number_of_gpus() -> None:
    declared = KnownSlowdown(percent=45, low=45, high=45)
    assert FactsAnnotation(profile="b", source="Declared", links={0: declared}).slowdown(3)


SLOWDOWN = {"percent": 45, "low": 40, "high": 50, "samples": 8}


@pytest.mark.parametrize("field", SLOWDOWN)
def test_facts_of_any_client_fit_into_the_placement_annotation(field: str) -> None:
    def facts(number: int) -> str:
        links = {"0": SLOWDOWN | {field: number}}
        return json.dumps({"v": 1, "profile": "p" * 253, "source": "x", "links": links})

    largest = parse_facts({FACTS_ANNOTATION: facts(100_000)})
    assert largest is not None
    assert len(largest.resolve(Sensitivity.AUTO, 2)[1] or "") < 512
    with pytest.raises(AnnotationError, match=FACTS_ANNOTATION):
        parse_facts({FACTS_ANNOTATION: facts(10**300)})


@pytest.mark.parametrize("text", ["", "[]", '{"v":2}', '{"v":1,"profile":"A B","source":"x"}'])
def test_invalid_facts_are_rejected_with_the_name_of_the_annotation(text: str) -> None:
    with pytest.raises(AnnotationError, match=FACTS_ANNOTATION):
        parse_facts({FACTS_ANNOTATION: text})


def test_pod_without_the_annotation_has_no_facts() -> None:
    assert parse_facts({}) is None

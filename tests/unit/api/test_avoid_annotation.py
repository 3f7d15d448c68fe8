"""The annotation with the pods that a pod avoids."""

import json

import pytest

from gputopo.api.annotations import AnnotationError
from gputopo.api.avoid import AvoidRule, avoid_rules, format_avoid, known_avoid, parse_avoid
from gputopo.api.names import AVOID_ANNOTATION
from gputopo.api.request import RequestAnnotations, format_request, parse_request
from gputopo.api.v1alpha1 import AvoidSpec

NOISY = AvoidRule((("app", "noisy"),))
BOTH = AvoidRule((("app", "train"), ("example.org/team", "")), "Node")


def test_rules_are_read_and_written() -> None:
    annotations = format_avoid([NOISY, BOTH])
    assert parse_avoid(annotations) == (NOISY, BOTH)
    request = RequestAnnotations(avoid=(NOISY, BOTH))
    assert parse_request(format_request(request)) == request
    assert format_avoid([]) == {}
    assert parse_avoid({}) == ()


def test_level_is_socket_by_default() -> None:
    assert parse_avoid({AVOID_ANNOTATION: '[{"matchLabels": {"app": "noisy"}}]'}) == (NOISY,)


@pytest.mark.parametrize("key", ["matchExpressions", "Level"])
def test_unknown_key_is_rejected_but_ignored_for_a_running_pod(key: str) -> None:
    text = json.dumps([{"matchLabels": {"app": "noisy"}, key: "Node"}])
    annotations = {AVOID_ANNOTATION: text}
    with pytest.raises(AnnotationError, match=rf"\[0\]\.{key}: there is no such field; allowed is"):
        parse_avoid(annotations)
    assert known_avoid(annotations) == (NOISY,)
    assert known_avoid({}) == ()


def test_rules_of_a_job_are_those_of_the_annotation() -> None:
    spec = AvoidSpec(match_labels={"example.org/team": "", "app": "train"}, level="Node")
    assert avoid_rules([spec]) == (BOTH,)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("no JSON", "Invalid JSON"),
        ("{}", "list"),
        ('[{"level": "Node"}]', "matchLabels"),
        ('[{"matchLabels": {}}]', "matchLabels"),
        ('[{"matchLabels": {"app": "a b"}}]', "app"),
        ('[{"matchLabels": {"a b": "x"}}]', "a b"),
        ('[{"matchLabels": {"app": "x"}, "level": "Rack"}]', "level"),
        ("[" + ", ".join(['{"matchLabels": {"app": "x"}}'] * 9) + "]", "at most 8"),
    ],
)
def test_wrong_value_is_rejected_with_the_remedy(text: str, words: str) -> None:
    with pytest.raises(AnnotationError, match=r"gputopo.io/avoid: .*level is Socket or Node") as it:
        parse_avoid({AVOID_ANNOTATION: text})
    assert words in str(it.value)
    assert known_avoid({AVOID_ANNOTATION: text}) == ()


def test_annotation_that_is_too_long_is_not_parsed() -> None:
    text = '[{"matchLabels": {"app": "noisy"}}]'
    allowed, too_long = {AVOID_ANNOTATION: text.ljust(32_768)}, {AVOID_ANNOTATION: " " * 32_769}
    assert parse_avoid(allowed) == known_avoid(allowed) == (NOISY,)
    with pytest.raises(AnnotationError, match="avoid: 32769 characters; at most 32768 are allowed"):
        parse_avoid(too_long)
    assert known_avoid(too_long) == ()


def test_rule_matches_pods_with_all_of_its_labels() -> None:
    assert NOISY.matches((("app", "noisy"), ("tier", "1")))
    assert not NOISY.matches((("app", "quiet"),))
    assert not BOTH.matches((("app", "train"),))

"""Priorities come from the PriorityClasses, as the API server computes them for pods."""

from gputopo_kube.priorities import priorities_of


def priority_class(name: str, value: int, **fields: bool) -> dict[str, object]:
    return {"metadata": {"name": name}, "value": value, **fields}


def test_default_class_has_an_empty_key_beside_its_name() -> None:
    classes = [priority_class("high", 9), priority_class("usual", 3, globalDefault=True)]
    assert priorities_of(classes) == {"high": 9, "usual": 3, "": 3}


def test_without_a_default_class_there_is_no_empty_key() -> None:
    assert priorities_of([priority_class("high", 9, globalDefault=False)]) == {"high": 9}
    assert priorities_of([]) == {}


def test_smallest_of_several_default_classes_is_the_default() -> None:
    classes = [priority_class(f"c{value}", value, globalDefault=True) for value in (5, 2, 7)]
    assert priorities_of(classes)[""] == 2
    assert priorities_of(reversed(classes))[""] == 2

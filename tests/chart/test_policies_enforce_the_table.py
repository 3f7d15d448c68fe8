"""The rendered policies have exactly the fields of the table of who may write them."""

import re

import pytest

from gputopo.api.fields import FIELDS, Field, Place, Until, Writer
from gputopo.api.names import CLAIMS_ANNOTATION
from support.helm_chart import Object, find

RULES = {
    # Name of the list in the policy: who may change its fields, and the rows of the table.
    "ofBinding": ("bindsAsExtender", Writer.EXTENDER, Place.ANNOTATION, Until.BINDING),
    "ofExtender": ("byExtender", Writer.EXTENDER, Place.ANNOTATION, Until.ENDED),
    "ofOperator": ("byOperator", Writer.OPERATOR, Place.ANNOTATION, Until.ENDED),
    "labelsOfOperator": ("byOperator", Writer.OPERATOR, Place.LABEL, Until.ENDED),
    "ofCreation": (
        *("createsPod || variables.byOperator", Writer.USER),
        *(Place.ANNOTATION, Until.CREATED),
    ),
    "labelsOfCreation": (
        *("createsPod || variables.byOperator", Writer.USER),
        *(Place.LABEL, Until.CREATED),
    ),
    "ofWaiting": ("isWaiting", Writer.USER, Place.ANNOTATION, Until.BOUND),
}


def is_of(rule: tuple[str, Writer, Place, Until], field: Field) -> bool:
    return field.kind == "pods" and rule[1:] == (field.writer, field.place, field.until)


def spec_of(objects: list[Object], name: str) -> Object:
    spec: Object = find(objects, "ValidatingAdmissionPolicy", f"gputopo-{name}")["spec"]
    return spec


def lists_of(spec: Object) -> dict[str, list[str]]:
    """Return the lists of fields in the variables of the policy, by the variable's name."""
    found = {}
    for variable in spec["variables"]:
        if (keys := re.search(r"\[([^]]+)]\.filter\(key,", variable["expression"])) is not None:
            found[variable["name"]] = re.findall(r"'([^']+)'", keys[1])
    return found


def test_policy_of_pods_has_the_fields_of_the_table(objects: list[Object]) -> None:
    lists = lists_of(spec_of(objects, "pod-fields"))
    assert lists.keys() == RULES.keys()
    for name, rule in RULES.items():
        expected = sorted(each.name for each in FIELDS if is_of(rule, each))
        assert sorted(lists[name]) == expected, name
        assert expected, name


def test_each_list_has_one_rule_which_allows_its_writer_only(objects: list[Object]) -> None:
    expressions = [each["expression"] for each in spec_of(objects, "pod-fields")["validations"]]
    for name, (allowed, *_) in RULES.items():
        rules = [each for each in expressions if re.search(rf"\bvariables\.{name}\b", each)]
        assert rules == [f"size(variables.{name}) == 0 || variables.{allowed}"], name


def test_each_restricted_field_of_a_pod_is_in_a_rule(objects: list[Object]) -> None:
    enforced = {key for keys in lists_of(spec_of(objects, "pod-fields")).values() for key in keys}
    restricted = {
        each.name
        for each in FIELDS
        if each.kind == "pods"
        and each.place is not Place.STATUS
        and (each.writer is not Writer.USER or each.until is not Until.ENDED)
    }
    assert enforced == restricted


@pytest.mark.parametrize("part", ["pod-fields", "operator-fields"])
def test_policy_covers_all_ways_to_write_its_fields(objects: list[Object], part: str) -> None:
    spec = spec_of(objects, part)
    assert "matchConditions" not in spec  # to evaluate them, the API server converts the object
    rules = [
        (each["operations"], each["resources"])
        for each in spec["matchConstraints"]["resourceRules"]
    ]
    status = [f"{each.kind}/status" for each in FIELDS if of_the_operator(each, Place.STATUS)]
    kinds = [each.kind for each in FIELDS if of_the_operator(each, Place.ANNOTATION)]
    assert (
        rules
        == {
            "pod-fields": [(["CREATE", "UPDATE"], ["pods", "pods/*", "bindings"])],
            "operator-fields": [(["UPDATE"], sorted(status)), (["CREATE", "UPDATE"], kinds)],
        }[part]
    )


def test_no_policy_iterates_over_all_annotations_or_labels_of_a_pod(objects: list[Object]) -> None:
    """A user may set 50,000 of them. To iterate over them takes the API server more than 30 s."""
    bounded = []
    for each in objects:
        if each["kind"] != "ValidatingAdmissionPolicy":
            continue
        spec = each["spec"]
        for rule in [*spec.get("variables", []), *spec["validations"]]:
            loops = re.findall(r"([\w.]+)\.(?:all|exists|filter|map)\(key,", rule["expression"])
            if maps := [loop for loop in loops if loop.startswith("variables.")]:
                assert rule["expression"].startswith(f"size({maps[0]}) > 2000 || ")
                bounded += maps
    assert bounded == [
        *("variables.after", "variables.before", "variables.labelsAfter", "variables.labelsBefore")
    ]


def of_the_operator(field: Field, place: Place) -> bool:
    return (field.writer, field.place) == (Writer.OPERATOR, place) and field.kind != "pods"


def test_policy_of_the_operators_kinds_has_the_annotations_of_the_table(
    objects: list[Object],
) -> None:
    text = str(spec_of(objects, "operator-fields")["validations"])
    expected = {each.name for each in FIELDS if of_the_operator(each, Place.ANNOTATION)}
    assert set(re.findall(r"gputopo\.io/[a-z-]+", text)) == expected
    for each in expected:
        rule = f"variables.byOperator || variables.after[?'{each}'] == variables.before[?'{each}']"
        assert rule in text


def test_only_agents_and_extenders_have_rights_to_what_rbac_alone_protects(
    objects: list[Object],
) -> None:
    assert any(each.name == CLAIMS_ANNOTATION for each in FIELDS)
    writing = {
        role["metadata"]["name"]: resource
        for role in objects
        if role["kind"] in {"ClusterRole", "Role"}
        for rule in role.get("rules") or ()
        for resource in rule["resources"]
        if resource.split("/")[0] in {"gputopologies", "leases"}
        and {*rule["verbs"]} & {"create", "update", "patch", "delete", "deletecollection", "*"}
    }
    assert writing.keys() == {"gputopo-deviceplugin", "gputopo-scheduler-leases"}

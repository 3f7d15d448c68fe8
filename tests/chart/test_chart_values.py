"""The values of the chart: each has a schema and a comment, and wrong ones are rejected."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from gputopo.placement.model import DEFAULT_POLICIES
from gputopo.queueing.model import QueueOrder
from gputopo.tuning.targets import MECHANISMS
from support.helm_chart import CHART, Helm, HelmError

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
TEXT = (CHART / "values.yaml").read_text()
VALUES = yaml.safe_load(TEXT)

Schema = dict[str, Any]


def resolved(schema: Schema) -> Schema:
    if "$ref" in schema:
        found: Schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
        return found
    return schema


def schemas(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    schema = resolved(schema)
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from schemas(inner, f"{path}.{name}")
    if "items" in schema:
        yield from schemas(schema["items"], f"{path}[]")


def values(tree: Any, path: str = "") -> Iterator[str]:
    if isinstance(tree, dict) and "additionalProperties" not in schema_at(path):
        raise AssertionError(f"{path}: an open schema")
    yield path
    if isinstance(tree, dict) and "properties" in schema_at(path):
        for name, inner in tree.items():
            yield from values(inner, f"{path}.{name}")


def schema_at(path: str) -> Schema:
    schema = resolved(SCHEMA)
    for name in path.split(".")[1:]:
        schema = resolved(schema["properties"][name])
    return schema


def test_every_value_has_a_schema_and_every_schema_a_value() -> None:
    shown = set(values(VALUES))
    known = {
        path
        for path, schema in schemas(SCHEMA)
        if "[]" not in path and not path.startswith(".global")
    }
    # What users may fill in: lists and maps that are empty by default.
    open_ended = re.compile(r"\.(affinity|resources|seLinuxOptions)\.\w+")
    assert shown - known == set()
    assert {path for path in known - shown if not open_ended.search(path)} == set()


def test_the_default_policy_may_be_any_that_the_extender_knows() -> None:
    default_policy = schema_at(".extender.defaultPolicy")
    assert default_policy["enum"] == list(DEFAULT_POLICIES)
    (comment,) = re.findall(r"# Placement policy of pods that do not name one: (.+)\.\n", TEXT)
    assert re.split(r", | or ", comment) == list(DEFAULT_POLICIES)


def test_order_of_the_queue_may_be_any_that_the_core_knows() -> None:
    assert schema_at(".operator.queue.order")["enum"] == ["", *QueueOrder]


def test_mechanism_of_sizing_may_be_any_that_the_operator_knows() -> None:
    assert schema_at(".operator.sizing.mechanism")["enum"] == list(MECHANISMS)


def test_no_object_of_the_schema_takes_unknown_keys() -> None:
    for path, schema in schemas(SCHEMA):
        if "properties" in schema:
            assert schema["additionalProperties"] is False, path


def test_every_value_has_a_comment_on_the_line_above() -> None:
    lines = TEXT.splitlines()
    for number, line in enumerate(lines):
        key = re.match(r"( *)(\w+):", line)
        if key is None or line.strip().startswith("#"):
            continue
        path_is_block = line.rstrip().endswith(":")
        inside_resources = key[2] in {"requests", "limits"}
        if not path_is_block and not inside_resources:
            assert lines[number - 1].strip().startswith("#"), f"line {number + 1}: {line}"


WRONG = {
    "a misspelt key": ({"scheduler": {"extenderWieght": 3}}, "extenderWieght"),
    "a misspelt component": ({"deviceplugin": {}}, "deviceplugin"),
    "a resource without a domain": ({"resourceName": "gpu"}, "resourceName"),
    "an unknown policy": ({"extender": {"defaultPolicy": "preserve"}}, "defaultPolicy"),
    "no weight": ({"scheduler": {"extenderWeight": 0}}, "extenderWeight"),
    "a path that is not absolute": (
        {"devicePlugin": {"driver": {"libraryDir": "lib"}}},
        "libraryDir",
    ),
    "a log level": ({"operator": {"logLevel": "loud"}}, "logLevel"),
    "an order of the queue": ({"operator": {"queue": {"order": "fifo"}}}, "order"),
    "no time to skip": ({"operator": {"queue": {"maxSkipSeconds": 0}}}, "maxSkipSeconds"),
    "a mechanism of sizing": ({"operator": {"sizing": {"mechanism": "opt"}}}, "mechanism"),
    "rounds that never end": ({"operator": {"sizing": {"roundSeconds": 1}}}, "roundSeconds"),
    "a tag in the repository": (
        {"operator": {"image": {"repository": "localhost/a:b"}}},
        "repository",
    ),
    "a star inside a resource's name": (
        {"devicePlugin": {"competingResources": ["nvidia.com/*-shared"]}},
        "competingResources",
    ),
    "a share of no agents": ({"devicePlugin": {"maxUnavailable": "0%"}}, "maxUnavailable"),
    "no agents": ({"devicePlugin": {"maxUnavailable": 0}}, "maxUnavailable"),
    "a digest that is too short": ({"web": {"image": {"digest": "sha256:abc"}}}, "digest"),
    "a SELinux option": ({"devicePlugin": {"seLinuxOptions": {"types": "a"}}}, "types"),
    "a name with capital letters": ({"nameOverride": "GPU"}, "nameOverride"),
    "a name that ends with a hyphen": ({"fullnameOverride": "gpu-"}, "fullnameOverride"),
    "a port out of range": ({"networkPolicy": {"apiServerPorts": [70000]}}, "apiServerPorts"),
    "a boolean in words": ({"crds": {"install": "yes"}}, "install"),
    "a toleration's typing error": (
        {"devicePlugin": {"tolerations": [{"operators": "Exists"}]}},
        "operators",
    ),
    "a host name with a port": (
        {"web": {"allowedHosts": ["gpus.example.com:443"]}},
        "allowedHosts",
    ),
    "a host name with a star": ({"web": {"allowedHosts": ["*.example.com"]}}, "allowedHosts"),
    "a peer that is any pod": ({"web": {"allowedPeers": [{}]}}, "allowedPeers"),
    "a peer's typing error": ({"web": {"allowedPeers": [{"podSelectors": {}}]}}, "podSelectors"),
}


@pytest.mark.parametrize(("wrong", "named"), WRONG.values(), ids=WRONG.keys())
def test_wrong_value_is_rejected_by_name(helm: Helm, wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(HelmError, match=named):
        helm.render(wrong)


def test_chart_as_a_dependency_accepts_global_values(helm: Helm) -> None:
    assert helm.render({"global": {"anything": 1}})

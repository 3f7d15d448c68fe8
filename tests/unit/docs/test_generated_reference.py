"""The generated reference pages agree with code, CRDs and chart."""

import pytest
import yaml

from docsite.fields import fields_page
from docsite.permissions import parse_roles
from docsite.reference import GENERATED, ROOT
from docsite.values import Value, parse_values, values_page
from docsite.written_fields import security_page


@pytest.mark.parametrize("path", GENERATED)
def test_generated_page_is_current(path: str) -> None:
    current = (ROOT / path).read_text() == GENERATED[path]()
    assert current, f"{path} differs from its source: run `tools/docs generate`"


VALUES = """# About the file.

# A name.
name: ""
group:
  # First of
  # two lines.
  first: [1]

  second:
    # Inside.
    deep: {a: b}
    bare: 1
# A group.
other:
  # Its value.
  one: true
  two: false
"""


def test_values_have_the_comments_above_them_and_those_of_their_groups() -> None:
    assert parse_values(VALUES) == [
        Value("name", "", "A name."),
        Value("group.first", [1], "First of two lines."),
        Value("group.second.deep", {"a": "b"}, "Inside."),
        Value("group.second.bare", 1, ""),
        Value("other.one", True, "A group. Its value."),
        Value("other.two", False, "A group."),
    ]


def test_pages_that_comments_name_become_links_with_their_headings() -> None:
    page = values_page("# See docs/use/queue.md and docs/use/web.md#two-words.\nname: 1\n")
    assert "See [use/queue](../use/queue.md) and [use/web](../use/web.md#two-words)." in page


def test_every_value_of_the_chart_has_a_comment() -> None:
    text = (ROOT / "charts/gputopo/values.yaml").read_text()
    assert [value.path for value in parse_values(text) if not value.comment] == []


TEMPLATE = """{{- $name := printf "%s-part" (include "gputopo.fullname" .) }}
# About
# the role.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $name }}
rules:
  # Reads a and b.
  - apiGroups: [x]
    resources: [a]
    verbs: [get]
  - apiGroups: [x]
    resources: [b]
    verbs: [get]
  {{- if .Values.c }}
  - apiGroups: [""]
    resources: [c]
    resourceNames: [one]
    # Inside a rule.
    verbs: [list]
  {{- end }}
---
kind: ClusterRoleBinding
metadata:
  name: {{ $name }}
"""


def test_roles_have_their_rules_and_the_comments_above_them() -> None:
    [role] = parse_roles(TEMPLATE)
    assert (role.kind, role.name, role.comment) == (
        "ClusterRole",
        "gputopo-part",
        "About the role.",
    )
    assert [(rule.content["resources"], rule.reason) for rule in role.rules] == [
        (["a"], "Reads a and b."),
        (["b"], "Reads a and b."),
        (["c"], ""),
    ]


def test_page_without_the_comments_around_its_table_is_an_error() -> None:
    with pytest.raises(ValueError, match="0 tables of fields"):
        security_page("# Security model\n")


def test_table_of_fields_names_the_writer_and_the_policy_of_a_field() -> None:
    page = GENERATED["docs/operate/security.md"]()
    (row,) = [line for line in page.splitlines() if "`gputopo.io/profiling-state`, " in line]
    assert row.endswith("| pods, annotation | the operator | at any time | policy `pod-fields` |")


def test_no_role_of_the_chart_reads_secrets_or_runs_commands_in_pods() -> None:
    templates = (ROOT / "charts/gputopo/templates").rglob("*.yaml")
    roles = [role for path in templates for role in parse_roles(path.read_text())]
    assert {role.kind for role in roles} == {"Role", "ClusterRole"}
    rules = [rule.content for role in roles for rule in role.rules]
    assert not {"*"} & {each for rule in rules for each in (*rule["resources"], *rule["verbs"])}
    resources = {each for rule in rules for each in rule["resources"]}
    assert not resources & {"secrets", "configmaps", "pods/exec", "pods/attach", "nodes/proxy"}


def test_commands_page_has_the_help_of_every_command() -> None:
    page = GENERATED["docs/reference/commands.md"]()
    for command in ("place", "topology show", "synergy compare", "doctor"):
        assert f"## gputopo {command}\n\n```text\nUsage: gputopo {command} " in page


def test_role_without_rules_is_an_error() -> None:
    with pytest.raises(ValueError, match="no name or no rules"):
        list(parse_roles(TEMPLATE.replace("rules:", "rulez:")))


def test_fields_have_types_limits_and_defaults() -> None:
    properties = {
        "count": {"type": "integer", "minimum": 1, "default": 2, "description": "A count."},
        "most": {"type": "integer", "maximum": 9},
        "kind": {"type": "string", "enum": ["A", "B"]},
        "cpu": {"x-kubernetes-int-or-string": True},
        "edges": {
            "type": "array",
            "items": {"type": "object", "properties": {"to": {"type": "string"}}},
        },
        "byName": {"type": "object", "additionalProperties": {"type": "string"}},
    }
    spec = {"type": "object", "required": ["count"], "properties": properties}
    schema = {"description": "A thing.", "properties": {"spec": spec, "status": {}}}
    version = {"schema": {"openAPIV3Schema": schema}}
    definition = {"spec": {"names": {"kind": "Thing"}, "versions": [version]}}
    page = fields_page([yaml.safe_dump(definition)])
    for row in (
        "| `spec.count` | integer, at least 1, default `2`, required | A count. |",
        "| `spec.most` | integer, at most 9 | |",
        "| `spec.kind` | `A`, `B` | |",
        "| `spec.cpu` | quantity | |",
        "| `spec.edges` | list of objects | |",
        "| `spec.edges[].to` | string | |",
        "| `spec.byName` | object | |",
    ):
        assert f"{row}\n" in page

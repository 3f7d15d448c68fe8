"""Writes the reference of the chart's access rights from its templates."""

import re
from collections.abc import Iterator, Sequence
from textwrap import fill
from typing import Any, Final, NamedTuple

import yaml

from docsite.text import cell, code, table

_HEAD = """# Permissions

Every rule of the roles that the chart creates, and its reason. A release has the name `gputopo`
here. The [security model](../operate/security.md) explains what follows from these rights. This
page is generated from the chart's templates by `tools/docs generate`.
"""

_NAME: Final = re.compile(r'\{\{- \$(\w+) := (?:printf "%s([\w-]+)" )?\(?(?:include|\$fullname)')
_ROLE: Final = re.compile(r"^kind: ((?:Cluster)?Role)\n", re.MULTILINE)


class Rule(NamedTuple):
    """One rule of a role, and its reason."""

    content: dict[str, Any]
    reason: str


class Role(NamedTuple):
    """A role of the chart, with the comment above it."""

    kind: str
    name: str
    comment: str
    rules: tuple[Rule, ...]


def permissions_page(templates: Sequence[str]) -> str:
    """Return the page for the texts of the chart's templates."""
    roles = [role for text in templates for role in parse_roles(text)]
    return "\n".join([_HEAD, *map(_section, roles)])


def parse_roles(text: str) -> Iterator[Role]:
    """Yield the roles of a template.

    Raises:
        ValueError: a role has a rule that cannot be parsed.
    """
    names = {name: f"gputopo{suffix}" for name, suffix in _NAME.findall(text)}
    for name, value in names.items():
        text = text.replace(f"{{{{ ${name} }}}}", value)
    for document in re.split(r"(?m)^---$", text):
        if kind := _ROLE.search(document):
            name = re.search(r"(?m)^  name: (\S+)$", document)
            _, found, rules = document.partition("\nrules:\n")
            if name is None or not found:
                raise ValueError(f"no name or no rules: {document}")
            above = re.findall(r"(?m)^# (.*)$", document)
            yield Role(kind[1], name[1], " ".join(above), tuple(_rules(rules)))


def _rules(text: str) -> Iterator[Rule]:
    """Yield the rules of a role; a rule without a comment has the reason of the rule before it."""
    reason = ""
    lines: list[str] = []
    comment: list[str] = []
    for line in [*text.splitlines(), "  - end"]:
        if lines and not line.startswith("    "):
            [content] = yaml.safe_load("\n".join(lines))
            yield Rule(content, reason)
            lines = []
        if line.startswith("  # "):
            comment.append(line.removeprefix("  # "))
        elif line.startswith("  {{-"):
            reason = ""
        elif line.startswith(("  - ", "    ")):
            reason, comment = " ".join(comment) or reason, []
            lines.append(line)


def _section(role: Role) -> str:
    rows = [
        (_resources(rule.content), ", ".join(rule.content["verbs"]), cell(rule.reason))
        for rule in role.rules
    ]
    comment = f"{fill(role.comment, 100)}\n\n" if role.comment else ""
    return f"## {role.kind} {role.name}\n\n{comment}{table(('resources', 'verbs', 'reason'), rows)}"


def _resources(rule: dict[str, Any]) -> str:
    groups = ", ".join(group or "core" for group in rule["apiGroups"])
    named = "".join(f" {code(name)}" for name in rule.get("resourceNames", ()))
    return f"{', '.join(map(code, rule['resources']))}{named} ({groups})"

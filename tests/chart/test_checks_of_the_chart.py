"""A scanner of Kubernetes objects fails only what docs/operate/security.md gives a reason for."""

import re

import pytest

from support.chart_values import VALUE_SETS
from support.checkov import Failures, Findings, install, scan
from support.helm_chart import CHART, Helm

PAGE = CHART.parents[1] / "docs" / "operate" / "security.md"
IMAGE = {"digest": f"sha256:{'0' * 64}", "pullPolicy": "Always"}
COMPONENT = {"image": IMAGE, "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}
STRICT = {
    **dict.fromkeys(("operator", "scheduler", "extender", "devicePlugin", "mps"), COMPONENT),
    "web": {**COMPONENT, "enabled": True},
    "sharing": {"enabled": True},
    "networkPolicy": {"enabled": True},
}
"""The values that the table names, for all components."""


@pytest.fixture(scope="module")
def findings(helm: Helm, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Findings]:
    """What the scanner finds with each set of values."""
    folder = tmp_path_factory.mktemp("checkov")
    sets = {**VALUE_SETS, "strict": STRICT}
    rendered = {name.replace(" ", "-"): helm.manifests(values) for name, values in sets.items()}
    return scan(install(folder / "venv"), rendered, folder)


def documented(column: str) -> Failures:
    """Return the checks and objects that a column of the table names."""
    _, _, section = PAGE.read_text().partition("\n## Checks of the chart\n")
    lines = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("|")]
    head, _, *rows = ([cell.strip() for cell in line.split("|")] for line in lines)
    return frozenset(
        (check, name)
        for row in rows
        for check in re.findall(r"`(\w+)`", row[head.index("check")])
        for name in row[head.index(column)].split(", ")
        if name
    )


def test_failures_with_default_values_are_documented(findings: dict[str, Findings]) -> None:
    assert findings["defaults"].failures == documented("with default values")
    assert findings["defaults"].passed > 400


def test_further_failures_with_options_are_documented(findings: dict[str, Findings]) -> None:
    found = frozenset[tuple[str, str]]().union(*(each.failures for each in findings.values()))
    assert found - findings["defaults"].failures == documented("with options")
    assert findings["everything"].passed > findings["defaults"].passed


def test_values_that_the_table_names_make_checks_pass(findings: dict[str, Findings]) -> None:
    found = findings["strict"].failures
    assert not [each for each in found if each[0] in {"CKV_K8S_15", "CKV_K8S_43", "CKV2_K8S_6"}]
    # The pod of helm test has no values of its own.
    assert {name for check, name in found if check == "CKV_K8S_11"} == {"test"}

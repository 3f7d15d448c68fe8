"""Values that a release lacks: those of an older chart, and those that a user has set to null.

``helm upgrade --reuse-values`` uses the values of the installed chart instead of values.yaml, so it
adds no values that are new in the chart.
"""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from support.helm_chart import CHART, Helm, HelmError

OLD = Path(__file__).parents[1] / "data" / "chart-values-4a77908e.yaml"
OLD_VALUES = yaml.safe_load(OLD.read_text())
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
ADDED = yaml.safe_load(
    (CHART / "templates/_defaults.tpl")
    .read_text()
    .partition('define "gputopo.addedValues" -}}')[2]
    .partition("{{- end")[0]
)
CLUSTER = ("--namespace=gputopo-system", "--kube-version=v1.36.2")
EMPTY_ARGUMENT = re.compile(r"^ *- \"?--[\w-]+=\"?$", re.MULTILINE)
MAY_BE_ABSENT = re.compile(
    r"nameOverride|fullnameOverride|imagePullSecrets|.*\.image\.digest|.*\.(resources(\.\w+)*|priorityClassName"
    r"|nodeSelector|tolerations|affinity|podAnnotations)|devicePlugin\.(runtimeClassName|privileged|seLinuxOptions(\.\w+)?)"
)
"""Keys without which the chart leaves out a field."""
NEEDED_BY_TEMPLATES = {"web.image", "web.allowedPeers", "mps.image"}
"""Keys that a template requires if the component is enabled."""
FEATURES: dict[str, Any] = {
    "crds": {"install": False},
    "sharing": {"enabled": True},
    "podMonitor": {"enabled": True},
    "monitoring": {"rules": {"enabled": True}, "dashboards": {"enabled": True}},
    "web": {"enabled": True},
    "networkPolicy": {"enabled": True},
    "extender": {"nominateAbove": 1},
    "operator": {"queue": {"order": "FIFO"}},
    "devicePlugin": {"nri": {"enabled": True}, "runtimeClassName": "nvidia"},
}


def paths(tree: Any, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the keys of a tree, outer ones first. Keys with a dot are labels, not values."""
    if isinstance(tree, dict):
        for name, inner in tree.items():
            if "." not in name and "grafana" not in name:
                yield (*prefix, name)
                yield from paths(inner, (*prefix, name))


def has(tree: Any, path: tuple[str, ...]) -> bool:
    for name in path:
        if not isinstance(tree, dict) or name not in tree:
            return False
        tree = tree[name]
    return True


def at(tree: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        tree = tree[name]
    return tree


def without(path: tuple[str, ...]) -> dict[str, Any]:
    """Return the default values as Helm passes them on if a user sets a key to null."""
    copy: dict[str, Any] = json.loads(json.dumps(VALUES))
    del at(copy, path[:-1])[path[-1]]
    return copy


def put(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value


def is_required(path: tuple[str, ...]) -> bool:
    errors = [*VALIDATOR.iter_errors(without(path))]
    assert all(error.validator == "required" for error in errors), errors
    return bool(errors)


@pytest.fixture(scope="module")
def reused(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return today's chart as ``helm upgrade --reuse-values`` renders it for an old release."""
    chart = tmp_path_factory.mktemp("reused") / "gputopo"
    shutil.copytree(CHART, chart)
    shutil.copy(OLD, chart / "values.yaml")
    return chart


def test_an_upgrade_that_reuses_old_values_renders_the_new_ones_with_their_defaults(
    helm: Helm, reused: Path
) -> None:
    text = helm.run("template", "gputopo", str(reused), *CLUSTER)
    assert EMPTY_ARGUMENT.findall(text) == []
    assert "--max-wait-seconds=600\n" in text
    assert "--utility-weights=34,33,33\n" in text
    complete = helm.run("template", "gputopo", str(CHART), *CLUSTER, f"--values={OLD}")
    assert text == complete


def test_old_values_with_a_feature_that_is_new_render_its_defaults(
    helm: Helm, reused: Path
) -> None:
    features = (
        *("--set=monitoring.rules.enabled=true", "--set=monitoring.dashboards.enabled=true"),
        *("--set=serviceMonitor.enabled=true", "--set=devicePlugin.nri.enabled=true"),
    )
    text = helm.run("template", "gputopo", str(reused), *CLUSTER, *features)
    complete = helm.run("template", "gputopo", str(CHART), *CLUSTER, f"--values={OLD}", *features)
    assert text == complete


@pytest.mark.parametrize("feature", ["sharing", "web"])
def test_old_values_with_a_new_component_need_its_image(
    helm: Helm, reused: Path, feature: str
) -> None:
    with pytest.raises(HelmError, match="upgrade with --reset-then-reuse-values"):
        helm.run("template", "gputopo", str(reused), *CLUSTER, f"--set={feature}.enabled=true")


def test_values_since_the_old_chart_have_the_same_defaults_in_the_templates() -> None:
    for path in paths(ADDED):
        assert has(VALUES, path), path
        if not isinstance(at(ADDED, path), dict) or not at(ADDED, path):
            assert at(ADDED, path) == at(VALUES, path), path
    for path in paths(VALUES):
        name = ".".join(path)
        known = has(ADDED, path) or MAY_BE_ABSENT.fullmatch(name)
        image_of_new_component = any(name.startswith(each) for each in NEEDED_BY_TEMPLATES)
        assert has(OLD_VALUES, path) or known or image_of_new_component, (
            f"{name} is not in templates/_defaults.tpl, so --reuse-values of older charts lacks it"
        )


def test_every_value_may_be_null_or_is_required() -> None:
    for path in paths(VALUES):
        name = ".".join(path)
        handled = has(ADDED, path) or MAY_BE_ABSENT.fullmatch(name) or name in NEEDED_BY_TEMPLATES
        required = is_required(path)
        assert required or handled, name
        if not isinstance(at(VALUES, path), dict):
            assert not (required and handled), name


@pytest.mark.parametrize(
    "name",
    ["schedulerName", "admissionPolicies.environmentActions", "networkPolicy.apiServerPorts"],
)
def test_required_value_that_is_null_is_rejected_by_name(helm: Helm, name: str) -> None:
    *_, key = name.split(".")
    with pytest.raises(HelmError, match=f"missing property '{key}'"):
        helm.run("template", "gputopo", str(CHART), *CLUSTER, f"--set={name}=null")


def test_added_values_that_are_null_have_their_defaults(helm: Helm) -> None:
    nulls = json.loads(json.dumps(FEATURES))
    for path in paths(ADDED):
        is_leaf = not at(ADDED, path) or not isinstance(at(ADDED, path), dict)
        if is_leaf and not has(FEATURES, path):
            put(nulls, path, None)
    assert helm.render(nulls) == helm.render(FEATURES)


def test_optional_values_that_are_null_leave_out_fields(helm: Helm) -> None:
    nulls = json.loads(json.dumps(FEATURES))
    optional = [path for path in paths(VALUES) if MAY_BE_ABSENT.fullmatch(".".join(path))]
    for path in reversed(optional):  # inner ones first
        put(nulls, path, None)
    text = helm.manifests(nulls)
    assert EMPTY_ARGUMENT.findall(text) == []
    assert re.findall(r"^ *[\w-]+: null$", text, re.MULTILINE) == []
    left_out = "nodeSelector|tolerations|affinity|priorityClassName|runtimeClassName"
    assert not re.search(rf"^ *({left_out}):", text, re.MULTILINE)

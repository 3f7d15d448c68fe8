"""The dashboard and the alerts of the chart: their metrics exist, and Prometheus accepts them."""

import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gputopo_extender.verbs.app import _outcome
from localcluster.settings import current_paths
from monitortest.catalogue import CAUSES
from monitortest.queries import (
    Query,
    dashboard_queries,
    panels,
    rule_queries,
    rules,
    selectors,
)
from monitortest.reference import PAGE, Family, families, with_table
from support.helm_chart import CHART, Helm, HelmError, Object, find

ON = {"monitoring": {"dashboards": {"enabled": True}, "rules": {"enabled": True}}}
DASHBOARD = json.loads((CHART / "files/dashboards/gputopo.json").read_text())
UNIT_TESTS = Path(__file__).parents[1] / "data/monitoring/alerts.yaml"
PROMETHEUS_LABELS = {"instance", "le", "node", "pod"}
"""Labels that Prometheus or the PodMonitor adds to each series."""


@pytest.fixture(scope="module")
def groups(helm: Helm) -> list[dict[str, Any]]:
    found = find(helm.render(ON), "PrometheusRule", "gputopo")["spec"]["groups"]
    return list(found)


@pytest.fixture(scope="module")
def known() -> dict[str, Family]:
    """The metrics of all components by the names under which queries select them."""
    return {name: family for family in families() for name in family.series}


@pytest.fixture(scope="module")
def queries(groups: list[dict[str, Any]]) -> list[Query]:
    return [*dashboard_queries(DASHBOARD), *rule_queries(groups)]


def promtool(folder: Path, *words: str) -> str:
    program = current_paths().cache / "prometheus" / "promtool"
    assert program.exists(), f"{program} is missing: run tools/setup"
    done = subprocess.run(
        [program, *words], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def labels_of(metrics: Iterable[str], known: dict[str, Family]) -> set[str]:
    return {label for metric in metrics if metric in known for label in known[metric].labels}


def test_every_metric_of_dashboard_and_rules_is_one_of_a_component(
    queries: list[Query], groups: list[dict[str, Any]], known: dict[str, Family]
) -> None:
    recorded = {rule["record"] for rule in rules(groups, "record")}
    used = {each.metric for query in queries for each in selectors(query.expression)}
    assert used - recorded - known.keys() == set()


def test_dashboard_shows_every_metric_and_needs_no_recording_rule(
    known: dict[str, Family],
) -> None:
    used = {
        each.metric
        for query in dashboard_queries(DASHBOARD)
        for each in selectors(query.expression)
    }
    assert used <= known.keys()
    assert {family.name for family in known.values() if not family.series & used} == set()


def test_every_matcher_names_a_label_and_a_value_that_the_component_serves(
    queries: list[Query], known: dict[str, Family]
) -> None:
    outcomes = {_outcome(status) for status in (200, 400, 500, 503)}
    # The age of a kind is shown after its first list.
    later = {"outcome": outcomes, "kind": known["gputopo_cache_synced"].values["kind"]}
    for query in queries:
        for each in selectors(query.expression):
            for label, operator, value in each.matchers:
                if label in PROMETHEUS_LABELS or each.metric not in known:
                    continue
                family = known[each.metric]
                assert label in family.labels, f"{query.place}: {each.metric} has no {label}"
                allowed = family.values.get(label, later.get(label, set()))
                for part in value.split("|") if operator == "=~" else [value]:
                    assert part in allowed, f"{query.place}: {label}={part} is not served"


def test_every_grouping_is_by_a_label_of_a_metric_of_the_expression(
    queries: list[Query], known: dict[str, Family]
) -> None:
    for query in queries:
        metrics = [each.metric for each in selectors(query.expression)]
        lists = re.findall(r"\b(?:by|on|ignoring|without) \(([^)]*)\)", query.expression)
        names = {name.strip() for each in lists for name in each.split(",")}
        allowed = labels_of(metrics, known) | PROMETHEUS_LABELS
        if any(metric not in known for metric in metrics):
            allowed |= {"state", "sensitive"}  # labels of the recording rules
        assert names <= allowed, query.place


def test_legends_name_labels_that_their_query_keeps() -> None:
    for panel in panels(DASHBOARD):
        for target in panel["targets"]:
            kept = {
                name.strip()
                for each in re.findall(r"\bby \(([^)]*)\)", target["expr"])
                for name in each.split(",")
            }
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= kept, panel["title"]


def test_queries_by_object_return_at_most_20_series() -> None:
    unbounded = {"container", "gpu", "instance", "name", "namespace", "node", "pod"}
    for panel in panels(DASHBOARD):
        for target in panel["targets"]:
            if unbounded & set(re.findall(r"{{(\w+)}}", target["legendFormat"])):
                assert target["expr"].startswith("topk(20, "), panel["title"]
                assert "20 highest" in panel["description"], panel["title"]


def test_panels_have_unique_ids_and_titles_and_do_not_overlap() -> None:
    every = DASHBOARD["panels"]
    assert max(Counter(panel["id"] for panel in every).values()) == 1
    assert max(Counter(panel["title"] for panel in panels(DASHBOARD)).values()) <= 2
    cells = Counter(
        (x, y)
        for panel in every
        for position in [panel["gridPos"]]
        for x in range(position["x"], position["x"] + position["w"])
        for y in range(position["y"], position["y"] + position["h"])
    )
    assert max(cells.values()) == 1
    assert max(x for x, _ in cells) == 23


def test_every_panel_has_a_unit_a_description_and_the_chosen_data_source() -> None:
    for panel in panels(DASHBOARD):
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
        assert all(source["uid"] == "${datasource}" for source in sources), panel["title"]
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


def test_durations_and_bytes_have_their_unit() -> None:
    units = {"_bytes_per_second": {"Bps"}, "_seconds": {"s"}, "_bytes": {"bytes", "short"}}
    for panel in panels(DASHBOARD):
        for target in panel["targets"]:
            expression = target["expr"]
            if "_count[" in expression or " / " in expression or panel["type"] == "heatmap":
                continue
            for each in selectors(expression):
                name = each.metric.removesuffix("_bucket")
                for suffix, allowed in units.items():
                    if name.endswith(suffix):
                        assert panel["fieldConfig"]["defaults"]["unit"] in allowed, panel["title"]
                        break


def test_both_are_off_by_default_and_in_releases_without_these_values(helm: Helm) -> None:
    for values in ({}, {"monitoring": None}):
        names = {(each["kind"], each["metadata"]["name"]) for each in helm.render(values)}
        assert ("ConfigMap", "gputopo-dashboards") not in names
        assert "PrometheusRule" not in {kind for kind, _ in names}


def test_config_map_has_the_dashboard_and_the_label_of_the_sidecar(helm: Helm) -> None:
    found = find(helm.render(ON), "ConfigMap", "gputopo-dashboards")
    assert json.loads(found["data"]["gputopo.json"]) == DASHBOARD
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    folder = {"dashboards": {"enabled": True, "annotations": {"grafana_folder": "GPUs"}}}
    annotated = find(helm.render({"monitoring": folder}), "ConfigMap", "gputopo-dashboards")
    assert annotated["metadata"]["annotations"] == {"grafana_folder": "GPUs"}


def test_prometheus_accepts_the_rules_and_each_alert_fires_only_by_its_cause(
    groups: list[dict[str, Any]], tmp_path: Path
) -> None:
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}))
    (tmp_path / "alerts.yaml").write_text(UNIT_TESTS.read_text())
    assert "SUCCESS" in promtool(tmp_path, "check", "rules", "rules.yaml")
    assert "SUCCESS" in promtool(tmp_path, "test", "rules", "alerts.yaml")


def test_every_alert_has_a_test_in_which_it_fires(groups: list[dict[str, Any]]) -> None:
    fired = {
        test["alertname"]
        for each in yaml.safe_load(UNIT_TESTS.read_text())["tests"]
        for test in each.get("alert_rule_test", ())
        if test["exp_alerts"]
    }
    assert fired == {rule["alert"] for rule in rules(groups, "alert")}


def test_every_alert_has_a_severity_and_a_section_with_cause_and_remedy(
    groups: list[dict[str, Any]],
) -> None:
    sections = dict(re.findall(r"(?ms)^### (Gputopo\w+)\n(.*?)(?=^#|\Z)", PAGE.read_text()))
    alerts = {rule["alert"]: rule for rule in rules(groups, "alert")}
    assert list(sections) == list(alerts)
    for name, rule in alerts.items():
        assert rule["labels"]["severity"] in {"critical", "warning"}
        link = f"docs/operate/monitoring.md#{name.lower()}"
        assert rule["annotations"]["runbook_url"] == link
        assert "**Cause**" in sections[name], name
        assert "**Remedy**" in sections[name], name


def test_thresholds_labels_and_links_are_values(helm: Helm) -> None:
    own = {
        "enabled": True,
        "labels": {"release": "prometheus"},
        "runbookUrl": "https://example.com/alerts.html",
        "podWaitSeconds": 60,
        "queueWaitSeconds": 90,
        "lostBandwidthPercent": 25,
    }
    rule = find(helm.render({"monitoring": {"rules": own}}), "PrometheusRule", "gputopo")
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    alerts = {each["alert"]: each for each in rules(rule["spec"]["groups"], "alert")}
    assert alerts["GputopoPodsWaiting"]["expr"].endswith("> 60")
    assert alerts["GputopoQueueWaiting"]["expr"].endswith("> 90")
    assert alerts["GputopoBandwidthLost"]["expr"].endswith("> 0.25")
    links = {each["annotations"]["runbook_url"] for each in alerts.values()}
    assert "https://example.com/alerts.html#gputoponoleader" in links


def test_only_several_replicas_can_miss_one(helm: Helm) -> None:
    for replicas, expected in ((1, False), (3, True)):
        rule = find(
            helm.render({**ON, "scheduler": {"replicas": replicas}}), "PrometheusRule", "gputopo"
        )
        alerts = {each["alert"]: each for each in rules(rule["spec"]["groups"], "alert")}
        found = alerts.get("GputopoExtenderReplicaMissing")
        assert (found is not None) == expected
        assert found is None or found["expr"].endswith(f"< {replicas}")


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"rules": {"runbookUrl": "https://example.com/a#b"}}, "runbookUrl"),
        ({"rules": {"podWaitSeconds": 0}}, "podWaitSeconds"),
        ({"rules": {"lostBandwidthPercent": 100}}, "lostBandwidthPercent"),
        ({"dashboard": {"enabled": True}}, "dashboard"),
    ],
)
def test_wrong_value_is_rejected_by_name(helm: Helm, values: Object, named: str) -> None:
    with pytest.raises(HelmError, match=named):
        helm.render({"monitoring": values})


@pytest.mark.parametrize(
    ("value", "kind", "field"),
    [
        ("podMonitor", "PodMonitor", "podMetricsEndpoints"),
        ("serviceMonitor", "ServiceMonitor", "endpoints"),
    ],
)
def test_labels_of_jobs_are_kept_and_agents_get_the_name_of_their_node(
    helm: Helm, value: str, kind: str, field: str
) -> None:
    rendered = helm.render({value: {"enabled": True}})
    endpoints = [
        endpoint for each in rendered if each["kind"] == kind for endpoint in each["spec"][field]
    ]
    assert len(endpoints) == 3
    for endpoint in endpoints:
        assert endpoint["honorLabels"] is True
        assert endpoint["relabelings"] == [
            {"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "node"}
        ]


@pytest.mark.parametrize(
    ("value", "kind", "field"),
    [
        ("podMonitor", "PodMonitor", "podMetricsEndpoints"),
        ("serviceMonitor", "ServiceMonitor", "endpoints"),
    ],
)
def test_kube_scheduler_is_read_with_the_token_of_a_secret(
    helm: Helm, value: str, kind: str, field: str
) -> None:
    chosen = {"enabled": True, "kubeSchedulerTokenSecret": "metrics", "interval": "10s"}
    rendered = helm.render({value: chosen})
    ports = {
        each["metadata"]["name"]: [endpoint["port"] for endpoint in each["spec"][field]]
        for each in rendered
        if each["kind"] == kind
    }
    assert ports == {
        "gputopo-deviceplugin": ["metrics"],
        "gputopo-operator": ["metrics"],
        "gputopo-scheduler": ["metrics", "https"],
    }
    endpoint = find(rendered, kind, "gputopo-scheduler")["spec"][field][1]
    assert endpoint["scheme"] == "https"
    assert endpoint["interval"] == "10s"
    assert endpoint["tlsConfig"] == {"insecureSkipVerify": True}
    assert endpoint["authorization"] == {"credentials": {"name": "metrics", "key": "token"}}
    assert endpoint["honorLabels"] is True
    if kind == "ServiceMonitor":
        service = find(rendered, "Service", "gputopo-scheduler-metrics")
        served = {each["name"]: each["targetPort"] for each in service["spec"]["ports"]}
        assert served == {"metrics": 8889, "https": 10259}


def test_rule_of_the_page_finds_gpu_nodes_without_gpus(tmp_path: Path) -> None:
    (text,) = re.findall(r"(?ms)^```yaml\n(groups:.*?)^```", PAGE.read_text())
    (tmp_path / "rules.yaml").write_text(text)
    name = "label_feature_node_kubernetes_io_pci_10de_present"
    label = f'{name}="true"'
    labels = {"severity": "warning", "node": "no-driver", name: "true"}
    series = {
        f'kube_node_labels{{node="no-driver", {label}}}': "1x30",
        f'kube_node_labels{{node="with-gpus", {label}}}': "1x30",
        'kube_node_labels{node="cpus-only"}': "1x30",
        'gputopo_agent_gpus{node="no-driver", state="healthy"}': "0x30",
        'gputopo_agent_gpus{node="with-gpus", state="healthy"}': "0x30",
        'gputopo_agent_gpus{node="with-gpus", state="unhealthy"}': "8x30",
        'gputopo_agent_gpus{node="cpus-only", state="healthy"}': "0x30",
    }
    (rule,) = yaml.safe_load(text)["groups"][0]["rules"]
    summary = rule["annotations"]["summary"]
    description = rule["annotations"]["description"].replace("{{ $labels.node }}", "no-driver")
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": shown} for name, shown in series.items()],
        "alert_rule_test": [
            {
                "eval_time": "20m",
                "alertname": "GpuNodeWithoutGpus",
                "exp_alerts": [
                    {
                        "exp_labels": labels,
                        "exp_annotations": {"summary": summary, "description": description},
                    }
                ],
            }
        ],
    }
    tests = {"rule_files": ["rules.yaml"], "tests": [test]}
    (tmp_path / "alerts.yaml").write_text(yaml.safe_dump(tests))
    assert "SUCCESS" in promtool(tmp_path, "test", "rules", "alerts.yaml")


def test_page_shows_the_metrics_as_the_components_serve_them() -> None:
    page = PAGE.read_text()
    remedy = "run PYTHONPATH=tools .venv/bin/python -m monitortest.reference"
    assert with_table(page, families()) == page, remedy


def test_names_of_metrics_end_with_their_unit_and_labels_have_few_values() -> None:
    for family in families():
        assert family.name.startswith("gputopo_")
        assert family.text, family.name
        assert (family.kind == "counter") == family.name.endswith("_total"), family.name
        # Only a few metrics have one series per pod: those of measured and of sized pods. Those of
        # ensembles have one per GPUEnsemble, which has many pods.
        if {"pod", "name"} & set(family.labels):
            allowed = r"steps_per_second|sized_pod_|^gputopo_ensemble_"
            assert re.search(allowed, family.name), family.name


def test_every_alert_has_a_cause_by_which_the_tool_fires_it(groups: list[dict[str, Any]]) -> None:
    caused = [alert for cause in CAUSES.values() for alert in cause.alerts]
    assert sorted(caused) == sorted(rule["alert"] for rule in rules(groups, "alert"))


def test_prometheus_can_parse_every_query_of_the_dashboard(tmp_path: Path) -> None:
    expressions = [query.expression for query in dashboard_queries(DASHBOARD)]
    recorded = [
        {"record": f"query:{number}", "expr": text} for number, text in enumerate(expressions)
    ]
    groups = {"groups": [{"name": "queries", "rules": recorded}]}
    (tmp_path / "queries.yaml").write_text(yaml.safe_dump(groups))
    assert f"{len(expressions)} rules found" in promtool(tmp_path, "check", "rules", "queries.yaml")

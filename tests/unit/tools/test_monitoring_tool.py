"""The pure parts of ``tools/monitoring``, on values."""

from pathlib import Path

import pytest
import yaml

from monitortest.catalogue import CAUSES
from monitortest.checks import AlertResult, QueryResult, document, table
from monitortest.configuration import configuration, quick_rules, scrape_configs
from monitortest.discovery import targets
from monitortest.queries import Selector, dashboard_queries, rule_queries, selectors
from monitortest.reference import BEGIN, END, PAGE, Family, with_table
from monitortest.reference import table as metrics_table

FAMILY = Family(
    "agent",
    "gputopo_agent_gpus",
    "gauge",
    ("state", "node"),
    {"state": frozenset({"unhealthy", "healthy"})},
    "GPUs of a node.",
)
RULE = {
    "apiVersion": "monitoring.coreos.com/v1",
    "kind": "PrometheusRule",
    "spec": {
        "groups": [
            {
                "name": "gputopo.nodes",
                "rules": [
                    {"record": "gputopo:gpus:max", "expr": "max(gputopo_ledger_gpus)"},
                    {"alert": "Slow", "expr": "gputopo:gpus:max > 3", "for": "1h"},
                    {"alert": "Immediate", "expr": "vector(1)", "for": "0m"},
                ],
            }
        ]
    },
}


def test_selectors_of_an_expression_have_their_matchers() -> None:
    expression = 'sum(rate(gputopo_a_total{b="c", d=~"e|f"}[5m])) / gputopo:g:sum + other_metric'
    assert selectors(expression) == [
        Selector("gputopo_a_total", (("b", "=", "c"), ("d", "=~", "e|f"))),
        Selector("gputopo:g:sum", ()),
    ]


def test_queries_of_a_dashboard_have_values_for_its_variables() -> None:
    panel = {"title": "Rate", "type": "timeseries"}
    expression = 'rate(a{node=~"$node"}[$__rate_interval])'
    dashboard = {"panels": [{"type": "row"}, {**panel, "targets": [{"expr": expression}]}]}
    (query,) = dashboard_queries(dashboard)
    assert (query.place, query.expression) == ("Rate", 'rate(a{node=~".*"}[5m])')


def test_alerts_fire_quickly_and_those_without_a_delay_at_once() -> None:
    (group,) = quick_rules(f"---\n# a comment\n---\n{yaml.safe_dump(RULE)}")
    assert group["interval"] == "2s"
    assert [rule.get("for") for rule in group["rules"]] == [None, "4s", "0m"]
    assert [each.place for each in rule_queries([group])] == [
        "gputopo:gpus:max",
        "Slow",
        "Immediate",
    ]


def test_prometheus_uses_the_configuration_that_the_docs_show() -> None:
    page = PAGE.read_text()
    made = configuration(page, Path("/t.json"), Path("/r.yaml"))
    (shown,), (used,) = scrape_configs(page), made["scrape_configs"]
    assert made["rule_files"] == ["/r.yaml"]
    assert used["honor_labels"] is True
    assert shown["kubernetes_sd_configs"] == [{"role": "pod"}]
    assert used["file_sd_configs"] == [{"files": ["/t.json"], "refresh_interval": "2s"}]
    assert used["relabel_configs"] == shown["relabel_configs"]
    assert {"source_labels": ["__meta_kubernetes_pod_node_name"], "target_label": "node"} in used[
        "relabel_configs"
    ]


def test_targets_are_the_ports_of_all_pods_with_the_labels_that_the_example_uses() -> None:
    pod = {
        "metadata": {"name": "a", "labels": {"app.kubernetes.io/part-of": "gputopo"}},
        "spec": {
            "nodeName": "n1",
            "initContainers": [{"ports": [{"name": "metrics", "containerPort": 8889}]}],
            "containers": [{"ports": [{"containerPort": 10259}]}, {}],
        },
        "status": {"podIP": "10.0.0.1"},
    }
    found = targets([pod, {**pod, "status": {}}])
    assert [each["targets"] for each in found] == [["10.0.0.1:8889"], ["10.0.0.1:10259"]]
    assert [each["labels"]["__meta_kubernetes_pod_container_port_name"] for each in found] == [
        "metrics",
        "",
    ]
    (example,) = scrape_configs(PAGE.read_text())
    sources = {name for rule in example["relabel_configs"] for name in rule["source_labels"]}
    assert sources == found[0]["labels"].keys()


def test_page_without_an_example_is_an_error() -> None:
    with pytest.raises(ValueError, match="scrape_configs"):
        scrape_configs("# Monitoring\n")


def test_table_of_metrics_has_the_values_of_labels_and_replaces_only_itself() -> None:
    labels = "state: `healthy`, `unhealthy`; node"
    row = f"| `gputopo_agent_gpus` | agent | gauge | {labels} | GPUs of a node |"
    assert metrics_table([FAMILY]).splitlines()[-1] == row
    page = with_table(f"before\n{BEGIN}\nold\n{END}\nafter\n", [FAMILY])
    assert page == f"before\n{BEGIN}\n\n{metrics_table([FAMILY])}\n\n{END}\nafter\n"
    assert with_table(page, [FAMILY]) == page


def test_histograms_are_selected_by_their_series() -> None:
    histogram = Family("operator", "gputopo_x_seconds", "histogram", (), {}, "x")
    assert histogram.series == {
        "gputopo_x_seconds_bucket",
        "gputopo_x_seconds_count",
        "gputopo_x_seconds_sum",
    }


def test_every_cause_says_what_it_does_and_which_alerts_it_fires() -> None:
    for name, cause in CAUSES.items():
        assert cause.summary, name
        assert cause.alerts, name


@pytest.mark.parametrize(
    ("result", "good"),
    [
        (
            AlertResult("A", "a cause", before=False, fired_after=3.0, ended_after=1.0, text="x"),
            True,
        ),
        (
            AlertResult("A", "a cause", before=True, fired_after=3.0, ended_after=1.0, text="x"),
            False,
        ),
        (
            AlertResult("A", "a cause", before=False, fired_after=None, ended_after=None, text=""),
            False,
        ),
        (
            AlertResult(
                "A", "a cause", before=False, fired_after=3.0, ended_after=None, text="<no value>"
            ),
            False,
        ),
    ],
    ids=["by its cause", "before its cause", "never", "without a value"],
)
def test_alert_must_fire_by_its_cause_only(result: AlertResult, good: bool) -> None:  # noqa: FBT001
    assert result.is_good is good
    (line,) = table([result], [], [])
    assert line.startswith("ok" if good else "FINDING")


def test_results_of_queries_and_problems_are_shown() -> None:
    full = QueryResult("Panel", "a", 2, 1.5)
    empty = QueryResult("Other", "b", 0, None)
    lines = list(table([], [full, empty], ["Rule: failed"]))
    assert lines[0] == "ok      Panel: 2 series, for example 1.5"
    assert lines[1].startswith("FINDING Other")
    assert lines[2] == "FINDING Rule: failed"
    shown = document([], [full, empty], ["p"])
    assert [each["good"] for each in shown["queries"]] == [True, False]
    assert shown["problems"] == ["p"]

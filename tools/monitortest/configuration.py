"""The configuration of the Prometheus that the checks use. Pure."""

import re
from pathlib import Path
from typing import Any, Final

import yaml

from monitortest.queries import quick

SCRAPE_SECONDS: Final = 2
FOR_SECONDS: Final = 4
"""Alerts of the checks fire after this time, and not after minutes."""

THRESHOLDS: Final = {"podWaitSeconds": 15, "queueWaitSeconds": 15, "lostBandwidthPercent": 10}
"""Values of the chart, so low that a check can exceed them."""

_EXAMPLE: Final = re.compile(r"```yaml\n(scrape_configs:\n.*?)```", re.DOTALL)


def scrape_configs(page: str) -> list[dict[str, Any]]:
    """Return the scrape configuration that the page of the docs shows.

    Raises:
        ValueError: the page has none.
    """
    found = _EXAMPLE.search(page)
    if found is None:
        raise ValueError("no example of scrape_configs in the page")
    configs: list[dict[str, Any]] = yaml.safe_load(found[1])["scrape_configs"]
    return configs


def configuration(page: str, targets: Path, rules: Path) -> dict[str, Any]:
    """Return prometheus.yml: the example of the docs, with targets of a file, read more often."""
    configs = scrape_configs(page)
    for config in configs:
        del config["kubernetes_sd_configs"]
        config["file_sd_configs"] = [
            {"files": [str(targets)], "refresh_interval": f"{SCRAPE_SECONDS}s"}
        ]
    interval = f"{SCRAPE_SECONDS}s"
    return {
        "global": {
            "scrape_interval": interval,
            "scrape_timeout": interval,
            "evaluation_interval": interval,
        },
        "rule_files": [str(rules)],
        "scrape_configs": configs,
    }


def quick_rules(rendered: str) -> list[dict[str, Any]]:
    """Return the groups of the rendered PrometheusRule, with alerts that fire quickly."""
    found = [
        document
        for document in yaml.safe_load_all(rendered)
        if document and document["kind"] == "PrometheusRule"
    ]
    groups = found[0]["spec"]["groups"]
    return [dict(group) for group in quick(groups, FOR_SECONDS, SCRAPE_SECONDS)]

"""Check the dashboard and the alerts with a real Prometheus that reads the local cluster."""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from localcluster.settings import CLONE, current_paths
from monitortest import checks
from monitortest.catalogue import CAUSES
from monitortest.configuration import SCRAPE_SECONDS, THRESHOLDS, configuration, quick_rules
from monitortest.discovery import targets
from monitortest.prometheus import Prometheus, running
from monitortest.queries import Query, dashboard_queries, rule_queries, rules
from monitortest.reference import PAGE
from monitortest.site import NAMESPACE, SYSTEM_PODS, TOPOLOGIES, Site, repeating
from showcase import install
from showcase.kubectl import wait_for
from soaktest import namespace
from soaktest.client import Client
from soaktest.trial import FAILURES, trial, write

_QUERIES: Final = "queries"
_ALL: Final = "all"
_CHART: Final = CLONE / "charts" / "gputopo"
_DASHBOARD: Final = _CHART / "files" / "dashboards" / "gputopo.json"


def main(arguments: Sequence[str]) -> int:
    """Run the named checks; return 1 if a query has no data or an alert does not fire."""
    options = _parser().parse_args(arguments)
    names = [*CAUSES, _QUERIES] if _ALL in options.checks else options.checks
    with trial(keep_cluster=options.installed), ExitStack() as stack:
        installed = (
            install.on_running_cluster()
            if options.installed
            else install.on_local_cluster(_say, install.SHORT_SAMPLES)
        )
        groups = _rules(installed)
        site = stack.enter_context(_site(installed, options))
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="gputopo-prometheus-"))
        )
        pods = folder / "targets.json"
        _write_targets(site, pods)
        stack.enter_context(repeating(SCRAPE_SECONDS, lambda _: _write_targets(site, pods)))
        settings = configuration(PAGE.read_text(), pods, folder / "rules.yaml")
        prometheus = stack.enter_context(running(folder, settings, groups))
        results = _check(site, prometheus, groups, names)
    write(options.output, checks.document(*results), checks.table(*results))
    alerts, queries, problems = results
    good = [*(one.is_good for one in alerts), *(one.is_good for one in queries)]
    return 0 if all(good) and not problems else 1


def _check(
    site: Site, prometheus: Prometheus, groups: Sequence[dict[str, Any]], names: Sequence[str]
) -> tuple[list[checks.AlertResult], list[checks.QueryResult], list[str]]:
    components = 3 + site.runs_mps  # extender, operator, agent
    wait_for("Prometheus reads all components", lambda: _all_read(prometheus, components))
    early = checks.await_quiet(prometheus, [rule["alert"] for rule in rules(groups, "alert")])
    problems = [f"{alert}: fires without a cause" for alert in early]
    alerts: list[checks.AlertResult] = []
    queries: list[checks.QueryResult] = []
    for name in names:
        _say(name)
        try:
            if name == _QUERIES:
                queries = checks.check_queries(site, prometheus, _queries(groups), _say)
            else:
                alerts += checks.check_alerts(site, prometheus, CAUSES[name], _say)
        except FAILURES as error:  # the other checks still have results
            _say(f"{name}: {error}")
            problems.append(f"{name}: {error}")
    return alerts, queries, [*problems, *prometheus.failed_rules()]


def _write_targets(site: Site, file: Path) -> None:
    new = file.with_suffix(".new.json")
    new.write_text(json.dumps(targets(site.client.get(SYSTEM_PODS)["items"])))
    new.replace(file)


def _queries(groups: Sequence[dict[str, Any]]) -> list[Query]:
    """Return the queries of the dashboard and of the recording rules."""
    dashboard = dashboard_queries(json.loads(_DASHBOARD.read_text()))
    return [*dashboard, *(each for each in rule_queries(groups) if ":" in each.place)]


def _rules(installed: install.Installed) -> list[dict[str, Any]]:
    """Return the rules of the chart, with quick alerts and low thresholds."""
    values = {"monitoring": {"rules": {"enabled": True, **THRESHOLDS}}}
    helm = installed.kubectl.binary.with_name("helm")
    rendered = subprocess.run(
        [
            *(helm, "template", "gputopo", _CHART, "--namespace", install.NAMESPACE),
            *("--values", "-"),
            *("--show-only", "templates/prometheusrule.yaml"),
        ],
        input=json.dumps(values),
        capture_output=True,
        text=True,
        check=True,
    )
    return quick_rules(rendered.stdout)


@contextmanager
def _site(installed: install.Installed, options: argparse.Namespace) -> Iterator[Site]:
    with Client(current_paths().kubeconfig) as client:
        namespace.create(client, NAMESPACE)
        nodes = {
            each["metadata"]["name"]: [link["bandwidthMBps"] for link in each["spec"]["links"]]
            for each in client.get(TOPOLOGIES)["items"]
        }
        # Links of different bandwidth, so that pods can lose bandwidth.
        slow = options.slow_node or max(nodes, key=lambda name: max(nodes[name]) / min(nodes[name]))
        try:
            yield Site(installed, client, options.node or min(nodes), slow)
        finally:
            namespace.remove(client, NAMESPACE)


def _all_read(prometheus: Prometheus, components: int) -> bool:
    """Whether so many kinds of components are read, and no target fails."""
    found = prometheus.number("count(count by (component) (gputopo_build_info))")
    return found == components and all(target["health"] == "up" for target in prometheus.targets())


def _parser() -> argparse.ArgumentParser:
    width = max(map(len, CAUSES))
    lines = [
        f"  {name:<{width}}  {one.summary}: {', '.join(one.alerts)}" for name, one in CAUSES.items()
    ]
    parser = argparse.ArgumentParser(
        prog="tools/monitoring",
        description=__doc__,
        epilog="\n".join(["checks:", *lines, f"  {_QUERIES:<{width}}  every query returns data"]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "checks",
        nargs="+",
        choices=[*CAUSES, _QUERIES, _ALL],
        metavar="CHECK",
        help=f"one or more of the names below, or `{_ALL}`",
    )
    parser.add_argument(
        "--installed", action="store_true", help="use the installed gputopo, and install nothing"
    )
    parser.add_argument("--node", help="node on which faults are caused")
    parser.add_argument("--slow-node", help="node whose links differ, for slow-links")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    return parser


def _say(text: str) -> None:
    print(f"==> {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

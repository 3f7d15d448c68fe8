"""The metrics of all components, as a table for the docs.

``PYTHONPATH=tools .venv/bin/python -m monitortest.reference`` writes the table into the page.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from prometheus_client import CollectorRegistry, Metric

from gputopo_deviceplugin.metrics import AgentMetrics
from gputopo_extender.nomination.metrics import NominationMetrics
from gputopo_extender.state.ledger import Ledger
from gputopo_extender.verbs.metrics import Metrics
from gputopo_extender.verbs.postponement.metrics import PostponementMetrics
from gputopo_extender.verbs.postponement.pods import PostponedPods
from gputopo_kube.reflector import ListWatchTiming, Reflector
from gputopo_mps.metrics import MpsMetrics
from gputopo_operator.metrics import OperatorMetrics
from localcluster.settings import CLONE

PAGE: Final = CLONE / "docs" / "operate" / "monitoring.md"
BEGIN: Final = "<!-- The next table is generated: python -m monitortest.reference -->"
END: Final = "<!-- end of the table -->"


@dataclass(frozen=True, slots=True)
class Family:
    """A metric of a component.

    Attributes:
        component: extender, operator, agent or mps; several names if they share the metric.
        name: as in queries, for example with ``_total``; histograms without ``_bucket``.
        kind: counter, gauge, histogram or info.
        labels: its labels; without those that Prometheus adds.
        values: known values of each label, if the component shows all of them from its start.
    """

    component: str
    name: str
    kind: str
    labels: tuple[str, ...]
    values: dict[str, frozenset[str]]
    text: str

    @property
    def series(self) -> frozenset[str]:
        """Names under which queries select the metric."""
        if self.kind == "histogram":
            return frozenset(f"{self.name}_{part}" for part in ("bucket", "count", "sum"))
        return frozenset({self.name})


def families() -> list[Family]:
    """Return the metrics of all components, in the order in which they are served."""
    agent, operator = AgentMetrics(), OperatorMetrics()
    operator.watch_queues(int, int)
    operator.sizing.watch_queue(int)
    kinds = ("pods", "gputopologies", "gpuprofiles")
    extender = Metrics(Ledger(), [*map(_reflector, kinds)])
    extender.watch_leader(bool)
    PostponementMetrics(extender.registry, PostponedPods(Ledger(), float))
    NominationMetrics(extender.registry)
    found: dict[str, Family] = {}
    for component, registry in (
        ("extender", extender.registry),
        ("operator", operator.registry),
        ("agent", agent.registry),
        ("mps", MpsMetrics().registry),
    ):
        for each in _of(component, registry):
            found[each.name] = _merged(found[each.name], each) if each.name in found else each
    return list(found.values())


def table(found: Iterable[Family]) -> str:
    """Return the Markdown table of the metrics."""
    lines = ["| metric | component | type | labels | meaning |", "|---|---|---|---|---|"]
    for each in found:
        labels = "; ".join(_label(each, name) for name in each.labels)
        text = each.text.removesuffix(".")
        lines.append(f"| `{each.name}` | {each.component} | {each.kind} | {labels} | {text} |")
    return "\n".join(lines)


def with_table(page: str, found: Iterable[Family]) -> str:
    """Return the text of the page with the current table."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table(found)}\n\n{END}{after}"


def _merged(one: Family, other: Family) -> Family:
    values = {name: one.values[name] | other.values[name] for name in one.values}
    return replace(one, component=f"{one.component}, {other.component}", values=values)


def _label(family: Family, name: str) -> str:
    values = sorted(family.values.get(name, ()))
    return f"{name}: {', '.join(f'`{value}`' for value in values)}" if values else name


def _of(component: str, registry: CollectorRegistry) -> Iterator[Family]:
    # prometheus_client has no public access to the labels of a metric without series.
    for collector in registry._collector_to_names:  # noqa: SLF001
        for metric in collector.collect():
            labels: Iterable[str] = (
                getattr(metric, "_labelnames", None)
                or getattr(collector, "_labelnames", None)
                or ()
            )
            if metric.type == "info":
                labels = tuple(sorted(metric.samples[0].labels))
            yield Family(
                component,
                metric.name + {"counter": "_total", "info": "_info"}.get(metric.type, ""),
                metric.type,
                tuple(labels),
                _values(metric),
                metric.documentation,
            )


def _values(metric: Metric) -> dict[str, frozenset[str]]:
    names = {label for sample in metric.samples for label in sample.labels} - {"le", "version"}
    return {
        name: frozenset(sample.labels[name] for sample in metric.samples if name in sample.labels)
        for name in names
    }


def _reflector(name: str) -> Reflector[Any]:
    ignore: Any = lambda _: None  # noqa: E731
    source: Any = None
    return Reflector(
        name, source, on_list=ignore, on_event=ignore, timing=ListWatchTiming(silence_seconds=1)
    )


def write(page: Path) -> None:
    """Write the current table into the page."""
    page.write_text(with_table(page.read_text(), families()))


if __name__ == "__main__":
    write(PAGE)

"""The queries of the dashboard and of the rules. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

Document = Mapping[str, Any]

_SELECTOR: Final = re.compile(r"\b(gputopo[_:][a-z0-9_:]*)(?:\{([^}]*)\})?")
_MATCHER: Final = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
_VARIABLES: Final = {"$__rate_interval": "5m", "$node": ".*"}


@dataclass(frozen=True, slots=True)
class Query:
    """A PromQL expression, and where it is: title of a panel, or name of a rule."""

    place: str
    expression: str


@dataclass(frozen=True, slots=True)
class Selector:
    """One metric in an expression.

    Attributes:
        matchers: label, operator and value of each matcher.
    """

    metric: str
    matchers: tuple[tuple[str, str, str], ...]


def panels(dashboard: Document) -> list[Document]:
    """Return the panels with queries, without rows."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def dashboard_queries(dashboard: Document) -> list[Query]:
    """Return the queries of a dashboard, with values for the variables of Grafana."""
    return [
        Query(panel["title"], _with_values(target["expr"]))
        for panel in panels(dashboard)
        for target in panel["targets"]
    ]


def rules(groups: Sequence[Document], kind: str) -> Iterator[Document]:
    """Yield the rules of a kind: ``record`` or ``alert``."""
    return (rule for group in groups for rule in group["rules"] if kind in rule)


def rule_queries(groups: Sequence[Document]) -> list[Query]:
    """Return the expressions of all rules."""
    return [
        Query(rule[kind], rule["expr"])
        for kind in ("record", "alert")
        for rule in rules(groups, kind)
    ]


def selectors(expression: str) -> list[Selector]:
    """Return the metrics of gputopo in an expression.

    >>> [each.metric for each in selectors('rate(gputopo_a_total{b="c"}[5m]) / gputopo:d:sum')]
    ['gputopo_a_total', 'gputopo:d:sum']
    """
    return [
        Selector(metric, tuple(_MATCHER.findall(matchers)))
        for metric, matchers in _SELECTOR.findall(expression)
    ]


def quick(groups: Sequence[Document], seconds: int, interval: int) -> list[Document]:
    """Return the groups with alerts that fire after ``seconds``, evaluated every ``interval`` s.

    ``for: 0m`` stays, because such an alert must fire at once.
    """
    return [
        {
            **group,
            "interval": f"{interval}s",
            "rules": [
                {**rule, "for": f"{seconds}s"} if rule.get("for", "0m") != "0m" else rule
                for rule in group["rules"]
            ],
        }
        for group in groups
    ]


def _with_values(expression: str) -> str:
    for variable, value in _VARIABLES.items():
        expression = expression.replace(variable, value)
    return expression

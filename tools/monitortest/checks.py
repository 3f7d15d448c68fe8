"""Checks the queries and the alerts, and collects the results."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from monitortest.catalogue import Cause
from monitortest.load import busy
from monitortest.prometheus import Prometheus
from monitortest.queries import Query
from monitortest.site import Site
from showcase.kubectl import wait_for

_QUIET_SECONDS: Final = 30.0
_FIRE_SECONDS: Final = 180.0
_END_SECONDS: Final = 120.0
_DATA_SECONDS: Final = 300.0
_POLL_SECONDS: Final = 1.0
_LOOK_BACK: Final = (
    "GputopoAgentFailures",
    "GputopoAllocationsRejected",
    "GputopoExtenderErrors",
    "GputopoMpsRestarted",
    "GputopoOperatorErrors",
    "GputopoResizesRejected",
)
"""These alerts look back for 5 minutes and more, so they do not end with their cause."""


@dataclass(frozen=True, slots=True)
class AlertResult:
    """What one alert did.

    Attributes:
        before: whether it fired before its cause.
        fired_after: seconds from the cause to the alert; None if it did not fire.
        ended_after: seconds from the end of the cause to that of the alert; None if not waited for.
        text: description of the alert.
    """

    alert: str
    cause: str
    before: bool
    fired_after: float | None
    ended_after: float | None
    text: str

    @property
    def is_good(self) -> bool:
        """Whether the alert fired by its cause only, and has a text without an empty value."""
        return not self.before and self.fired_after is not None and "<no value>" not in self.text


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The data of one query.

    Attributes:
        series: number of series with a number.
        example: the largest value; None without a number.
    """

    place: str
    expression: str
    series: int
    example: float | None

    @property
    def is_good(self) -> bool:
        """Whether the query returned a number."""
        return self.series > 0


def check_alerts(
    site: Site, prometheus: Prometheus, cause: Cause, say: Callable[[str], None]
) -> list[AlertResult]:
    """Cause a fault and return what its alerts did."""
    node = site.node if cause.of_node else None
    before = {alert: prometheus.firing(alert, node) is not None for alert in cause.alerts}
    fired: dict[str, tuple[float, str]] = {}
    began = time.monotonic()
    with cause.carry_out(site):
        caused = time.monotonic()
        while len(fired) < len(cause.alerts) and time.monotonic() - caused < _FIRE_SECONDS:
            for alert in cause.alerts:
                if alert not in fired and (found := prometheus.firing(alert, node)):
                    text = str(found["annotations"]["description"])
                    fired[alert] = (round(time.monotonic() - began, 1), text)
            time.sleep(_POLL_SECONDS)
    ended = time.monotonic()
    site.remove_pods()
    results = []
    for alert in cause.alerts:
        after, text = fired.get(alert, (None, ""))
        end = None if after is None else _seconds_to_end(prometheus, alert, node, ended)
        results.append(AlertResult(alert, cause.summary, before[alert], after, end, text))
        say(f"{alert}: fired after {after} s, ended {end} s after its cause: {text}")
    return results


def check_queries(
    site: Site, prometheus: Prometheus, queries: Sequence[Query], say: Callable[[str], None]
) -> list[QueryResult]:
    """Load the cluster, and return the data of each query once it has any."""
    found: dict[Query, QueryResult] = {}
    with busy(site):
        deadline = time.monotonic() + _DATA_SECONDS
        while len(found) < len(queries) and time.monotonic() < deadline:
            for query in queries:
                if query not in found and (result := _result(prometheus, query)).is_good:
                    found[query] = result
            time.sleep(_POLL_SECONDS)
    site.remove_pods()
    results = [found.get(query) or _result(prometheus, query) for query in queries]
    for result in results:
        if not result.is_good:
            say(f"no data: {result.place}: {result.expression}")
    return results


def await_quiet(prometheus: Prometheus, alerts: Sequence[str]) -> list[str]:
    """Wait until no alert fires; return those that fire even then."""
    try:
        wait_for(
            "no alert fires",
            lambda: not any(map(prometheus.firing, alerts)),
            timeout_s=_QUIET_SECONDS,
        )
    except TimeoutError:
        return [alert for alert in alerts if prometheus.firing(alert)]
    return []


def document(
    alerts: Sequence[AlertResult], queries: Sequence[QueryResult], problems: Sequence[str]
) -> Mapping[str, Any]:
    """Return the results as JSON values."""
    return {
        "alerts": [asdict(each) | {"good": each.is_good} for each in alerts],
        "queries": [asdict(each) | {"good": each.is_good} for each in queries],
        "problems": list(problems),
    }


def table(
    alerts: Sequence[AlertResult], queries: Sequence[QueryResult], problems: Sequence[str]
) -> Iterator[str]:
    """Yield the lines of the table."""
    for alert in alerts:
        fired = (
            "did not fire" if alert.fired_after is None else f"fired after {alert.fired_after} s"
        )
        end = "" if alert.ended_after is None else f", ended after {alert.ended_after} s"
        mark = "ok     " if alert.is_good else "FINDING"
        early = ", fired before its cause too" if alert.before else ""
        yield f"{mark} {alert.alert}: {fired}{end}{early} ({alert.cause})"
    for query in queries:
        mark = "ok     " if query.is_good else "FINDING"
        yield f"{mark} {query.place}: {query.series} series, for example {query.example}"
    yield from (f"FINDING {problem}" for problem in problems)


def _result(prometheus: Prometheus, query: Query) -> QueryResult:
    values = [value for value in prometheus.values(query.expression) if value == value]  # noqa: PLR0124
    example = max(values, default=None)
    return QueryResult(query.place, query.expression, len(values), example)


def _seconds_to_end(
    prometheus: Prometheus, alert: str, node: str | None, ended: float
) -> float | None:
    if alert in _LOOK_BACK:
        return None
    while prometheus.firing(alert, node):
        if time.monotonic() - ended > _END_SECONDS:
            return None
        time.sleep(_POLL_SECONDS)
    return round(time.monotonic() - ended, 1)

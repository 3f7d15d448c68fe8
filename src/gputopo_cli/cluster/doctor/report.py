"""Check a cluster and write the findings as text or JSON (``gputopo doctor``)."""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict

from rich.console import RenderableType
from rich.text import Text

from gputopo_cli.cluster.doctor.checks import CheckResult, keep_lasting, run_checks
from gputopo_cli.cluster.doctor.model import Finding, Severity, join_names
from gputopo_cli.cluster.doctor.read import read_cluster
from gputopo_cli.shared import output
from gputopo_cli.shared.connection import connect
from gputopo_explain.text import counted


def write_findings(context: str | None, delay_s: int, form: str) -> bool:
    """Write the findings of all checks. Return False if a finding is an error.

    If ``delay_s`` is not 0 and there are findings, run the checks again after this time. Then write
    only the findings that both runs have: the others were temporary.
    """
    with connect(context) as cluster:
        results = run_checks(read_cluster(cluster))
        if delay_s and any(result.findings for result in results):
            time.sleep(delay_s)
            results = keep_lasting(results, run_checks(read_cluster(cluster)))
    if form == "json":
        output.write_json(_document(results))
    else:
        output.show(_lines(results))
    return _total(results, Severity.ERROR) == 0


def _document(results: Sequence[CheckResult]) -> dict[str, object]:
    return {
        "checks": [
            {
                "check": result.check.name,
                "result": _worst(result),
                "notChecked": result.unread,
                "findings": [asdict(finding) for finding in result.findings],
            }
            for result in results
        ],
        "errors": _total(results, Severity.ERROR),
        "warnings": _total(results, Severity.WARNING),
        "notChecked": sum(result.unread is not None for result in results),
    }


def _lines(results: Sequence[CheckResult]) -> Iterator[RenderableType]:
    yield output.table(
        *("CHECK", "RESULT", "WHAT IS CHECKED"),
        rows=[
            (
                result.check.name,
                _worst(result),
                output.one_line(result.unread or result.check.expectation),
            )
            for result in results
        ],
    )
    for group in _group(finding for result in results for finding in result.findings):
        yield Text()
        yield from _block(group)
    yield Text()
    yield Text(_summary(results))


def _block(group: Sequence[Finding]) -> Iterator[Text]:
    """Yield findings as lines, not as cells of a table, so that users can copy the commands."""
    kind, _, first = group[0].object.partition(" ")
    names = join_names([first, *(finding.object.partition(" ")[2] for finding in group[1:])])
    differ = any(finding.todo != group[0].todo for finding in group)
    others = f" (for {first}; the others in the same way)" if differ else ""
    yield Text(f"{group[0].severity.value}: {kind} {names}", "bold")
    yield Text(f"  {output.one_line(group[0].problem)}")
    yield Text(f"  to do: {group[0].todo}{others}")


def _group(findings: Iterable[Finding]) -> Iterable[Sequence[Finding]]:
    """Group findings that differ only in the object's name."""
    together: dict[tuple[str, ...], list[Finding]] = defaultdict(list)
    for finding in findings:
        kind, _, name = finding.object.partition(" ")
        texts = [finding.problem, finding.todo]
        for part in filter(None, name.split("/")):
            texts = [text.replace(part, "\0") for text in texts]
        together[finding.severity.value, kind, *texts].append(finding)
    return together.values()


def _worst(result: CheckResult) -> str:
    """Return the highest severity, else ``not checked`` if objects are unread, else ``ok``."""
    default = "ok" if result.unread is None else "not checked"
    return next((each.value for each in Severity if result.count(each)), default)


def _total(results: Sequence[CheckResult], severity: Severity) -> int:
    return sum(result.count(severity) for result in results)


def _summary(results: Sequence[CheckResult]) -> str:
    unread = sum(result.unread is not None for result in results)
    counts = [(severity.value, _total(results, severity)) for severity in Severity]
    problems = [counted(count, word) for word, count in counts if count]
    checks = f"{len(results)} checks" + (f", {unread} of them incomplete" if unread else "")
    return f"{checks}: {', '.join(problems) or 'no problems found'}"

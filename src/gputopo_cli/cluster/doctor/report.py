"""What ``gputopo doctor`` says."""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from gputopo_cli.cluster.doctor.checks import Outcome, examine, lasting
from gputopo_cli.cluster.doctor.model import Finding, Severity, named
from gputopo_cli.cluster.doctor.read import snapshot
from gputopo_cli.kube import connected
from gputopo_cli.shared import output


def doctor(context: str | None, settle_seconds: int, form: str) -> bool:
    """Write what is wrong with an installation; return whether nothing breaks placements."""
    with connected(context) as cluster:
        found = examine(snapshot(cluster))
        if settle_seconds and any(outcome.findings for outcome in found):
            time.sleep(settle_seconds)
            found = lasting(found, examine(snapshot(cluster)))
    if form == "json":
        output.write_json(_document(found))
    else:
        output.show(_lines(found))
    return _total(found, Severity.ERROR) == 0


def _document(found: Sequence[Outcome]) -> dict[str, object]:
    return {
        "checks": [
            {
                "check": outcome.check.name,
                "result": _result(outcome),
                "notChecked": outcome.unread,
                "findings": [
                    {
                        "severity": finding.severity.value,
                        "object": finding.object,
                        "problem": finding.problem,
                        "todo": finding.todo,
                    }
                    for finding in outcome.findings
                ],
            }
            for outcome in found
        ],
        "errors": _total(found, Severity.ERROR),
        "warnings": _total(found, Severity.WARNING),
        "notChecked": sum(outcome.unread is not None for outcome in found),
    }


def _lines(found: Sequence[Outcome]) -> Iterator[RenderableType]:
    yield output.table(
        *("CHECK", "RESULT", "WHAT IS CHECKED"),
        rows=[
            (
                outcome.check.name,
                _result(outcome),
                output.one_line(outcome.unread or outcome.check.fine),
            )
            for outcome in found
        ],
    )
    for alike in _alike(finding for outcome in found for finding in outcome.findings):
        yield Text()
        yield from _block(alike)
    yield Text()
    yield Text(_summary(found))


def _block(alike: Sequence[Finding]) -> Iterator[Text]:
    """Yield lines rather than cells of a table: what to do is to be copied."""
    kind, _, first = alike[0].object.partition(" ")
    names = named([first, *(finding.object.partition(" ")[2] for finding in alike[1:])])
    differ = any(finding.todo != alike[0].todo for finding in alike)
    others = f" (for {first}, and the others likewise)" if differ else ""
    yield Text(f"{alike[0].severity.value}: {kind} {names}", "bold")
    yield Text(f"  {output.one_line(alike[0].problem)}")
    yield Text(f"  to do: {alike[0].todo}{others}")


def _alike(findings: Iterable[Finding]) -> Iterable[Sequence[Finding]]:
    """Return findings together that differ only in the object's name."""
    together: dict[tuple[str, ...], list[Finding]] = defaultdict(list)
    for finding in findings:
        kind, _, name = finding.object.partition(" ")
        texts = [finding.problem, finding.todo]
        for part in filter(None, name.split("/")):
            texts = [text.replace(part, "\0") for text in texts]
        together[finding.severity.value, kind, *texts].append(finding)
    return together.values()


def _result(outcome: Outcome) -> str:
    """Return the worst that a check found."""
    fine = "ok" if outcome.unread is None else "not checked"
    return next((each.value for each in Severity if outcome.count(each)), fine)


def _total(found: Sequence[Outcome], severity: Severity) -> int:
    return sum(outcome.count(severity) for outcome in found)


def _summary(found: Sequence[Outcome]) -> str:
    unread = sum(outcome.unread is not None for outcome in found)
    counts = [(severity.value, _total(found, severity)) for severity in Severity]
    told = [f"{count} {word}{'s' * (count != 1)}" for word, count in counts if count]
    checks = f"{len(found)} checks" + (f", {unread} of them not made" if unread else "")
    return f"{checks}: {', '.join(told) or 'nothing wrong found'}"

"""The rounds as a table and as JSON. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from failovertest.rounds import Round

MUST_BE_NONE = (
    "double allocations",
    "GPUs shared by containers",
    "containers that differ from kubelet's records",
    "pods without a GPU",
)


@dataclass(frozen=True, slots=True)
class Report:
    """The results of all rounds.

    Attributes:
        findings: texts by kind; empty without errors.
        log: file with every step.
    """

    seed: int
    rounds: Sequence[Round]
    figures: Mapping[str, int]
    findings: Mapping[str, Sequence[str]]
    log: str


def document(report: Report) -> dict[str, object]:
    """Return the report as JSON values."""
    return asdict(report)


def table(report: Report) -> Iterator[str]:
    """Yield the lines of the table."""
    yield f"seed {report.seed}, log {report.log}"
    yield ""
    line = "{:<8} {:>6} {:>13} {:>15} {:>15} {:>15} {:>13}"
    yield line.format(
        "LEADER",
        "PODS",
        "BOUND BEFORE",
        "BOUND MEANWHILE",
        "LATE REFUSALS",
        "LONGEST GAP",
        "PLACED IN",
    )
    for one in report.rounds:
        yield line.format(
            one.how,
            one.pods,
            one.bound_before,
            one.bound_meanwhile if one.how == "frozen" else "-",
            one.late_rejections if one.how == "frozen" else "-",
            f"{one.longest_gap_seconds:.1f} s",
            f"{one.placed_seconds:.1f} s",
        )
    yield ""
    kinds = dict.fromkeys((*MUST_BE_NONE, *report.findings))
    rows = {**report.figures, **{kind: len(report.findings.get(kind, ())) for kind in kinds}}
    width = max(map(len, rows))
    for name, value in rows.items():
        yield f"{name:<{width}}  {value:>8}"
    for kind, found in report.findings.items():
        yield ""
        yield f"{kind}:"
        yield from (f"  {text}" for text in found)

"""The summary of a run, as a table and as JSON. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

MUST_BE_NONE = (
    "double allocations",
    "GPUs shared by containers",
    "containers that differ from kubelet's records",
    "GPUs leaked",
    "differences not reported",
    "GPUJobs lost",
)


@dataclass(frozen=True, slots=True)
class Report:
    """Figures and findings of a run.

    Attributes:
        figures: in the order of the table.
        findings: texts by kind; no texts without errors.
        log: file with every step.
    """

    seed: int
    seconds: float
    figures: Mapping[str, int | float]
    findings: Mapping[str, Sequence[str]]
    log: str

    @property
    def is_clean(self) -> bool:
        """Whether there are no findings."""
        return not any(self.findings.values())


def document(report: Report) -> dict[str, object]:
    """Return the report as JSON values."""
    return {**asdict(report), "clean": report.is_clean}


def table(report: Report) -> Iterator[str]:
    """Yield the lines of the table."""
    yield f"seed {report.seed}, {report.seconds:.0f} s, log {report.log}"
    yield ""
    width = max(map(len, (*report.figures, *MUST_BE_NONE, *report.findings)))
    for name, value in report.figures.items():
        yield f"{name:<{width}}  {value:>8g}"
    yield ""
    kinds = dict.fromkeys((*MUST_BE_NONE, *report.findings))
    for kind in kinds:
        found = report.findings.get(kind, ())
        yield f"{kind:<{width}}  {len(found):>8}{'' if not found else '   <- must be 0'}"
    for kind, found in report.findings.items():
        if not found:
            continue
        yield ""
        yield f"{kind}:"
        yield from (f"  {text}" for text in found)

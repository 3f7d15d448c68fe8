"""Options and result of a scenario. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from faulttest.bench import Bench


@dataclass(frozen=True, slots=True)
class Options:
    """Length of a scenario; None stands for its own default.

    Attributes:
        rounds: how often it repeats its steps.
        seconds: how long its fault lasts.
        start_limit_seconds: how late a pod may start after the processes that it waits for.
    """

    rounds: int | None = None
    seconds: float | None = None
    start_limit_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario.

    Attributes:
        name: for the command line.
        summary: one line.
        carry_out: causes the fault, checks and repairs.
    """

    name: str
    summary: str
    carry_out: Callable[["Bench", Options], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one scenario.

    Attributes:
        seen: figures and texts by name, in order.
        findings: errors by kind.
    """

    scenario: str
    seconds: float
    seen: Mapping[str, object]
    findings: Mapping[str, Sequence[str]]

    @property
    def is_clean(self) -> bool:
        """Whether there are no findings."""
        return not any(self.findings.values())


def document(outcomes: Sequence[Outcome], log: str) -> dict[str, object]:
    """Return the outcomes as JSON values."""
    return {
        "scenarios": [{**asdict(one), "clean": one.is_clean} for one in outcomes],
        "log": log,
    }


def table(outcomes: Sequence[Outcome], log: str) -> Iterator[str]:
    """Yield the lines of the table."""
    for one in outcomes:
        verdict = "as it must be" if one.is_clean else "FINDINGS"
        yield f"{one.scenario}: {verdict} ({one.seconds:.0f} s)"
        for name, value in one.seen.items():
            if rows := _rows(value):
                yield f"  {name}:"
                yield from (f"    {line}" for line in _aligned(rows))
            else:
                yield f"  {name}: {_text(value)}"
        for kind, found in one.findings.items():
            yield f"  FINDING {kind}:"
            yield from (f"    {text}" for text in found)
        yield ""
    yield f"log {log}"


def _rows(value: object) -> list[Mapping[str, object]]:
    """Return the rows of a table; a list of mappings is one."""
    rows = value if isinstance(value, list) else []
    return rows if all(isinstance(row, Mapping) for row in rows) else []


def _aligned(rows: Sequence[Mapping[str, object]]) -> Iterator[str]:
    """Yield the header and the rows; the columns are those of the first row."""
    columns = list(rows[0])
    cells = [columns, *([_text(row.get(column, "")) for column in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        yield "  ".join(map(str.ljust, line, widths)).rstrip()


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_text(each)}" for name, each in value.items())
    return f"{value:.2f}" if isinstance(value, float) else str(value)

"""Parse job lists: MAPA's rows, CSV with a header, or JSON.

The content decides the format. Text that begins with a bracket is JSON. If the first row begins
with a number, all rows are MAPA's rows; if not, the first row is a header. MAPA's rows have:

- six columns: gpus, pattern, arrival, service, bwSensitive (0 or 1), script;
- four columns in MAPA's first versions: gpus, pattern, service, bwSensitive.

A header may also use these column names. A column ``seed``, empty lines and lines that begin with
``#`` are ignored.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, ValidationError

from gputopo.api.v1alpha1 import Edge
from gputopo.patterns.model import MAX_GPUS_PER_POD, PatternError, PatternKind, build
from gputopo.runtime.messages import first_error, quoted
from gputopo.sensitivity.resolve import Sensitivity, resolve_sensitivity
from gputopo_simulate.errors import SimulationError
from gputopo_simulate.mapa.model import SimulatedJob, check_jobs
from gputopo_simulate.mapa.profiles import MeasuredWorkload
from gputopo_simulate.mapa.timelaw import normalized_name
from gputopo_simulate.tables import cells_of

_MAPA_COLUMNS: Final[Mapping[int, tuple[str, ...]]] = MappingProxyType(
    {
        6: ("gpus", "pattern", "arrival", "service", "sensitive", "workload"),
        4: ("gpus", "pattern", "service", "sensitive"),
    }
)

_OTHER_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "job": "id",
        "bw_sensitive": "sensitive",
        "bwSensitive": "sensitive",
        "net": "workload",
        "script": "workload",
    }
)
"""Column names in MAPA's lists with a header, with the names that gputopo uses."""

_MAPA_WORDS: Final[Mapping[str, PatternKind]] = MappingProxyType(
    {
        "cyclic": PatternKind.RING,
        "all": PatternKind.ALL_TO_ALL,
        "clique": PatternKind.ALL_TO_ALL,
    }
)
"""Names of patterns in MAPA's lists."""

_WORDS: Final[Mapping[str, PatternKind]] = MappingProxyType(
    {re.sub(r"(?<!^)(?=[A-Z])", "-", kind).lower(): kind for kind in PatternKind}
    | dict(_MAPA_WORDS)
)
"""Patterns by the names in messages. In a list, dashes may be left out."""

_PATTERNS: Final[Mapping[str, PatternKind]] = MappingProxyType(
    {word.replace("-", ""): kind for word, kind in _WORDS.items()}
)

_NO_EDGES: Final = "edges can be given in a JSON job list only"

_SEED: Final = "seed"
"""A column with the seed of a generated list. This column is ignored."""

_Number = Annotated[StrictInt, Field(gt=-(10**18), lt=10**18)]
_Name = Annotated[StrictStr, Field(max_length=253)]
_UNION: Final = frozenset({"constrained-int", "constrained-str"})
"""Members of the union in pydantic's error paths, which are not fields."""


class _JobRow(BaseModel):
    """One job of a list; see ``docs/simulate/simulator.md``."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    id: _Number | _Name | None = None
    gpus: Annotated[int, Field(ge=1, le=MAX_GPUS_PER_POD)]
    pattern: str = "ring"
    arrival: Annotated[float, Field(ge=0)] = 0.0
    service: Annotated[float, Field(gt=0)]
    sensitive: bool | None = None
    workload: str | None = None
    edges: list[Edge] = []


@dataclass(frozen=True, slots=True)
class _RowLocation:
    """Location of a row for error messages: ``line`` in CSV, ``index`` in JSON."""

    line: int | None
    index: int

    def field(self, field: str) -> str:
        """Return the location of a field of the row."""
        if self.line is None:
            return f"jobs[{self.index}].{field}"
        return f"jobs: line {self.line}, {field}"


def parse_jobs(
    text: str, profiles: Mapping[str, MeasuredWorkload] = MappingProxyType({})
) -> tuple[SimulatedJob, ...]:
    """Return the jobs in the order of the list.

    The default ID of a job is the number of its row, from 0. If a job has no ``sensitive``, the
    profile of its workload in ``profiles`` decides. Without a profile, a job of several GPUs is
    sensitive.

    Raises:
        SimulationError: the text is not a job list; the message names line, column, value.
    """
    strict = text.lstrip()[:1] in {"[", "{"}
    rows = _json_rows(text) if strict else _csv_rows(text)
    jobs = tuple(_parse_job(location, row, profiles, strict=strict) for location, row in rows)
    if not jobs:
        raise SimulationError("jobs: the list is empty")
    check_jobs(jobs)
    return jobs


def _json_rows(text: str) -> Iterator[tuple[_RowLocation, object]]:
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise SimulationError(
            f"jobs: line {error.lineno}, column {error.colno}: {error.msg}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise SimulationError(f"jobs: invalid JSON: {error}") from None
    rows = document.get("jobs") if isinstance(document, dict) else document
    if not isinstance(rows, list):
        raise SimulationError('jobs: JSON must be a list of jobs, or {"jobs": [...]}')
    return ((_RowLocation(None, index), row) for index, row in enumerate(rows))


def _csv_rows(text: str) -> Iterator[tuple[_RowLocation, object]]:
    lines = list(cells_of("jobs", text))
    if not lines:
        return
    first = lines[0][1]
    if first[0].lstrip("+-")[:1].isdigit():
        columns = _mapa_columns(lines[0])
    else:
        columns = _header(lines.pop(0))
    for index, (line, cells) in enumerate(lines):
        if len(cells) != len(columns):
            raise SimulationError(
                f"jobs: line {line}: {len(cells)} columns; expected {len(columns)}"
                f" ({', '.join(columns)})"
            )
        named = zip(columns, cells, strict=True)
        filled = {name: cell for name, cell in named if cell and name != _SEED}
        yield _RowLocation(line, index), filled | _numeric_id(filled)


def _mapa_columns(row: tuple[int, Sequence[str]]) -> Sequence[str]:
    line, cells = row
    if len(cells) not in _MAPA_COLUMNS:
        raise SimulationError(
            f"jobs: line {line}: {len(cells)} columns; rows without a header need 6 (gpus,"
            " pattern, arrival, service, bwSensitive, script) or 4 (gpus, pattern, service,"
            " bwSensitive)"
        )
    return _MAPA_COLUMNS[len(cells)]


def _header(row: tuple[int, Sequence[str]]) -> Sequence[str]:
    line, given = row
    names = [_OTHER_NAMES.get(name, name) for name in given]
    known = [name for name in _JobRow.model_fields if name != "edges"]
    for position, name in enumerate(names):
        if name not in (*known, _SEED):
            hint = f"; {_NO_EDGES}" if name == "edges" else ""
            raise SimulationError(
                f"jobs: line {line}: column {quoted(name)} is not one of {', '.join(known)}{hint}"
            )
        if name in names[:position]:
            raise SimulationError(f"jobs: line {line}: column {name!r} occurs twice")
    return names


def _numeric_id(row: Mapping[str, str]) -> dict[str, int]:
    text = row.get("id", "")
    return {"id": int(text)} if text.isascii() and text.isdecimal() and len(text) < 10 else {}  # noqa: PLR2004


def _parse_job(
    location: _RowLocation,
    row: object,
    profiles: Mapping[str, MeasuredWorkload],
    *,
    strict: bool,
) -> SimulatedJob:
    try:
        parsed = _JobRow.model_validate(row, strict=strict)
    except ValidationError as error:
        raise SimulationError(_error_text(location, error)) from None
    kind = _PATTERNS.get(parsed.pattern.replace("-", "").lower())
    if kind is None:
        names = ", ".join(_WORDS)
        raise SimulationError(
            f"{location.field('pattern')}: {quoted(parsed.pattern)} is not one of {names}"
        )
    if kind is PatternKind.CUSTOM and location.line is not None:
        raise SimulationError(
            f"{location.field('pattern')}: {quoted(parsed.pattern)} needs edges; {_NO_EDGES}"
        )
    try:
        pattern = build(kind, parsed.gpus, [edge.to_pattern_edge() for edge in parsed.edges])
    except PatternError as error:
        raise SimulationError(location.field(str(error))) from None
    sensitive = parsed.sensitive
    if sensitive is None:
        known = profiles.get(normalized_name(parsed.workload or ""))
        sensitive = resolve_sensitivity(
            Sensitivity.AUTO,
            gpus=parsed.gpus,
            percent_range=known.percent_range(parsed.gpus) if known else None,
        ).sensitive
    return SimulatedJob(
        id=location.index if parsed.id is None else parsed.id,
        pattern=pattern,
        arrival=parsed.arrival,
        service=parsed.service,
        sensitive=sensitive,
        workload=parsed.workload,
    )


def _error_text(location: _RowLocation, error: ValidationError) -> str:
    if location.line is None:
        return first_error(error, prefix=f"jobs[{location.index}]", skip=_UNION)
    return location.field(first_error(error, skip=_UNION))

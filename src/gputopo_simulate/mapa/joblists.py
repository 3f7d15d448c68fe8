"""Job lists as people have them: MAPA's rows, or our own as CSV with a header or as JSON.

They are told apart by their content. Ours is JSON if it begins with a bracket, and CSV with a
header if its first row does not begin with a number. MAPA's rows have no header:

- six columns: gpus, pattern, arrival, service, bwSensitive (0 or 1), script;
- four columns, as its first versions had: gpus, pattern, service, bwSensitive.

With a header these columns may keep their names, a ``seed`` among them, which is left out.
Empty lines and lines that begin with ``#`` are left out of rows.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, ValidationError

from gputopo.api.v1alpha1 import Edge
from gputopo.patterns.model import MAX_GPUS_PER_POD, PatternError, PatternKind, build
from gputopo.runtime.messages import first_error, quoted
from gputopo.sensitivity.resolve import Sensitivity, resolve
from gputopo.sensitivity.tables import TableError, cells_of
from gputopo_simulate.mapa.model import SimulatedJob, SimulationError, require_sound

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
"""What columns are called where MAPA's lists were given a header."""

_PATTERNS: Final[Mapping[str, PatternKind]] = MappingProxyType(
    {kind.lower(): kind for kind in PatternKind}
    | {
        "cyclic": PatternKind.RING,
        "all": PatternKind.ALL_TO_ALL,
        "clique": PatternKind.ALL_TO_ALL,
    }
)
"""Our words, and what MAPA's lists call the same."""

_SEED: Final = "seed"
"""A column that tells where a drawn list comes from; nothing follows from it."""

_Number = Annotated[StrictInt, Field(gt=-(10**18), lt=10**18)]
_Name = Annotated[StrictStr, Field(max_length=253)]
_UNION: Final = frozenset({"constrained-int", "constrained-str"})
"""What pydantic calls the two in an error: no part of the field's name."""


class _Row(BaseModel):
    """One job of a list; see ``docs/simulator.md``."""

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
class _Place:
    """Where a row stands, for whoever has to mend it; ``line`` in rows, ``index`` in JSON."""

    line: int | None
    index: int

    def of(self, field: str) -> str:
        """Return the name of one of its fields."""
        if self.line is None:
            return f"jobs[{self.index}].{field}"
        return f"jobs: line {self.line}, {field}"


def parse_jobs(text: str) -> tuple[SimulatedJob, ...]:
    """Return the jobs of a list, in its order.

    A job without an id has the number of its row, from 0. One that does not say whether it
    is sensitive is so if it has several GPUs, as in a cluster.

    Raises:
        SimulationError: on anything that is no job list; the message names line, column and
            value.
    """
    strict = text.lstrip()[:1] in {"[", "{"}
    rows = _json_rows(text) if strict else _csv_rows(text)
    jobs = tuple(_job(place, row, strict=strict) for place, row in rows)
    if not jobs:
        raise SimulationError("jobs: the list is empty")
    require_sound(jobs)
    return jobs


def _json_rows(text: str) -> Iterator[tuple[_Place, object]]:
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise SimulationError(
            f"jobs: line {error.lineno}, column {error.colno}: {error.msg}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise SimulationError(f"jobs: no JSON that can be read: {error}") from None
    rows = document.get("jobs") if isinstance(document, dict) else document
    if not isinstance(rows, list):
        raise SimulationError('jobs: JSON is a list of jobs, or {"jobs": [...]}')
    return ((_Place(None, index), row) for index, row in enumerate(rows))


def _csv_rows(text: str) -> Iterator[tuple[_Place, object]]:
    lines = list(_cells(text))
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
                f"jobs: line {line}: {len(cells)} columns, not {len(columns)}"
                f" ({', '.join(columns)})"
            )
        named = zip(columns, cells, strict=True)
        filled = {name: cell for name, cell in named if cell and name != _SEED}
        yield _Place(line, index), filled | _numbered(filled)


def _cells(text: str) -> Iterator[tuple[int, list[str]]]:
    """Return line number and cells of each row."""
    try:
        yield from cells_of("jobs", text)
    except TableError as error:
        raise SimulationError(str(error)) from None


def _mapa_columns(row: tuple[int, Sequence[str]]) -> Sequence[str]:
    line, cells = row
    if len(cells) not in _MAPA_COLUMNS:
        raise SimulationError(
            f"jobs: line {line}: {len(cells)} columns; rows without a header have 6 (gpus,"
            " pattern, arrival, service, bwSensitive, script) or 4 (gpus, pattern, service,"
            " bwSensitive)"
        )
    return _MAPA_COLUMNS[len(cells)]


def _header(row: tuple[int, Sequence[str]]) -> Sequence[str]:
    line, given = row
    names = [_OTHER_NAMES.get(name, name) for name in given]
    known = [name for name in _Row.model_fields if name != "edges"]
    for position, name in enumerate(names):
        if name not in (*known, _SEED):
            raise SimulationError(
                f"jobs: line {line}: column {quoted(name)} is not one of {', '.join(known)}"
            )
        if name in names[:position]:
            raise SimulationError(f"jobs: line {line}: column {name!r} is there twice")
    return names


def _numbered(row: Mapping[str, str]) -> dict[str, int]:
    """Return the id of a row as a number, where it is one."""
    text = row.get("id", "")
    return {"id": int(text)} if text.isascii() and text.isdecimal() and len(text) < 10 else {}  # noqa: PLR2004


def _job(place: _Place, row: object, *, strict: bool) -> SimulatedJob:
    try:
        read = _Row.model_validate(row, strict=strict)
    except ValidationError as error:
        raise SimulationError(_first(place, error)) from None
    kind = _PATTERNS.get(read.pattern.replace("-", "").lower())
    if kind is None:
        words = ", ".join(_PATTERNS)
        raise SimulationError(
            f"{place.of('pattern')}: {quoted(read.pattern)} is not one of {words}"
        )
    try:
        pattern = build(kind, read.gpus, [edge.to_pattern_edge() for edge in read.edges])
    except PatternError as error:
        raise SimulationError(place.of(str(error))) from None
    sensitive = read.sensitive
    if sensitive is None:
        sensitive = resolve(Sensitivity.AUTO, gpus=read.gpus).sensitive
    return SimulatedJob(
        id=place.index if read.id is None else read.id,
        pattern=pattern,
        arrival=read.arrival,
        service=read.service,
        sensitive=sensitive,
        workload=read.workload,
    )


def _first(place: _Place, error: ValidationError) -> str:
    if place.line is None:
        return first_error(error, prefix=f"jobs[{place.index}]", skip=_UNION)
    return place.of(first_error(error, skip=_UNION))

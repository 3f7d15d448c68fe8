"""The states of a run as a table and as JSON. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field


@dataclass(slots=True)
class State:
    """One state of the installation.

    Attributes:
        seconds: from the helm command until only the pods of this state run.
        rejected: pods, created during the transition, that kubelet rejected.
        notes: what a reader should know, which is no problem.
        problems: what must not be.
    """

    name: str
    seconds: float = 0.0
    rejected: int = 0
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def document(revision: str, states: Sequence[State]) -> dict[str, object]:
    """Return the run as JSON values."""
    return {"from": revision, "states": [asdict(state) for state in states]}


def table(revision: str, states: Sequence[State]) -> Iterator[str]:
    """Yield the lines of the table."""
    yield f"previous version: {revision}"
    yield ""
    line = "{:<32} {:>8} {:>9} {:>9}"
    yield line.format("STATE", "SECONDS", "REJECTED", "PROBLEMS")
    for state in states:
        yield line.format(state.name, f"{state.seconds:.1f}", state.rejected, len(state.problems))
    for state in states:
        for kind, texts in (("problem", state.problems), ("note", state.notes)):
            yield from (f"{kind} in {state.name!r}: {text}" for text in texts)

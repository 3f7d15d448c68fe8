"""Counts modules, returns and upward calls in recorded calls. Pure."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple


class Call(NamedTuple):
    """The first call from one function to another; the caller of a task is empty."""

    caller_module: str
    caller: str
    module: str
    function: str


@dataclass(frozen=True, slots=True)
class Report:
    """Counts of the calls of one root.

    Attributes:
        path: modules in the order in which calls enter them.
        returns: calls into a module that was entered before, from another module.
        upward: calls into a module that depends on the caller's module by its imports, which the
            caller can only know through a callback or a reference that was handed down.
    """

    root: str
    modules: int
    functions: int
    returns: int
    upward: tuple[Call, ...]
    path: tuple[str, ...]


def report(
    root: str,
    calls: Sequence[Call],
    depends: Callable[[str, str], bool],
    package: str = "",
) -> Report:
    """Return the counts; ``depends(a, b)`` says whether module a imports module b, if indirectly.

    With ``package``, modules and returns are counted in this package only: what a call does in
    another package is a part of the module that calls it.

    Example: verbs -> ledger, verbs -> evaluate, evaluate -> ledger enters ledger, evaluate and
    ledger again: 3 modules with verbs, 1 return, 0 upward calls.
    """
    path = tuple(_path(calls, package))
    upward = tuple(
        call
        for call in calls
        if call.caller_module
        and call.caller_module != call.module
        and depends(call.module, call.caller_module)
        and not depends(call.caller_module, call.module)
    )
    modules = len(set(path))
    return Report(
        root=root,
        modules=modules,
        functions=len({(call.module, call.function) for call in calls}),
        returns=len(path) - modules,
        upward=upward,
        path=path,
    )


def fullest(records: Iterable[tuple[str, Sequence[Call]]]) -> dict[str, Sequence[Call]]:
    """Return for each root the record with the most calls; others ended early."""
    best: dict[str, Sequence[Call]] = {}
    for root, calls in records:
        if len(calls) > len(best.get(root, ())):
            best[root] = calls
    return best


def lines(reports: Iterable[Report]) -> Iterator[str]:
    """Yield a table and the upward calls."""
    yield f"{'root':32} modules functions returns upward"
    for one in reports:
        yield (
            f"{one.root:32} {one.modules:7} {one.functions:9} {one.returns:7} {len(one.upward):6}"
        )
        for call in one.upward:
            yield f"    {call.caller_module}:{call.caller} -> {call.module}:{call.function}"


def document(reports: Iterable[Report]) -> list[dict[str, object]]:
    """Return the reports as JSON values."""
    return [asdict(one) for one in reports]


def _path(calls: Sequence[Call], package: str) -> Iterator[str]:
    at = ""
    for call in calls:
        if call.module.startswith(package) and call.module not in {at, call.caller_module}:
            at = call.module
            yield at

"""The terms of the regression of rates: what may differ between samples of one workload."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from math import sqrt
from operator import add
from typing import Final, Literal, NamedTuple, TypeAlias

from gputopo.api.profile import Sample
from gputopo.profiles.comparable import cpu_limit
from gputopo.profiles.regression import Column

Kind: TypeAlias = Literal["Base", "Drift", "CPUs", "Socket", "Node"]

NEIGHBOURS: Final = frozenset[Kind]({"Socket", "Node"})

ON_SOCKET: Final = 0.15
"""Prior deviation of the effect of a neighbour on the socket: SC17 (section 3) measured slowdowns
from 0 to 30 %."""

ON_NODE: Final = 0.08
"""The same for a neighbour on other sockets only; SC17 has no value for it."""

SLOWER_ON_SOCKET: Final = 0.10
"""Deviation of the half-normal prior of the same effect: the 30 % of SC17 are three deviations."""

SLOWER_ON_NODE: Final = 0.05
"""The same for a neighbour on other sockets only."""

DRIFT_PER_RUN: Final = 0.01
"""Prior deviation of the drift from one run to the next."""

MAX_NEIGHBOURS: Final = 32
"""Number of neighbours with a term of their own, for each of both scopes. The regression takes time
in proportion to the third power of the number of terms, and the API permits 64 facts."""

OTHERS: Final = "/"
"""Name of the term for all other neighbours. It ends like that of pods without a profile, because
these pods may be of any workload, too."""

_WIDE: Final = 5.0  # a factor of 150
_CPUS: Final = 1.0  # a factor of 2.7


class Term(NamedTuple):
    """One term: its coefficient has the prior N(0, deviation^2).

    Attributes:
        name: workload of a neighbour, ``OTHERS``, CPU limit, or empty.
        column: one value per sample; coefficient * value is added to the logarithm of its time.
    """

    kind: Kind
    name: str
    deviation: float
    column: Column


def terms_of(samples: Sequence[Sample]) -> list[Term]:
    """Return the terms for samples that ascend by time and have the same number of GPUs."""
    base = Term("Base", "", _WIDE, [1.0] * len(samples))
    return [base, *_drift(samples), *_cpus(samples), *_neighbours(samples)]


def nested(neighbours: Sequence[Term]) -> list[Term]:
    """Return terms of neighbours whose effects are at least 0, with half-normal priors.

    A neighbour on the same socket slows a workload at least as much as a neighbour on another
    socket. So the term for another socket applies to neighbours on any socket, and the term for the
    same socket is only the additional slowdown.
    """
    on_socket = {term.name: term.column for term in neighbours if term.kind == "Socket"}
    on_node = {term.name for term in neighbours if term.kind == "Node"}
    result: list[Term] = []
    for kind, name, _, column in neighbours:
        if kind == "Node" and name in on_socket:
            column = list(map(add, column, on_socket[name]))  # noqa: PLW2901
        on_top = sqrt(SLOWER_ON_SOCKET**2 - SLOWER_ON_NODE**2)
        alone = SLOWER_ON_NODE if kind == "Node" else SLOWER_ON_SOCKET
        deviation = on_top if kind == "Socket" and name in on_node else alone
        result.append(Term(kind, name, deviation, column))
    return result


def runs_of(samples: Sequence[Sample]) -> list[list[int]]:
    """Return the positions of the samples of each run; a run is one pod."""
    runs: dict[str, list[int]] = {}
    for index, sample in enumerate(samples):
        runs.setdefault(sample.pod_uid, []).append(index)
    return list(runs.values())


def others_on_node(sample: Sample) -> Counter[str]:
    """Return the neighbours that are on other sockets of the node only."""
    return Counter(sample.node_neighbours) - Counter(sample.socket_neighbours)


def most_frequent(counts: Mapping[str, int]) -> list[str]:
    """Return the ``MAX_NEIGHBOURS`` names with the highest counts, in alphabetical order."""
    names = sorted(counts, key=lambda name: (-counts[name], name))
    return sorted(names[:MAX_NEIGHBOURS])


def _drift(samples: Sequence[Sample]) -> Iterator[Term]:
    runs = runs_of(samples)
    if len(runs) > 1:
        column = [0.0] * len(samples)
        for number, run in enumerate(runs):
            for index in run:
                column[index] = number - (len(runs) - 1) / 2
        yield Term("Drift", "", DRIFT_PER_RUN, column)


def _cpus(samples: Sequence[Sample]) -> Iterator[Term]:
    counts = Counter(map(cpu_limit, samples))
    usual = max(counts, key=lambda limit: (counts[limit], limit))
    for limit in sorted(set(counts) - {usual}):
        yield Term("CPUs", str(limit), _CPUS, [float(cpu_limit(one) == limit) for one in samples])


def _neighbours(samples: Sequence[Sample]) -> Iterator[Term]:
    scopes: tuple[tuple[Kind, float, Callable[[Sample], Counter[str]]], ...] = (
        ("Socket", ON_SOCKET, lambda sample: Counter(sample.socket_neighbours)),
        ("Node", ON_NODE, others_on_node),
    )
    for kind, deviation, find in scopes:
        counts = [find(sample) for sample in samples]
        named = most_frequent(Counter(chain.from_iterable(counts)))
        for workload in named:
            yield Term(kind, workload, deviation, [float(count[workload]) for count in counts])
        others = [float(sum(count[name] for name in count.keys() - named)) for count in counts]
        if any(others):
            yield Term(kind, OTHERS, deviation, others)

"""Which training jobs run together, and in which order they start. Pure."""

import random
from collections.abc import Iterator, Sequence
from itertools import combinations, permutations
from typing import TypeAlias

Arrivals: TypeAlias = tuple[str, ...]
"""Workloads in the order in which one job of each starts."""


def mixed(workloads: Sequence[str], rng: random.Random) -> list[Arrivals]:
    """Return rounds in random order: each workload alone, each pair, and each pair with all others.

    A policy that fills one socket after another puts the two that start first on one socket. So
    the samples differ in what ran on the same socket, and in what ran on the other one.
    """
    found: list[Arrivals] = [(workload,) for workload in workloads]
    for pair in combinations(workloads, 2):
        others = [each for each in workloads if each not in pair]
        found.append(tuple(rng.sample(pair, 2)))
        found.append((*rng.sample(pair, 2), *rng.sample(others, len(others))))
    rng.shuffle(found)
    return found


def orders(workloads: Sequence[str], rng: random.Random, count: int) -> Iterator[Arrivals]:
    """Yield orders of all workloads; every order occurs once before one occurs again."""
    every = list(permutations(workloads))
    while count > 0:
        yield from rng.sample(every, min(count, len(every)))
        count -= len(every)

"""The best ring through every GPU set: Held and Karp's dynamic programme over bit masks.

M. Held, R. M. Karp: A dynamic programming approach to sequencing problems, 1962.
"""

from collections.abc import Sequence
from operator import add
from typing import Final

from gputopo.patterns.graph import Embedding, LinkWeights
from gputopo.topology.model import GpuMask

_NO_PATH: Final = -(2**62)

_Paths = dict[int, list[int]]
"""By set: the most that a path from the set's lowest position through all of it has, by its end."""


def ring_embeddings(weights: LinkWeights, size: int) -> dict[GpuMask, Embedding]:
    """Return the best ring through every set of ``size`` GPUs; exact.

    The order starts at the lowest GPU and is the lowest of all best orders. A ring of
    two counts its link twice, one of a single GPU has none.
    """
    paths = _longest_paths(weights.mb_per_s, size)
    found: dict[GpuMask, Embedding] = {}
    for positions in weights.sets(size):
        mask = sum(1 << position for position in positions)
        order, total = _close(weights.mb_per_s, paths, mask, positions[0])
        found[weights.mask(positions)] = Embedding(weights.gpus(order), total)
    return found


def _longest_paths(mb_per_s: Sequence[Sequence[int]], size: int) -> _Paths:
    """Return the path tables of every set of up to ``size`` positions.

    Sets come in ascending order, so those with one member less are already there.
    """
    count = len(mb_per_s)
    paths: _Paths = {}
    for mask in range(1, 1 << count):
        if mask.bit_count() > size:
            continue
        start = (mask & -mask).bit_length() - 1
        row = [_NO_PATH] * count
        if mask == 1 << start:
            row[start] = 0
        for end in range(start + 1, count):
            if mask >> end & 1:
                row[end] = max(map(add, paths[mask ^ 1 << end], mb_per_s[end]))
        paths[mask] = row
    return paths


def _close(
    mb_per_s: Sequence[Sequence[int]], paths: _Paths, mask: int, start: int
) -> tuple[list[int], int]:
    """Return the lowest of the best rings through ``mask``, and its total.

    It is walked backwards along the path tables: a ring read the other way is the
    same ring, so each step may take the lowest position that loses nothing.
    """
    order, here = [start], start
    total = left = max(map(add, paths[mask], mb_per_s[start]))
    while mask != 1 << start:
        steps = map(add, paths[mask], mb_per_s[here])
        here = next(position for position, step in enumerate(steps) if step == left)
        left = paths[mask][here]
        mask ^= 1 << here
        order.append(here)
    return order, total

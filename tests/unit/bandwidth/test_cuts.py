"""Lookup tables of branches give the capacities of an exhaustive search over sides of switches."""

import random
from collections.abc import Iterator, Mapping
from itertools import product

import numpy as np
import pytest

from gputopo.bandwidth.cuts import Branch, minimum_cuts
from gputopo.topology.model import GpuMask


def random_tree(draw: random.Random, gpus: list[int], *, top: bool = True) -> Branch:
    """Return a tree of these GPUs with random uplinks; inner branches have one or more GPUs."""
    mask = GpuMask(sum(1 << gpu for gpu in gpus))
    uplink = 0 if top else draw.randint(1, 30)
    if len(gpus) == 1:
        return Branch(mask, uplink)
    split = sorted(draw.sample(range(1, len(gpus)), draw.randint(1, min(3, len(gpus) - 1))))
    parts = [gpus[a:b] for a, b in zip([0, *split], [*split, len(gpus)], strict=True)]
    return Branch(mask, uplink, tuple(random_tree(draw, part, top=False) for part in parts))


def crossing(branch: Branch, side: Mapping[int, bool], *, above: bool) -> int:
    """Return the least capacity of the links of ``branch`` whose ends have different sides."""
    if not branch.branches:
        own = side.get(branch.gpus.bit_length() - 1, above)
        return branch.uplink_mb_per_s if own != above else 0
    return min(
        sum(crossing(below, side, above=own) for below in branch.branches)
        + (branch.uplink_mb_per_s if own != above else 0)
        for own in (False, True)
    )


def cuts(members: list[int]) -> Iterator[dict[int, bool]]:
    """Generate the sides of the members in the order of the cuts; True is the first side."""
    for sides in product((False, True), repeat=len(members) - 1):
        yield dict(zip(members, [True, *reversed(sides)], strict=True))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("count", [2, 5, 9, 12])
def test_cuts_of_random_trees_have_the_least_capacity(count: int, seed: int) -> None:
    draw = random.Random(100 * count + seed)  # noqa: S311 - repeatable, not secret
    tree = random_tree(draw, draw.sample(range(64), count))
    gpus = [gpu for gpu in range(64) if tree.gpus >> gpu & 1]
    sets = [draw.sample(gpus, min(count, 6)) for _ in range(3)]
    found = minimum_cuts(tree, np.array(sets, dtype=np.uint8).T)
    least = np.minimum(*found)
    for column, members in enumerate(sets):
        expected = [crossing(tree, side, above=True) for side in cuts(members)]
        assert least[:, column].tolist() == expected

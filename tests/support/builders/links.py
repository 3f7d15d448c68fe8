"""Bandwidths of links between GPUs."""

import random
from itertools import combinations

import numpy as np
from numpy.typing import NDArray


def random_weights(gpus: int, rates: tuple[int, ...], seed: int) -> NDArray[np.int64]:
    """Return [gpus, gpus] bandwidths of random links."""
    draw = random.Random(seed)  # noqa: S311 - repeatable, not secret
    weights = np.zeros((gpus, gpus), dtype=np.int64)
    for a, b in combinations(range(gpus), 2):
        weights[a, b] = weights[b, a] = draw.choice(rates)
    return weights

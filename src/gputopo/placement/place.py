"""Choose GPUs of one node for one job. This module is the entry point of the package."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import numpy as np

from gputopo.bandwidth.model import BandwidthModel, require_supported
from gputopo.patterns.embedding import MAX_NODE_GPUS
from gputopo.placement.feasible import FeasibleSets, SortKeys
from gputopo.placement.model import Match, NoFit, PlacementRequest
from gputopo.placement.policies import POLICIES
from gputopo.topology.keys import FingerprintKey
from gputopo.topology.model import GpuMask, NodeTopology
from gputopo.utility.surroundings import Surroundings

_CACHED_RESULTS: Final = 16_384
"""Cached results of :func:`place`; each has at most 1 KB."""


def place(
    topology: NodeTopology,
    free: GpuMask,
    request: PlacementRequest,
    model: BandwidthModel | None = None,
    surroundings: Surroundings | None = None,
    usable: GpuMask | None = None,
) -> Match | NoFit:
    """Return the free GPUs that the policy of the request chooses, or why the job does not fit.

    Nodes with the same GPU indices and links have the same result for the same arguments. So
    results and tables (see :func:`gputopo.patterns.embedding.embeddings`) are cached by the
    topology's fingerprint, a hash of the GPU indices and links.

    Args:
        topology: topology of the node.
        free: the free GPUs of the node.
        request: the request of the job, with its policy.
        model: bandwidth model; None for the default model of the node and pattern.
        surroundings: what decides the utility besides the free GPUs; None if no other job runs on
            the node and all nodes are like it. Only the policy Utility uses it.
        usable: the GPUs from which the job may get free ones; None for all. The other free GPUs
            stay free for other jobs.

    Raises:
        ValueError: if a free GPU is not in the topology.
        ModelError: if ``model`` does not support the node or the pattern.
    """
    return _cached_place(FingerprintKey(topology), free, request, model, surroundings, usable)


def ranking(
    topology: NodeTopology,
    free: GpuMask,
    request: PlacementRequest,
    model: BandwidthModel | None = None,
    surroundings: Surroundings | None = None,
    usable: GpuMask | None = None,
    *,
    most: int,
) -> tuple[Match, ...]:
    """Return up to ``most`` matches, ordered by the policy of the request, the best first.

    The first match is the result of :func:`place`. The tuple is empty if the job does not fit.

    Raises:
        ValueError: if a free GPU is not in the topology.
        ModelError: if ``model`` does not support the node or the pattern.
    """
    if _no_fit(topology, free, request, model, usable):
        return ()
    feasible = FeasibleSets(topology, free, request, model, surroundings, usable)
    best = _best_first(POLICIES[request.policy](feasible), len(feasible.sets))
    return tuple(feasible.match(choice) for choice, _ in zip(best, range(most), strict=False))


@lru_cache(_CACHED_RESULTS)
def _cached_place(
    key: FingerprintKey,
    free: GpuMask,
    request: PlacementRequest,
    model: BandwidthModel | None,
    surroundings: Surroundings | None,
    usable: GpuMask | None,
) -> Match | NoFit:
    topology = key.topology
    if no_fit := _no_fit(topology, free, request, model, usable):
        return no_fit
    return ranking(topology, free, request, model, surroundings, usable, most=1)[0]


def _best_first(keys: SortKeys, count: int) -> Iterator[int]:
    """Yield the numbers 0..count-1 by descending key; numbers with equal keys are ascending.

    Callers use only the first few numbers. So the function searches for one number at a time, which
    is faster than a sort of all numbers.
    """
    remaining = np.arange(count)
    while len(remaining):
        best = remaining
        for key in keys:
            values = key[best]
            best = best[values == values.max()]
        yield int(best[0])
        remaining = remaining[remaining != best[0]]


def _no_fit(
    topology: NodeTopology,
    free: GpuMask,
    request: PlacementRequest,
    model: BandwidthModel | None,
    usable: GpuMask | None,
) -> NoFit | None:
    if unknown := free & ~topology.mask:
        raise ValueError(f"free: GPU {unknown.bit_length() - 1} is not in the topology")
    if model is not None:
        require_supported(model, topology, request.pattern)
    size, here = request.pattern.size, len(topology.gpus)
    needs = f"needs {size} {'GPU' if size == 1 else 'GPUs'}"
    if here > MAX_NODE_GPUS:
        return NoFit(f"the node has {here} GPUs, at most {MAX_NODE_GPUS} supported", permanent=True)
    if size > here:
        return NoFit(f"{needs}, the node has {here}", permanent=True)
    if size > free.bit_count():
        return NoFit(f"{needs}, {free.bit_count()} free", permanent=False)
    if usable is not None and size > (count := (free & usable).bit_count()):
        return NoFit(f"{needs}, {count} of the free GPUs usable", permanent=False)
    return None

"""One job on one node: which of its free GPUs, if any."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import numpy as np

from gputopo.bandwidth.model import BandwidthModel, require_supported
from gputopo.patterns.embedding import MAX_NODE_GPUS
from gputopo.placement.model import Match, NoFit, PlacementRequest
from gputopo.placement.options import Keys, Options
from gputopo.placement.policies import POLICIES
from gputopo.topology.model import GpuMask, NodeTopology
from gputopo.topology.tables import FingerprintKey

ANSWERS_KEPT: Final = 16_384
"""Answers of :func:`place`; none takes more than 1 KB."""


def place(
    topology: NodeTopology,
    free: GpuMask,
    request: PlacementRequest,
    model: BandwidthModel | None = None,
) -> Match | NoFit:
    """Return the GPUs that the request's policy chooses among ``free``, or why there are none.

    The answer depends on the arguments alone, and of the node on its structure alone. The
    first call for a node structure and a pattern builds their tables (see
    :func:`gputopo.patterns.embedding.embeddings`); answers are kept.

    Args:
        topology: the node.
        free: GPUs that may be chosen.
        request: what the job needs, with its policy.
        model: of effective bandwidth; None for the default of node and pattern.

    Raises:
        ValueError: on a free GPU that the node does not have.
        ModelError: where ``model`` may not be used.
    """
    return _chosen(FingerprintKey(topology), free, request, model)


def ranking(
    topology: NodeTopology,
    free: GpuMask,
    request: PlacementRequest,
    model: BandwidthModel | None = None,
    *,
    most: int,
) -> tuple[Match, ...]:
    """Return up to ``most`` sets, best first by the policy's own keys.

    The first is the answer of :func:`place`; there is none where that is a NoFit.

    Raises:
        ValueError: on a free GPU that the node does not have.
        ModelError: where ``model`` may not be used.
    """
    if _no_fit(topology, free, request, model):
        return ()
    options = Options(topology, free, request, model)
    best = _best_first(POLICIES[request.policy](options), len(options.sets))
    return tuple(options.match(choice) for choice, _ in zip(best, range(most), strict=False))


@lru_cache(ANSWERS_KEPT)
def _chosen(
    key: FingerprintKey,
    free: GpuMask,
    request: PlacementRequest,
    model: BandwidthModel | None,
) -> Match | NoFit:
    topology = key.topology
    if no_fit := _no_fit(topology, free, request, model):
        return no_fit
    return ranking(topology, free, request, model, most=1)[0]


def _best_first(keys: Keys, count: int) -> Iterator[int]:
    """Return the places 0..count-1 by these keys, the first key first, higher is better.

    One after the other: few are ever asked for, and one costs far less than a sort.
    """
    left = np.arange(count)
    while len(left):
        best = left
        for key in keys:
            worth = key[best]
            best = best[worth == worth.max()]
        yield int(best[0])
        left = left[left != best[0]]


def _no_fit(
    topology: NodeTopology, free: GpuMask, request: PlacementRequest, model: BandwidthModel | None
) -> NoFit | None:
    if strange := free & ~topology.mask:
        raise ValueError(f"free: GPU {strange.bit_length() - 1} is not one of this node")
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
    return None

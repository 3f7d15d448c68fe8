"""The GPU sets that a policy can choose from, with their bandwidths."""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gputopo.bandwidth.effective import EffectiveTable, effective_table
from gputopo.bandwidth.model import BandwidthModel
from gputopo.bandwidth.models import PHYSICAL
from gputopo.bandwidth.preserved import preserved_table
from gputopo.patterns.embedding import embeddings
from gputopo.patterns.subsets import positions_of, subsets
from gputopo.placement.model import Match, PlacementRequest, PolicyName
from gputopo.placement.paths import path_table
from gputopo.placement.set_utility import SetUtilities, set_utilities
from gputopo.topology.model import GpuIndex, GpuMask, NodeTopology, indices_of
from gputopo.utility.surroundings import Surroundings

SortKeys = tuple[NDArray[np.int64], ...]
"""Sort keys of a policy, the most important first. Each has one value per set; high is best."""


class FeasibleSets:
    """All sets of the requested size among the free GPUs of a node; at least one set.

    All arrays have one entry for each set. The set with the lowest GPU indices is first.

    Attributes:
        topology: topology of the node.
        free: the free GPUs of the node.
        request: the request of the job.
        sets: GpuMask of each set.
        rows: row of each set in the table of embeddings.
    """

    def __init__(
        self,
        topology: NodeTopology,
        free: GpuMask,
        request: PlacementRequest,
        model: BandwidthModel | None = None,
        surroundings: Surroundings | None = None,
        usable: GpuMask | None = None,
    ) -> None:
        """Take the GPUs to choose from.

        ``surroundings`` are used by the policy Utility; without them the node is alone. ``usable``
        are the GPUs to choose from; None for all free GPUs.
        """
        self.topology = topology
        self.free = free
        self.request = request
        self._model = model
        self._surroundings = surroundings
        self._embeddings = embeddings(topology, request.pattern)
        usable = free if usable is None else GpuMask(usable & free)
        self.rows = np.flatnonzero((self._embeddings.sets & ~np.uint64(usable)) == 0)
        self.sets = self._embeddings.sets[self.rows]

    @cached_property
    def aggregate_mb_per_s(self) -> NDArray[np.int64]:
        """Aggregate bandwidth of each set's best embedding."""
        return self._embeddings.aggregate_mb_per_s[self.rows]

    @cached_property
    def effective_mb_per_s(self) -> NDArray[np.int64]:
        """Effective bandwidth of each set by the requested or default model; 0 for one GPU."""
        return self._effective.mb_per_s[self.rows]

    @cached_property
    def preserved_mb_per_s(self) -> NDArray[np.int64]:
        """Preserved bandwidth of the GPUs that stay free if the set is chosen."""
        indices = indices_of(self.topology.mask)
        chosen = subsets(len(indices), self.request.pattern.size).masks[self.rows]
        remaining = np.uint32(positions_of(indices, self.free)) & ~chosen
        return preserved_table(self.topology).take(remaining)

    @cached_property
    def utilities(self) -> SetUtilities:
        """Utilities of the sets."""
        pattern = self.request.pattern
        paths = path_table(self.topology, pattern)
        around = self._surroundings or Surroundings(paths.scale)
        return set_utilities(paths, self.rows, self.free, pattern, around)

    def match(self, choice: int) -> Match:
        """Return the match for the set ``sets[choice]``."""
        row = self.rows[choice]
        table, model = self._embeddings, self._effective.model
        return Match(
            gpus=tuple(GpuIndex(index) for index in table.orders[row].tolist()),
            aggregate_mb_per_s=int(table.aggregate_mb_per_s[row]),
            effective_mb_per_s=None if model is None else int(self._effective.mb_per_s[row]),
            model=None if model is None else model.name,
            common_mb_per_s=None if model is None else int(self._common.mb_per_s[row]),
            preserved_mb_per_s=int(self.preserved_mb_per_s[choice]),
            bound_mb_per_s=int(table.bound_mb_per_s[row]),
            utility=self.utilities.of(choice) if self._by_utility else None,
        )

    @property
    def _by_utility(self) -> bool:
        return self.request.policy is PolicyName.UTILITY

    @cached_property
    def common_mb_per_s(self) -> NDArray[np.int64]:
        """Effective bandwidth of each set by the physical model, to compare all nodes."""
        return self._common.mb_per_s[self.rows]

    @cached_property
    def _common(self) -> EffectiveTable:
        return effective_table(self.topology, self.request.pattern, PHYSICAL)

    @cached_property
    def _effective(self) -> EffectiveTable:
        return effective_table(self.topology, self.request.pattern, self._model)

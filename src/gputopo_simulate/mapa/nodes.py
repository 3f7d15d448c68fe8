"""Simulated nodes: their free GPUs, and the choice of a node for each job."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from gputopo.bandwidth.model import BandwidthModel
from gputopo.bandwidth.preserved import preserved_mb_per_s
from gputopo.patterns.embedding import MAX_NODE_GPUS
from gputopo.placement.model import Match, NoFit, PlacementRequest, PolicyName
from gputopo.placement.place import place, ranking
from gputopo.placement.score import Candidate, score_nodes
from gputopo.topology.model import GpuMask, NodeTopology, mask_of
from gputopo_simulate.errors import JobFitsNowhereError, SimulationError
from gputopo_simulate.mapa.model import GpusInUse, SimulatedJob

StateKey = tuple[str, GpuMask]
"""Fingerprint and free GPUs of a node. Nodes with equal keys are equivalent."""


@dataclass(frozen=True, slots=True)
class NodePlacement:
    """The node and GPUs of a job; ``position`` is the node's index in the sorted node names."""

    node: str
    position: int
    match: Match


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A running job: its placement and its start time."""

    placement: NodePlacement
    start: float


class SimulatedNodes:
    """Nodes and their free GPUs.

    Nodes are scored as in the extender (:mod:`gputopo.placement.score`). If several nodes have the
    best score, a job gets the first of them in this order: by fingerprint of the topology, then by
    mask of the free GPUs, then by name.
    """

    def __init__(
        self,
        nodes: Mapping[str, NodeTopology],
        policy: PolicyName,
        model: BandwidthModel | None,
        in_use: Sequence[GpusInUse] = (),
    ) -> None:
        """Start with all GPUs free, except those ``in_use``.

        Raises:
            SimulationError: there is no node, or a node has too many GPUs.
        """
        if not nodes:
            raise SimulationError("nodes: the list is empty; at least one node is needed")
        self._policy, self._model = policy, model
        self._names = sorted(nodes)
        self._topologies = {topology.fingerprint: topology for topology in nodes.values()}
        self._keys: list[StateKey] = []
        self._positions: dict[StateKey, set[int]] = {}
        self._candidates: dict[tuple[StateKey, PlacementRequest], Candidate] = {}
        never_free = _masks(use for use in in_use if use.until == inf)
        now_in_use = _masks(in_use)
        self._usable = {
            (topology.fingerprint, GpuMask(topology.mask & ~never_free.get(name, 0)))
            for name, topology in nodes.items()
        }
        for position, name in enumerate(self._names):
            if (count := len(nodes[name].gpus)) > MAX_NODE_GPUS:
                raise SimulationError(
                    f"node {name!r}: gpus: {count}; at most {MAX_NODE_GPUS} are supported"
                )
            free = GpuMask(nodes[name].mask & ~now_in_use.get(name, 0))
            self._keys.append((nodes[name].fingerprint, free))
            self._positions.setdefault(self._keys[-1], set()).add(position)

    def max_free(self) -> int:
        """Return the highest number of free GPUs of any node."""
        return max(free.bit_count() for _, free in self._positions)

    def check_fits(self, job: SimulatedJob) -> None:
        """Check that a job fits on some node when all other jobs have ended.

        Raises:
            JobFitsNowhereError: the job would never start.
            ModelError: the bandwidth model cannot be used for the job.
        """
        reasons = set()
        for fingerprint, usable in sorted(self._usable):
            topology = self._topologies[fingerprint]
            result = place(topology, usable, request_of(job, self._policy), self._model)
            if not isinstance(result, NoFit):
                return
            reasons.add(result.reason)
        raise JobFitsNowhereError(f"job {job.id!r}: fits on no node: {'; '.join(sorted(reasons))}")

    def take(self, job: SimulatedJob) -> NodePlacement:
        """Place a job and take its GPUs. At least one node must have enough free GPUs."""
        candidates = dict(self._fitting(request_of(job, self._policy)))
        scores = score_nodes(candidates, sensitive=job.sensitive)
        best = min(scores, key=lambda key: (-scores[key], key))
        position = min(self._positions[best])
        placement = NodePlacement(self._names[position], position, candidates[best].match)
        self._set_free(position, GpuMask(best[1] & ~mask_of(placement.match.gpus)))
        return placement

    def match_on_first(self, job: SimulatedJob, freed: NodePlacement | None = None) -> Match:
        """Return a job's match on the first node. The GPUs of ``freed`` count as free."""
        fingerprint, free = self._keys[0]
        more = mask_of(freed.match.gpus) if freed else 0
        key = fingerprint, GpuMask(free | more)
        return self._candidate(key, request_of(job, self._policy)).match

    def release(self, placement: NodePlacement) -> None:
        """Make the GPUs of a job free again."""
        self._free(placement.position, mask_of(placement.match.gpus))

    def release_use(self, use: GpusInUse) -> None:
        """Make GPUs free that were in use at the start."""
        self._free(self._names.index(use.node), use.gpus)

    def _free(self, position: int, gpus: GpuMask) -> None:
        self._set_free(position, GpuMask(self._keys[position][1] | gpus))

    def _fitting(self, request: PlacementRequest) -> Iterator[tuple[StateKey, Candidate]]:
        for key in self._positions:
            if key[1].bit_count() >= request.pattern.size:
                yield key, self._candidate(key, request)

    def _candidate(self, key: StateKey, request: PlacementRequest) -> Candidate:
        if (key, request) not in self._candidates:
            topology, free = self._topologies[key[0]], key[1]
            (match,) = ranking(topology, free, request, self._model, most=1)
            lost = preserved_mb_per_s(topology, free) - match.preserved_mb_per_s
            self._candidates[key, request] = Candidate(match, lost)
        return self._candidates[key, request]

    def _set_free(self, position: int, free: GpuMask) -> None:
        before = self._keys[position]
        self._positions[before].remove(position)
        if not self._positions[before]:
            del self._positions[before]
        self._keys[position] = after = before[0], free
        self._positions.setdefault(after, set()).add(position)


def _masks(uses: Iterable[GpusInUse]) -> dict[str, int]:
    """Return all GPUs of these uses by node."""
    masks: dict[str, int] = {}
    for use in uses:
        masks[use.node] = masks.get(use.node, 0) | use.gpus
    return masks


def request_of(job: SimulatedJob, policy: PolicyName) -> PlacementRequest:
    """Return the placement request of a job with this policy."""
    return PlacementRequest(job.pattern, job.sensitive, policy)

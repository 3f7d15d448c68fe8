"""The nodes of a run and their free GPUs; nodes in one state have one answer."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gputopo.bandwidth.model import BandwidthModel
from gputopo.bandwidth.preserved import preserved_mb_per_s
from gputopo.patterns.embedding import MAX_NODE_GPUS
from gputopo.placement.model import Match, NoFit, PlacementRequest, PolicyName
from gputopo.placement.place import place, ranking
from gputopo.placement.score import Candidate, score_nodes
from gputopo.topology.model import GpuMask, NodeTopology, mask_of
from gputopo_simulate.mapa.model import SimulatedJob, SimulationError

State = tuple[str, GpuMask]
"""What decides a node's answer: the fingerprint of its structure, and its free GPUs."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A node, by name and by its place in the order of names, and the GPUs that it gave."""

    node: str
    position: int
    match: Match


@dataclass(frozen=True, slots=True)
class Running:
    """A job that holds GPUs, and since when."""

    placed: Placed
    start: float


class Fleet:
    """Nodes, their free GPUs, and the choice among them.

    The node is chosen as the extender chooses it (:mod:`gputopo.placement.score`). Among the
    nodes of the best score it is the first by structure and free GPUs, so that what nodes are
    called never changes the course of a run, and then the first by name.
    """

    def __init__(
        self, nodes: Mapping[str, NodeTopology], policy: PolicyName, model: BandwidthModel | None
    ) -> None:
        """Take the nodes, all GPUs free.

        Raises:
            SimulationError: without a node, or with one that has too many GPUs.
        """
        if not nodes:
            raise SimulationError("nodes: there is none")
        self._policy, self._model = policy, model
        self._names = sorted(nodes)
        self._structures = {topology.fingerprint: topology for topology in nodes.values()}
        self._state: list[State] = []
        self._alike: dict[State, set[int]] = {}
        self._candidates: dict[tuple[State, PlacementRequest], Candidate] = {}
        for position, name in enumerate(self._names):
            if (count := len(nodes[name].gpus)) > MAX_NODE_GPUS:
                raise SimulationError(
                    f"node {name!r}: {count} GPUs, at most {MAX_NODE_GPUS} are supported"
                )
            self._state.append((nodes[name].fingerprint, nodes[name].mask))
            self._alike.setdefault(self._state[-1], set()).add(position)

    def most_free(self) -> int:
        """Return the free GPUs of the node that has most."""
        return max(free.bit_count() for _, free in self._alike)

    def require_room(self, job: SimulatedJob) -> None:
        """Do nothing for a job that some idle node takes.

        Raises:
            SimulationError: for one that would never start.
            ModelError: where the bandwidth model may not be used for it.
        """
        reasons = set()
        for topology in self._structures.values():
            answer = place(topology, topology.mask, request_of(job, self._policy), self._model)
            if not isinstance(answer, NoFit):
                return
            reasons.add(answer.reason)
        raise SimulationError(f"job {job.id!r}: fits on no node: {'; '.join(sorted(reasons))}")

    def take(self, job: SimulatedJob) -> Placed:
        """Return where ``job`` goes, its GPUs taken; some node must have enough free."""
        offers = dict(self._offers(request_of(job, self._policy)))
        scores = score_nodes(offers, sensitive=job.sensitive)
        best = min(scores, key=lambda state: (-scores[state], state))
        position = min(self._alike[best])
        placed = Placed(self._names[position], position, offers[best].match)
        self._move(position, GpuMask(best[1] & ~mask_of(placed.match.gpus)))
        return placed

    def offer(self, job: SimulatedJob, after: Placed | None = None) -> Match:
        """Return what the first node offers ``job``, or would after another job's end."""
        fingerprint, free = self._state[0]
        more = mask_of(after.match.gpus) if after else 0
        return self._candidate(
            (fingerprint, GpuMask(free | more)), request_of(job, self._policy)
        ).match

    def give_back(self, placed: Placed) -> None:
        """Free the GPUs that a job has held."""
        free = self._state[placed.position][1]
        self._move(placed.position, GpuMask(free | mask_of(placed.match.gpus)))

    def _offers(self, request: PlacementRequest) -> Iterator[tuple[State, Candidate]]:
        for state in self._alike:
            if state[1].bit_count() >= request.pattern.size:
                yield state, self._candidate(state, request)

    def _candidate(self, state: State, request: PlacementRequest) -> Candidate:
        if (state, request) not in self._candidates:
            topology, free = self._structures[state[0]], state[1]
            (match,) = ranking(topology, free, request, self._model, most=1)
            lost = preserved_mb_per_s(topology, free) - match.preserved_mb_per_s
            self._candidates[state, request] = Candidate(match, lost)
        return self._candidates[state, request]

    def _move(self, position: int, free: GpuMask) -> None:
        before = self._state[position]
        self._alike[before].remove(position)
        if not self._alike[before]:
            del self._alike[before]
        self._state[position] = after = before[0], free
        self._alike.setdefault(after, set()).add(position)


def request_of(job: SimulatedJob, policy: PolicyName) -> PlacementRequest:
    """Return the placement request of a job under this policy."""
    return PlacementRequest(job.pattern, job.sensitive, policy)

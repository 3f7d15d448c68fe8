"""Offers the nodes that have changed to the first postponed pods that could be placed there."""

import asyncio
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import NamedTuple

from gputopo.placement.score import Candidate
from gputopo_cluster.topologies import UnreadableTopology
from gputopo_cluster.usage import NodeState
from gputopo_extender.state.ledger import Ledger
from gputopo_extender.state.pod_requests import PodRequests
from gputopo_extender.verbs.evaluation_cache import EvaluationCache, TablesNotReadyError
from gputopo_extender.verbs.postponement.pods import PostponedPod, PostponedPods
from gputopo_scheduling.evaluation import AnyNodeState, NodeFit
from gputopo_scheduling.surroundings import InterferenceFacts, NodeSurroundings


class _SeenNode(NamedTuple):
    """What decides about placements on a node; both parts are compared by identity."""

    state: NodeState | UnreadableTopology
    running: NodeSurroundings


class _Evaluated(NamedTuple):
    """The keys of nodes for one request, and the results by key."""

    keys: Mapping[str, AnyNodeState]
    results: Mapping[Hashable, NodeFit]

    def fit(self, node: str) -> NodeFit:
        """Return the result of a node."""
        return self.results[self.keys[node]]


_Evaluations = Mapping[Hashable, _Evaluated]
"""The evaluation of the changed nodes for each group of equal pods."""


class OfferRounds:
    """Makes offers after changes of the ledger. filter and a background task call it.

    While no pod waits, it looks at nothing.

    Attributes:
        pods: the postponed pods.
    """

    def __init__(
        self,
        ledger: Ledger,
        cache: EvaluationCache,
        requests: PodRequests,
        pods: PostponedPods,
        clock: Callable[[], float],
    ) -> None:
        """Evaluate the changed nodes of ``ledger`` with ``cache``; ``clock`` returns Unix time."""
        self._ledger = ledger
        self._cache = cache
        self._requests = requests
        self.pods = pods
        self._clock = clock
        self._seen: dict[str, _SeenNode] | None = None
        self._facts: InterferenceFacts | None = None
        self._changes = -1
        self._lock = asyncio.Lock()

    async def run_once(self, *, begin: bool = False) -> list[PostponedPod]:
        """Make the offers that are due now; return the pods that got one.

        ``begin`` is true if the caller may then add a pod: later rounds must notice all changes
        from now on.
        """
        async with self._lock:
            if not len(self.pods) and not begin:
                self._seen = None
                return []
            changed = self._changed() | self.pods.outdated
            changed.update(self.pods.offers.expired(self._clock()))
            if not changed:
                return []
            self.pods.outdated = set()
            try:
                evaluated = await self._evaluate(changed)
            except TablesNotReadyError:
                self.pods.outdated |= changed
                return []
            return self._offer(changed, evaluated)

    def _changed(self) -> set[str]:
        """Return the nodes that have changed since the last call; all if the facts have changed."""
        facts, changes = self._ledger.interference.facts, self._ledger.changes()
        if self._seen is not None and facts is self._facts and changes == self._changes:
            return set()
        self._changes = changes
        states, surroundings = self._ledger.states(), self._ledger.surroundings
        now = {node: _SeenNode(state, surroundings(node)) for node, state in states.items()}
        before, self._seen = self._seen, now
        if facts is not self._facts:
            self._facts = facts
            self.pods.renew(self._requests.of)
            return {*now, *(before or ())}
        if before is None:
            return set()
        changed = {node for node, seen in now.items() if before.get(node) != seen}
        return changed | (before.keys() - now.keys())

    async def _evaluate(self, nodes: set[str]) -> _Evaluations:
        names = [*nodes]
        evaluated: dict[Hashable, _Evaluated] = {}
        for pod in self.pods.in_order():
            if pod.group in evaluated or (view := self._ledger.pods.get(pod.uid)) is None:
                continue  # evaluated with an equal pod, or deleted a moment ago
            keys = self._requests.states(view, pod.request, names)
            results = await self._cache.evaluate({*keys}, pod.request)
            evaluated[pod.group] = _Evaluated(dict(zip(names, keys, strict=True)), results)
        return evaluated

    def _offer(self, nodes: set[str], evaluated: _Evaluations) -> list[PostponedPod]:
        offers, pods, now = self.pods.offers, self.pods.in_order(), self._clock()
        # Thousands of pods can wait, so leave out those to which no further node can be offered.
        having = offers.pods_of(nodes)
        suited = [
            pod
            for pod in pods
            if (pod.uid in having or not offers.is_full(pod.uid)) and self._needs_offers(pod)
        ]
        offered: set[str] = set()
        for node in sorted(nodes):
            uid = offers.update(node, _suitors(suited, node, evaluated, now), now)
            if uid is not None:
                offered.add(uid)
                if offers.is_full(uid) and uid not in having:
                    suited = [pod for pod in suited if pod.uid != uid]
        return [pod for pod in pods if pod.uid in offered]

    def _needs_offers(self, pod: PostponedPod) -> bool:
        return not pod.passed and self._ledger.reservations.get(pod.uid) is None


def _suitors(
    pods: list[PostponedPod], node: str, evaluated: _Evaluations, now: float
) -> Iterator[str]:
    """Yield the pods that could be placed on a node, in order."""
    # Thousands of pods have few different requests and targets, so compare each of these once.
    accepted: dict[Hashable, bool] = {}
    for pod in pods:
        known = evaluated.get(pod.group)
        if known is None:
            continue  # the pod was deleted or added during the evaluation
        over = pod.wait.is_over(now)
        key = (id(known), over, pod.wait.decision.target_permille, pod.wait.ideal)
        if key not in accepted:
            fit = known.fit(node)
            accepted[key] = isinstance(fit, Candidate) if over else pod.wait.accepts(fit)
        if accepted[key]:
            yield pod.uid

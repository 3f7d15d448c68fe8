"""Chooses nodes for the first pods in kube-scheduler's queue, as filter would choose them.

A pod is evaluated as if the pods before it already had the GPUs that bind would give to them on
their nominated nodes. kube-scheduler also counts nominated pods when it filters a node. So a node
gets no more nominations than its CPUs, memory and other resources allow.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Final

from gputopo.placement.model import PlacementRequest
from gputopo.placement.score import Candidate
from gputopo.topology.model import GpuMask, mask_of
from gputopo_extender.nomination.nominations import (
    RETRY_SECONDS,
    UNUSED_SECONDS,
    Nominations,
)
from gputopo_extender.state.cluster_queue import ClusterQueue
from gputopo_extender.state.ledger import Ledger
from gputopo_extender.state.pod_requests import PodRequests
from gputopo_extender.state.queue_pod import QueuePod
from gputopo_extender.verbs.evaluation_cache import EvaluationCache
from gputopo_extender.verbs.in_flight import InFlightPods
from gputopo_kube.pods import PodView
from gputopo_scheduling.best_nodes import best_nodes
from gputopo_scheduling.cpu_shares import best_by_share
from gputopo_scheduling.evaluation import Evaluation, evaluation

_ALL_GPUS: Final = GpuMask(-1)


class Planner:
    """Plans nominations in the order of the queue."""

    def __init__(
        self,
        ledger: Ledger,
        cache: EvaluationCache,
        requests: PodRequests,
        queue: ClusterQueue,
        nominations: Nominations,
        *,
        in_flight: InFlightPods,
        filtered: Container[str],
    ) -> None:
        """Plan for the pods in ``queue`` beside the open ``nominations``.

        ``in_flight`` are the pods between filter and bind. ``filtered`` has the UIDs of the pods
        that kube-scheduler is trying now.
        """
        self._ledger = ledger
        self._cache = cache
        self._requests = requests
        self._in_flight = in_flight
        self._filtered = filtered
        self._queue = queue
        self._nominations = nominations
        self._fits_since: dict[bytes, float] = {}
        self._fits_at = 0.0
        self._first_since: dict[str, float] = {}

    async def plan(
        self,
        most: int,
        now: float,
        begin: Callable[[QueuePod, str], None],
        first_ones: Container[str] = (),
    ) -> None:
        """Call ``begin`` with each pod that gets a nomination, and its node; at most ``most``.

        The ``first_ones``, by UID, get none, because kube-scheduler may try them before it could
        read their nominations. But the plan counts what they need. It ends at the first other pod
        that gets none: a later pod must not take its place.

        Raises:
            TablesNotReadyError: if the tables are not built within the time limit.
        """
        waiting = self._queue.waiting()
        uids = {pod.uid for pod in waiting}
        self._first_since = {uid: at for uid, at in self._first_since.items() if uid in uids}
        planned = await self._planned()
        next_kinds = await self._next_kinds(waiting, planned, now)
        for pod in waiting:
            if pod.uid in self._nominations.open() or pod.nominated is not None:
                continue
            if self.is_being_tried(pod) or (pod.tried and pod.kind not in next_kinds):
                continue
            if most <= 0:
                return
            node = None if pod.tried else await self._choose(pod, planned, now)
            if node is None:
                if pod.tried or not self._is_held(pod, now):
                    return
            elif pod.uid not in first_ones:
                begin(pod, node)
                most -= 1

    def _is_held(self, pod: QueuePod, now: float) -> bool:
        """Whether kube-scheduler does not try a pod although all pods before it have nodes.

        kube-scheduler does not put a pod into its queue before the ResourceClaims exist that the
        pod names. No condition of the pod shows this.
        """
        return now - self._first_since.setdefault(pod.uid, now) > UNUSED_SECONDS

    async def _planned(self) -> "_Planned":
        """Return what the pods with nominations and with Bindings in flight use."""
        open_ = self._nominations.open()
        planned = _Planned(self._in_flight.gpus_by_node(without=open_))
        claims = (each.decision.claim for each in self._ledger.reservations.own())
        targets = {claim.uid: claim.node for claim in claims}
        for pod in self._queue.unbound():
            nominated = open_[pod.uid].node if pod.uid in open_ else pod.nominated
            node = targets.get(pod.uid, nominated)
            if node is not None:
                planned.amounts[node].update(pod.amounts)
                await self._take(pod, node, planned)
        return planned

    async def _take(self, pod: QueuePod, node: str, planned: "_Planned") -> None:
        """Count the GPUs that bind would give to a nominated pod. Without any, the node is full."""
        if pod.view is None or self._ledger.reservations.of_pod(pod.uid):
            return
        request = self._requests.of(pod.view)
        if not isinstance(request, PlacementRequest):
            return
        found = await self._evaluate(pod.view, request, [node], planned)
        planned.take(node, found)

    def is_being_tried(self, pod: QueuePod) -> bool:
        """Return whether filter has returned nodes for the pod, or its Binding is in flight.

        After a failure, the nodes that filter has returned are still known.
        """
        filtered = pod.uid in self._filtered and not pod.tried
        return filtered or bool(self._ledger.reservations.of_pod(pod.uid))

    async def _next_kinds(
        self, waiting: Sequence[QueuePod], planned: "_Planned", now: float
    ) -> set[bytes]:
        """Return the kinds of pods that kube-scheduler has tried in vain and may soon place.

        Only amounts, selectors and taints are considered. If another reason keeps the pods from
        their nodes, kube-scheduler has tried them again within ``RETRY_SECONDS``.
        """
        tried = {pod.kind: pod for pod in waiting if pod.tried and pod.nominated is None}
        fitting = []
        for kind, pod in tried.items():
            await asyncio.sleep(0)  # with thousands of nodes, one kind takes milliseconds
            if any(
                self._queue.fits(pod, node, planned.amounts[node])
                for node in self._queue.permitted(pod)
            ):
                fitting.append(kind)
        before = self._fits_since if now - self._fits_at <= RETRY_SECONDS else {}
        self._fits_since = {kind: before.get(kind, now) for kind in fitting}
        self._fits_at = now
        return {kind for kind, since in self._fits_since.items() if now - since < RETRY_SECONDS}

    async def _choose(self, pod: QueuePod, planned: "_Planned", now: float) -> str | None:
        """Return the node to nominate and count the pod there; None if the pod gets none."""
        view = pod.view
        if view is None or not pod.simple or not self._nominations.may_begin(pod, now):
            return None
        request = self._requests.of(view)
        # The policy Utility compares the jobs of a node; those of nominated pods do not run yet.
        if not isinstance(request, PlacementRequest) or request.surroundings is not None:
            return None
        found = await self._evaluate(view, request, self._queue.permitted(pod), planned)
        best, _ = best_by_share(
            found,
            view,
            request.size,
            self._ledger.sized_capacity,
            sensitive=request.sensitive,
        )
        node = self._first(pod, best, request, planned)
        if node is not None:
            planned.amounts[node].update(pod.amounts)
            planned.take(node, found)
        return node

    def _first(
        self, pod: QueuePod, found: Evaluation, request: PlacementRequest, planned: "_Planned"
    ) -> str | None:
        """Return the best node that has the amounts of the pod left."""
        in_flight = planned.in_flight
        without: set[str] = set()
        while best := best_nodes(
            found, request.size, in_flight, sensitive=request.sensitive, without=without
        ):
            for node in best:
                if self._queue.fits(pod, node, planned.amounts[node]):
                    return node
            without.update(best)
        return None

    async def _evaluate(
        self, view: PodView, request: PlacementRequest, nodes: list[str], planned: "_Planned"
    ) -> Evaluation:
        states = self._ledger.states_beside(view, nodes, planned.gpus)
        return evaluation(nodes, states, await self._cache.evaluate({*states}, request))


class _Planned:
    """What nominated pods will use.

    Attributes:
        amounts: by node.
        gpus: the GPUs that bind would give to them, by node.
        in_flight: number of GPUs of other pods that are between filter and bind, by node.
    """

    def __init__(self, in_flight: Mapping[str, int]) -> None:
        self.in_flight = in_flight
        self.amounts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.gpus: dict[str, GpuMask] = {}

    def take(self, node: str, found: Evaluation) -> None:
        """Count the GPUs of a pod on a node. If the pod does not fit there, the node is full."""
        fit = found.results[found.keys[found.nodes.index(node)]]
        mask = mask_of(fit.match.gpus) if isinstance(fit, Candidate) else _ALL_GPUS
        self.gpus[node] = GpuMask(self.gpus.get(node, 0) | mask)

"""Binds one pod to one node with exact GPUs. Only this module gives GPUs to pods.

The bind verb calls this module. The module chooses GPUs by the current usage of the node and
reserves them in the same step. Then it writes a claim on the GPUs to a Lease. Finally it writes the
node and the GPUs in one Binding. The reservation ends when the watch shows the pod as bound, or
when the Binding cannot succeed any more.
"""

import asyncio
from dataclasses import replace
from typing import Final
from weakref import WeakValueDictionary

from gputopo.api.replay import RecordedNodes
from gputopo.placement.model import PlacementRequest
from gputopo_cluster.claims import ClaimsError
from gputopo_cluster.usage import NodeUsage
from gputopo_extender.fencing.binding_writer import BindingWriter, BindOutcome, BindResult
from gputopo_extender.fencing.decide import decide
from gputopo_extender.fencing.fence import ClaimFence
from gputopo_extender.fencing.pod_api import PodApi
from gputopo_extender.protocol import ExtenderBindingArgs
from gputopo_extender.state.decision import Decision
from gputopo_extender.state.ledger import Ledger
from gputopo_extender.state.pod_requests import PodRequests
from gputopo_extender.state.reservations import BindingProgress
from gputopo_extender.verbs.comparisons import NodeComparisons
from gputopo_extender.verbs.evaluation_cache import EvaluationCache, TablesNotReadyError
from gputopo_extender.verbs.postponement.pods import PostponedPods
from gputopo_kube.errors import ApiError
from gputopo_kube.podmodel import PodError
from gputopo_kube.pods import PodView
from gputopo_scheduling.evaluation import Misfit, MisfitKind
from gputopo_scheduling.node_fits import match_on, missing

_MOST_TRIES: Final = 4
"""How often one bind tries again if the pod, the claims or the topology change meanwhile."""

_WRITING_SECONDS: Final = 3.0
"""A bind does not repeat its Binding after this time; kube-scheduler's httpTimeout is 5 s."""

_MOST_AT_ONCE: Final = 100
"""The annotation with all claims may have 256 KiB. A hundred claims of 8 GPUs have 60 KiB."""


class Binder:
    """Binds pods; two binds of the same pod run one after the other.

    Attributes:
        comparisons: how the nodes compared in filter, for each pod.
    """

    def __init__(
        self,
        ledger: Ledger,
        cache: EvaluationCache,
        api: PodApi,
        fence: ClaimFence,
        comparisons: NodeComparisons,
        postponed: PostponedPods,
        requests: PodRequests,
    ) -> None:
        """Choose GPUs by ``ledger``, write claims with ``fence``, send Bindings with ``api``.

        ``comparisons`` and ``postponed`` are those of the verb filter.
        """
        self._ledger = ledger
        self._cache = cache
        self._api = api
        self._fence = fence
        self.comparisons = comparisons
        self._postponed = postponed
        self._writer = BindingWriter(ledger, api, fence)
        self._requests = requests
        # A lock exists only while a bind uses it, so that locks of deleted pods do not stay.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._at_once = asyncio.Semaphore(_MOST_AT_ONCE)

    async def bind(self, args: ExtenderBindingArgs) -> BindResult:
        """Bind a pod to a node with exact GPUs. A repeated bind of a bound pod changes nothing."""
        pod = await self._find(args)
        if isinstance(pod, BindResult):
            return pod
        request = self._requests.of(pod)
        if isinstance(request, PlacementRequest):
            try:
                # Build the tables now, so that neither the decision nor other binds wait for them.
                await self._cache.evaluate(
                    {*self._requests.states(pod, request, [args.node])}, request
                )
            except TablesNotReadyError as error:
                return BindResult(BindOutcome.FAILED, str(error))
        comparison = self.comparisons.pop(pod.uid)
        compared = comparison.of_node(args.node) if comparison else None
        async with self._locks.setdefault(pod.uid, asyncio.Lock()), self._at_once:
            # Meanwhile the watch may have shown that the pod was bound or changed.
            pod = self._ledger.pods.get(pod.uid) or pod
            until = asyncio.get_running_loop().time() + _WRITING_SECONDS
            for _ in range(_MOST_TRIES):
                result = await self._try(pod, request, args.node, compared, until)
                if isinstance(result, BindResult):
                    return result
                pod = result
        return _changed(args.node)

    async def resolve_open(self) -> list[BindResult]:
        """Read the pod of each Binding in flight. If the pod is not bound, invalidate the Binding.

        The Bindings in flight are those of this process and those that other extenders claimed.
        Return the results of this process's Bindings, for the metrics.
        """
        results: list[BindResult] = []
        for reservation in self._ledger.reservations.own():
            uid = reservation.decision.claim.uid
            async with self._locks.setdefault(uid, asyncio.Lock()):
                # No bind runs while this code has the lock, so an unfinished reservation was
                # cancelled.
                now = self._ledger.reservations.get(uid)
                if now is not None and now.progress is not BindingProgress.BOUND:
                    results.append(await self._writer.resolve(now.decision))
        for claim in self._ledger.reservations.of_others():
            async with self._locks.setdefault(claim.uid, asyncio.Lock()):
                await self._fence.resolve_claim(claim)
        return results

    async def _find(self, args: ExtenderBindingArgs) -> PodView | BindResult:
        pod = self._ledger.pods.get(args.pod_uid)
        if pod is None:
            try:
                fetched = await self._api.get_pod(args.pod_namespace, args.pod_name)
            except (ApiError, PodError) as error:
                return _not_read(error)
            pod = self._ledger.pods.get(args.pod_uid) or fetched
        named = (args.pod_uid, args.pod_namespace, args.pod_name)
        if pod is None or (pod.uid, pod.namespace, pod.name) != named:
            return BindResult(
                BindOutcome.REJECTED,
                f"no pod {args.pod_namespace}/{args.pod_name} with UID {args.pod_uid} "
                f"requests {self._requests.resource}",
            )
        return pod

    async def _try(
        self,
        pod: PodView,
        request: PlacementRequest | Misfit,
        node: str,
        compared: RecordedNodes | None,
        until: float,
    ) -> BindResult | PodView:
        """Bind once; return the pod if a change of pod, node or claims requires a new try.

        If the pod's request is not ``request`` any more, the bind fails: kube-scheduler then
        chooses a node again, and filter builds the tables for the new request.

        ``compared`` is how the node compared with the others in filter; None if this is unknown.
        """
        if result := await self._result_without_decision(pod, node):
            return result
        pod = self._newest(pod)
        if pod.node is not None or not pod.live:
            return pod
        now = self._requests.of(pod)
        if isinstance(now, Misfit):
            return BindResult(BindOutcome.REJECTED, now.reason)
        if isinstance(request, Misfit) or not _is_same(now, request):
            return _changed(node)
        decision = self._decide(pod, request, node, compared)
        if isinstance(decision, BindResult):
            return decision
        # No other code runs between the decision and the reservation in ``write``.
        return await self._writer.write(decision, pod, until=until)

    def _decide(
        self,
        pod: PodView,
        request: PlacementRequest,
        node: str,
        compared: RecordedNodes | None,
    ) -> Decision | BindResult:
        """Choose GPUs of the node by its current usage; return a result if none fit."""
        usage = self._ledger.usage(node)
        if not isinstance(usage, NodeUsage):
            return BindResult(BindOutcome.NO_FIT, f"{node}: {missing(usage).reason}")
        running = self._ledger.surroundings(node)
        state = self._ledger.state_for(usage, pod)
        match = match_on(state, request, running)
        if not isinstance(match, Misfit) and not self._postponed.accepts(pod.uid, match):
            match = Misfit(MisfitKind.POSTPONED, "other pods have taken the better GPUs meanwhile")
        if isinstance(match, Misfit):
            return BindResult(BindOutcome.NO_FIT, f"{node}: {match.reason}")
        decision = decide(
            pod,
            request,
            match,
            node=node,
            usage=usage,
            compared=compared,
            running=running,
            shared=self._ledger.shared_gpu(usage, pod, match),
        )
        return self._postponed.with_end(decision, pod)

    def _newest(self, pod: PodView) -> PodView:
        """Return the pod as the watch has shown it, or ``pod`` if that is newer."""
        shown = self._ledger.pods.get(pod.uid)
        return shown if shown is not None and shown.version >= pod.version else pod

    async def _result_without_decision(self, pod: PodView, node: str) -> BindResult | None:
        """Return a result if the pod has a Binding or has ended. Otherwise load the claims."""
        earlier = self._ledger.reservations.get(pod.uid)
        target = pod.node or (earlier.decision.claim.node if earlier else None)
        elsewhere = BindResult(BindOutcome.REJECTED, f"the pod is bound or being bound to {target}")
        is_bound = earlier is not None and earlier.progress is BindingProgress.BOUND
        if pod.node is not None or is_bound:
            repeated = BindResult(BindOutcome.REPEATED)
            return await self._verified(pod, repeated if target == node else elsewhere)
        if target not in {None, node}:
            return elsewhere
        if not pod.live:
            return BindResult(BindOutcome.REJECTED, "the pod has ended")
        if earlier is not None:
            return await self._writer.resolve(earlier.decision)
        try:
            await self._fence.load(pod)
        except (ApiError, ClaimsError, PodError) as error:
            return BindResult(
                BindOutcome.FAILED, f"the claims of other extenders cannot be read: {error}"
            )
        return None

    async def _verified(self, pod: PodView, result: BindResult) -> BindResult:
        """Return a failure if etcd has lost the Binding, otherwise ``result``.

        If bind returned success for a lost Binding, kube-scheduler would never try the pod again.
        """
        try:
            stored = await self._api.get_pod(pod.namespace, pod.name)
        except (ApiError, PodError) as error:
            return _not_read(error)
        if stored is None or stored.uid != pod.uid or stored.node is not None:
            return result
        self._ledger.relist.set()
        return BindResult(
            BindOutcome.FAILED,
            "the API server has lost the Binding: waiting for a new list of pods",
        )


def _is_same(now: PlacementRequest, before: PlacementRequest) -> bool:
    """Return whether a pod still requests the same. What runs beside it may have changed."""
    return replace(now, surroundings=None) == replace(before, surroundings=None)


def _changed(node: str) -> BindResult:
    return BindResult(
        BindOutcome.FAILED,
        f"other clients keep changing the pod, node {node} or the claims: try again",
    )


def _not_read(error: Exception) -> BindResult:
    return BindResult(BindOutcome.FAILED, f"the pod cannot be read: {error}")

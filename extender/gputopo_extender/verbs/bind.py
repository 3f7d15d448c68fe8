"""Bind: the one place where GPUs are given away.

Decide from fresh state and reserve, in one step; claim, with others that were decided meanwhile;
write node and GPUs in one Binding; and keep the reservation until the pod shows it or it is certain
that it never will.
"""

import asyncio
from typing import Final, Protocol
from weakref import WeakValueDictionary

from gputopo.placement.model import PlacementRequest, PolicyName
from gputopo_extender.fencing.binding_writer import BindingWriter, BindOutcome, BindResult
from gputopo_extender.pods import newer
from gputopo_extender.protocol import ExtenderBindingArgs
from gputopo_extender.state.claim import Claim, ClaimsError
from gputopo_extender.state.decision import Decision, decide
from gputopo_extender.state.ledger import Ledger
from gputopo_extender.state.reservations import BindingProgress
from gputopo_extender.state.usage import NodeState, NodeUsage
from gputopo_extender.verbs.evaluation import Misfit, match_on, missing
from gputopo_extender.verbs.evaluation_cache import EvaluationCache, TablesNotReadyError
from gputopo_extender.verbs.request import placement_request
from gputopo_kube.errors import ApiError
from gputopo_kube.podmodel import PodError
from gputopo_kube.pods import PodView

_MOST_TRIES: Final = 4
"""Of one bind, where others change the pod, the claims or the topology meanwhile."""

_WRITING_SECONDS: Final = 3.0
"""After the begin of a bind a Binding is not written again: kube-scheduler's httpTimeout is 5 s."""

_MOST_AT_ONCE: Final = 100
"""Claims are one object of at most 256 KiB: a hundred of eight GPUs are 60."""


class Pods(Protocol):
    """Where a pod is looked up that no watch has shown yet; see ``pod_api.PodApi``."""

    async def pod(self, namespace: str, name: str) -> PodView | None:
        """Return the pod as it is now."""
        ...


class Claiming(Protocol):
    """What bind needs of the claims; see ``claiming.ClaimFence``."""

    async def load(self, pod: PodView) -> None:
        """Know what others have claimed, and whatever they had bound before."""
        ...

    async def resolve_claim(self, claim: Claim) -> None:
        """Settle a claim if that can be done now; if not, it keeps its GPUs until it can."""
        ...

    async def write(self) -> bool:
        """Claim the GPUs of all reservations; False where others have written since ``load``."""
        ...


class Binder:
    """Gives GPUs away, one bind at a time per pod."""

    def __init__(
        self,
        ledger: Ledger,
        answers: EvaluationCache,
        pods: Pods,
        claims: Claiming,
        writer: BindingWriter,
        *,
        resource: str,
        default_policy: PolicyName,
    ) -> None:
        """Decide from ``ledger``, claim by ``claims`` and bind by ``writer``."""
        self._ledger = ledger
        self._answers = answers
        self._pods = pods
        self._claims = claims
        self._writer = writer
        self._resource = resource
        self._default_policy = default_policy
        # A lock lives as long as somebody holds it or waits for it: pods come and go.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._at_once = asyncio.Semaphore(_MOST_AT_ONCE)

    async def bind(self, wanted: ExtenderBindingArgs) -> BindResult:
        """Bind a pod to a node with exact GPUs; repeating it changes nothing."""
        pod = await self._look_up(wanted)
        if isinstance(pod, BindResult):
            return pod
        request = placement_request(
            pod, resource=self._resource, default_policy=self._default_policy
        )
        try:
            await self._prepare(request, wanted.node)
        except TablesNotReadyError as error:
            return BindResult(BindOutcome.FAILED, str(error))
        async with self._lock_of(pod.uid), self._at_once:
            # Meanwhile the watch may have shown the pod bound, or another bind reserved for it.
            pod = self._ledger.pod(pod.uid) or pod
            until = asyncio.get_running_loop().time() + _WRITING_SECONDS
            for _ in range(_MOST_TRIES):
                ended = await self._try(pod, request, wanted.node, until)
                if isinstance(ended, BindResult):
                    return ended
                pod = ended
        return BindResult(
            BindOutcome.FAILED,
            f"the pod, node {wanted.node} or the claims are being changed by others: try again",
        )

    async def resolve_open(self) -> None:
        """Find out what became of the Bindings, and of the claims, that no watch has shown."""
        for reservation in self._ledger.reservations.reservations():
            uid = reservation.decision.uid
            async with self._lock_of(uid):
                # Under the lock nobody is writing: one that still says so was cancelled.
                now = self._ledger.reservations.reservation(uid)
                if now is not None and now.progress is not BindingProgress.BOUND:
                    await self._writer.resolve(now.decision)
        for claim in self._ledger.reservations.foreign():
            async with self._lock_of(claim.uid):
                await self._claims.resolve_claim(claim)

    def _lock_of(self, uid: str) -> asyncio.Lock:
        return self._locks.setdefault(uid, asyncio.Lock())

    async def _look_up(self, wanted: ExtenderBindingArgs) -> PodView | BindResult:
        pod = self._ledger.pod(wanted.pod_uid)
        if pod is None:
            try:
                fetched = await self._pods.pod(wanted.pod_namespace, wanted.pod_name)
            except (ApiError, PodError) as error:
                return BindResult(BindOutcome.FAILED, f"cannot look the pod up: {error}")
            pod = self._ledger.pod(wanted.pod_uid) or fetched
        named = (wanted.pod_uid, wanted.pod_namespace, wanted.pod_name)
        if pod is None or (pod.uid, pod.namespace, pod.name) != named:
            return BindResult(
                BindOutcome.REJECTED,
                f"no pod {wanted.pod_namespace}/{wanted.pod_name} with UID {wanted.pod_uid} "
                f"asks for {self._resource}",
            )
        return pod

    async def _prepare(self, request: PlacementRequest | Misfit, node: str) -> None:
        """Have the tables built that deciding needs, so that deciding itself does not wait."""
        state = self._ledger.states().get(node)
        if isinstance(request, PlacementRequest) and isinstance(state, NodeState):
            await self._answers.of({state}, request)

    async def _try(
        self, pod: PodView, request: PlacementRequest | Misfit, node: str, until: float
    ) -> BindResult | PodView:
        """Bind, or return the pod to try again with where something changed meanwhile."""
        if ended := await self._ended(pod, node):
            return ended
        try:
            await self._claims.load(pod)
        except (ApiError, ClaimsError, PodError) as error:
            return BindResult(
                BindOutcome.FAILED, f"cannot find out what others have claimed: {error}"
            )
        shown = newer(pod, self._ledger.pod(pod.uid))
        if shown.node is not None or not shown.live:
            return shown
        decision = self._decide(shown, request, node)
        if isinstance(decision, BindResult):
            return decision
        # Nothing was awaited since the checks: they and the reservation are one step.
        self._ledger.reserve(decision)
        return await self._carry_out(decision, shown, until)

    async def _carry_out(
        self, decision: Decision, pod: PodView, until: float
    ) -> BindResult | PodView:
        try:
            claimed = await self._claims.write()
        except ApiError as error:
            return self._writer.fail(decision, f"cannot claim its GPUs: {error}")
        if not claimed or not self._is_current(decision):
            self._writer.release(decision)
            return pod
        return await self._writer.write(
            decision, pod, until=until, is_current=lambda: self._is_current(decision)
        )

    async def _ended(self, pod: PodView, node: str) -> BindResult | None:
        """Return the answer where there is nothing left to decide."""
        open_before = self._ledger.reservations.reservation(pod.uid)
        target = pod.node or (open_before.decision.node if open_before else None)
        elsewhere = BindResult(BindOutcome.REJECTED, f"the pod is bound or being bound to {target}")
        is_bound = open_before is not None and open_before.progress is BindingProgress.BOUND
        if pod.node is not None or is_bound:
            return await self._still(
                pod, BindResult(BindOutcome.REPEATED) if target == node else elsewhere
            )
        if target not in {None, node}:
            return elsewhere
        if not pod.live:
            return BindResult(BindOutcome.REJECTED, "the pod has ended")
        return None if open_before is None else await self._writer.resolve(open_before.decision)

    async def _still(self, pod: PodView, result: BindResult) -> BindResult:
        """Return the result of a pod that is bound, unless a restored etcd has lost its Binding.

        kube-scheduler never retries a pod whose bind was answered with success.
        """
        try:
            stored = await self._pods.pod(pod.namespace, pod.name)
        except (ApiError, PodError) as error:
            return BindResult(BindOutcome.FAILED, f"cannot look the pod up: {error}")
        if stored is None or stored.uid != pod.uid or stored.node is not None:
            return result
        self._ledger.list_again()
        return BindResult(
            BindOutcome.FAILED,
            "the API server has lost the Binding: waiting for a new list of pods",
        )

    def _decide(
        self, pod: PodView, request: PlacementRequest | Misfit, node: str
    ) -> Decision | BindResult:
        if isinstance(request, Misfit):
            return BindResult(BindOutcome.REJECTED, request.reason)
        book = self._ledger.book(node)
        if not isinstance(book, NodeUsage):
            return BindResult(BindOutcome.NO_FIT, f"{node}: {missing(book).reason}")
        match = match_on(book.state, request)
        if isinstance(match, Misfit):
            return BindResult(BindOutcome.NO_FIT, f"{node}: {match.reason}")
        return decide(
            pod,
            request,
            match,
            node=node,
            generation=book.generation,
            topology=book.topology,
        )

    def _is_current(self, decision: Decision) -> bool:
        """Whether the node is as it was when its GPUs were chosen, and they are in health."""
        book = self._ledger.book(decision.node)
        return (
            isinstance(book, NodeUsage)
            and book.generation == decision.generation
            # A topology that was deleted and made anew begins with the same generation.
            and tuple(map(book.topology.uuid_of.get, decision.match.gpus)) == decision.uuids
            and book.away is None
            and decision.gpus & ~book.healthy == 0
        )

"""Claims the GPUs chosen for a pod, writes its Binding, and finds out the Binding's result.

The binder calls this module while it holds its lock for the pod. A Binding names the resource
version that the pod had when the GPUs were chosen. The API server rejects the Binding if the pod
has another version. If the result of a Binding is unknown, the writer reads the pod. If the pod is
not bound, the writer changes the pod, so that the Binding fails even if it arrives later.
"""

import asyncio
import logging
from dataclasses import dataclass, replace
from enum import StrEnum

from gputopo.api.names import GPUS_ANNOTATION
from gputopo.runtime.log import fields
from gputopo.topology.model import mask_of
from gputopo_cluster.usage import NodeState, NodeUsage
from gputopo_extender.fencing.decide import is_unchanged
from gputopo_extender.fencing.fence import ClaimFence
from gputopo_extender.fencing.pod_api import PodApi
from gputopo_extender.state.decision import Decision
from gputopo_extender.state.ledger import Ledger
from gputopo_extender.state.reservations import BindingProgress
from gputopo_kube.errors import ApiError, ConflictError, RejectedError, UnavailableError
from gputopo_kube.podmodel import PodError
from gputopo_kube.pods import PodView
from gputopo_scheduling.numa_limits import still_takes

_log = logging.getLogger(__name__)


class BindOutcome(StrEnum):
    """How a bind ended. The values are label values of a metric."""

    BOUND = "bound"
    REPEATED = "repeated"
    REJECTED = "rejected"
    NO_FIT = "no_fit"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class BindResult:
    """The result of a bind.

    Attributes:
        error: error text for kube-scheduler; empty if the pod is bound.
        decision: the decision that was carried out; set for ``BOUND`` only.
    """

    outcome: BindOutcome
    error: str = ""
    decision: Decision | None = None


class BindingWriter:
    """Claims GPUs, sends Bindings, and finds out the results of Bindings in flight."""

    def __init__(self, ledger: Ledger, api: PodApi, fence: ClaimFence) -> None:
        """Record the results of Bindings in ``ledger``."""
        self._ledger = ledger
        self._api = api
        self._fence = fence

    async def write(
        self, decision: Decision, pod: PodView, *, until: float
    ) -> BindResult | PodView:
        """Claim the GPUs of a decision and bind the pod.

        Return the pod instead of a result if the caller must choose GPUs again: another extender
        has written claims, the node has changed, the pod has ended, or the pod's GPU requests or
        ``gputopo.io/`` annotations have changed.

        After any other change of the pod, the API server rejects the Binding, because the Binding
        names the pod's old version. This method then sends the Binding again with the new version,
        until the event loop's clock shows ``until``. The old claim is enough: another extender can
        drop the claim only after it has changed a ``gputopo.io/`` annotation of the pod (ADR 8).
        """
        try:
            claimed = await self._fence.claim(decision)
        except ApiError as error:
            return self._fail(decision, f"the GPUs cannot be claimed: {error}")
        clock = asyncio.get_running_loop().time
        current, result = decision, pod
        while claimed and self._is_current(current, result):
            written = await self._bind_once(current)
            if isinstance(written, BindResult):
                return written
            result = written
            if not is_unchanged(written, pod) or clock() >= until:
                break
            current = replace(decision, claim=replace(decision.claim, version=str(written.version)))
        self._ledger.reservations.release(decision.claim.uid)
        return result

    async def resolve(self, decision: Decision) -> BindResult:
        """Find out the result of a Binding. If the pod is not bound yet, invalidate the Binding."""
        claim = decision.claim
        try:
            result = self._result(decision, await self._get_pod(decision))
            if isinstance(result, PodView):
                pod = await self._api.invalidate(claim.namespace, claim.name)
                result = self._result(decision, pod)
        except (ApiError, PodError) as error:
            return self._keep(decision, str(error))
        if isinstance(result, PodView):
            return self._fail(decision, "the API server did not bind the pod")
        return result

    def _is_current(self, decision: Decision, pod: PodView) -> bool:
        """Return whether the decision is still valid, after the time that the claim took.

        On a node whose kubelet takes GPUs by NUMA node, another pod may have ended meanwhile.
        kubelet could then take a lower NUMA node than predicted.
        """
        node = decision.claim.node
        usage = self._ledger.usage(node)
        if not isinstance(usage, NodeUsage) or not decision.is_current(usage, pod):
            return False
        if usage.numa is None:
            return True
        state = self._ledger.state_without(node, {pod.uid}, pod)
        gpus = mask_of(decision.match.gpus)
        return not isinstance(state, NodeState) or still_takes(state, pod.aligned, gpus)

    async def _bind_once(self, decision: Decision) -> BindResult | PodView:
        try:
            await self._api.bind(decision)
        except UnavailableError as error:
            _log.warning("result of Binding unknown %s", fields(**_names(decision), reason=error))
            return await self.resolve(decision)
        except ConflictError as error:
            return await self._after_conflict(decision, error)
        except RejectedError as error:
            return self._fail(decision, str(error))
        return self._bound(decision)

    async def _after_conflict(
        self, decision: Decision, conflict: ConflictError
    ) -> BindResult | PodView:
        """Read the pod to find out why the API server reported a conflict for its Binding."""
        try:
            result = self._result(decision, await self._get_pod(decision))
        except (ApiError, PodError) as error:
            return self._keep(decision, str(error))
        if isinstance(result, PodView) and str(result.version) == decision.claim.version:
            return self._fail(decision, str(conflict))
        return result

    async def _get_pod(self, decision: Decision) -> PodView | None:
        return await self._api.get_pod(decision.claim.namespace, decision.claim.name)

    def _result(self, decision: Decision, pod: PodView | None) -> BindResult | PodView:
        """Derive the Binding's result from ``pod``; return ``pod`` itself if it is not bound."""
        claim = decision.claim
        if pod is None or pod.uid != claim.uid:
            self._ledger.end_lost(claim.uid)
            return self._fail(decision, "the pod was deleted")
        if pod.node is None:
            return pod
        # Check that exactly this decision was carried out, not another Binding to the same node.
        written = decision.annotations[GPUS_ANNOTATION]
        if pod.node == claim.node and pod.annotations.get(GPUS_ANNOTATION) == written:
            return self._bound(decision)
        return self._fail(decision, f"another client bound the pod to {pod.node}")

    def _bound(self, decision: Decision) -> BindResult:
        match = decision.match
        _log.info(
            "bound %s",
            fields(
                **_names(decision),
                gpus=",".join(str(index) for index in match.gpus),
                model=match.model,
                effective_mb_per_s=match.effective_mb_per_s,
                aggregate_mb_per_s=match.aggregate_mb_per_s,
                preserved_mb_per_s=match.preserved_mb_per_s,
                reason=decision.reason,
            ),
        )
        self._ledger.reservations.mark(decision.claim.uid, BindingProgress.BOUND)
        return BindResult(BindOutcome.BOUND, decision=decision)

    def _fail(self, decision: Decision, reason: str) -> BindResult:
        """Release the reserved GPUs, because the Binding cannot succeed any more."""
        self._ledger.reservations.release(decision.claim.uid)
        _log.info("not bound %s", fields(**_names(decision), reason=reason))
        node = decision.claim.node
        return BindResult(BindOutcome.FAILED, f"binding to {node} failed: {reason}")

    def _keep(self, decision: Decision, reason: str) -> BindResult:
        """Keep the GPUs reserved, because the Binding may still succeed."""
        self._ledger.reservations.mark(decision.claim.uid, BindingProgress.UNKNOWN)
        node = decision.claim.node
        return BindResult(
            BindOutcome.UNKNOWN, f"binding to {node}: the result is not known yet: {reason}"
        )


def _names(decision: Decision) -> dict[str, object]:
    claim = decision.claim
    return {"pod": claim.pod, "uid": claim.uid, "node": claim.node}

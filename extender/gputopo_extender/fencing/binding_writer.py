"""Carries decisions out: writes Bindings, and finds out what became of them.

A Binding holds for one version of its pod only. One whose result is not known is settled by
asking for the pod, and where that still waits, by changing it: no Binding under way can succeed
then, however late it comes.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from http import HTTPStatus
from typing import Protocol

from gputopo.api.names import GPUS_ANNOTATION
from gputopo.runtime.log import fields
from gputopo_extender.state.decision import Decision, is_unchanged
from gputopo_extender.state.ledger import Ledger
from gputopo_extender.state.reservations import BindingProgress
from gputopo_kube.errors import ApiError, RejectedError, UnavailableError
from gputopo_kube.podmodel import PodError
from gputopo_kube.pods import PodView

_log = logging.getLogger(__name__)


class BindOutcome(StrEnum):
    """How a bind ended, as a label of few values."""

    BOUND = "bound"
    REPEATED = "repeated"
    REJECTED = "refused"
    NO_FIT = "no_fit"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class BindResult:
    """The answer to a bind; an empty error means bound."""

    outcome: BindOutcome
    error: str = ""


class Bindings(Protocol):
    """What bind needs of the API server; see ``pod_api.PodApi``."""

    async def pod(self, namespace: str, name: str) -> PodView | None:
        """Return the pod as it is now."""
        ...

    async def bind(self, decision: Decision) -> None:
        """Write a Binding."""
        ...

    async def invalidate(self, namespace: str, name: str) -> PodView | None:
        """Make every Binding of the pod that is under way fail; return the pod then."""
        ...


class BindingWriter:
    """Writes the Bindings of reserved decisions; call it under the lock of their pod."""

    def __init__(
        self, ledger: Ledger, bindings: Bindings, on_bound: Callable[[Decision], None]
    ) -> None:
        """Note results in ``ledger``; ``on_bound`` hears of each success."""
        self._ledger = ledger
        self._bindings = bindings
        self._on_bound = on_bound

    async def write(
        self,
        decision: Decision,
        pod: PodView,
        *,
        until: float,
        is_current: Callable[[], bool],
    ) -> BindResult | PodView:
        """Bind; return the pod where it changed since it was read, to decide again.

        Where the change does not matter to the decision, write again for the new version, until a
        time of the loop and while the node ``is_current``. The claim stands, and a client that
        takes it over changes the pod's annotations first:
        see docs/adr/0008-claims-fence-bindings.md.
        """
        clock = asyncio.get_running_loop().time
        ended = await self._once(decision)
        while isinstance(ended, PodView):
            if not is_unchanged(ended, pod) or not is_current() or clock() >= until:
                self.release(decision)
                return ended
            ended = await self._once(replace(decision, version=str(ended.version)))
        return ended

    async def _once(self, decision: Decision) -> BindResult | PodView:
        try:
            await self._bindings.bind(decision)
        except UnavailableError as error:
            _log.warning("binding unanswered %s", fields(**_names(decision), reason=error))
            return await self.resolve(decision)
        except RejectedError as error:
            if error.status == HTTPStatus.CONFLICT:
                return await self._after_conflict(decision, error)
            return self.fail(decision, str(error))
        return self._bound(decision)

    async def resolve(self, decision: Decision) -> BindResult:
        """Find out what became of a Binding, and see to it that nothing comes of it later."""
        try:
            told = self._told(decision, await self._pod(decision))
            if isinstance(told, PodView):
                pod = await self._bindings.invalidate(decision.namespace, decision.name)
                told = self._told(decision, pod)
        except (ApiError, PodError) as error:
            return self._keep(decision, str(error))
        if isinstance(told, PodView):
            return self.fail(decision, "the API server did not bind the pod")
        return told

    def fail(self, decision: Decision, reason: str) -> BindResult:
        """Take back a decision by which nobody will be bound."""
        self.release(decision)
        _log.info("not bound %s", fields(**_names(decision), reason=reason))
        return BindResult(BindOutcome.FAILED, f"binding to {decision.node} failed: {reason}")

    def release(self, decision: Decision) -> None:
        """Have the GPUs of a decision free again; the next claims tell the others."""
        self._ledger.reservations.release(decision.uid)

    async def _after_conflict(
        self, decision: Decision, conflict: RejectedError
    ) -> BindResult | PodView:
        """Find out whether the pod is bound, or has only changed since it was read."""
        try:
            told = self._told(decision, await self._pod(decision))
        except (ApiError, PodError) as error:
            return self._keep(decision, str(error))
        if not isinstance(told, PodView):
            return told
        if told.version == int(decision.version):
            return self.fail(decision, str(conflict))
        return told

    async def _pod(self, decision: Decision) -> PodView | None:
        return await self._bindings.pod(decision.namespace, decision.name)

    def _told(self, decision: Decision, pod: PodView | None) -> BindResult | PodView:
        """Return what a pod says of its Binding, or the pod where it waits for one."""
        if pod is None or pod.uid != decision.uid:
            self._ledger.end_lost(decision.uid)
            return self.fail(decision, "the pod is gone")
        if pod.node is None:
            return pod
        # Whether this very decision was carried out.
        written = decision.annotations[GPUS_ANNOTATION]
        if pod.node == decision.node and pod.annotations.get(GPUS_ANNOTATION) == written:
            return self._bound(decision)
        return self.fail(decision, f"somebody else bound the pod to {pod.node}")

    def _bound(self, decision: Decision) -> BindResult:
        self._ledger.reservations.mark(decision.uid, BindingProgress.BOUND)
        self._on_bound(decision)
        _log.info("bound %s", fields(**_names(decision), **_figures(decision)))
        return BindResult(BindOutcome.BOUND)

    def _keep(self, decision: Decision, reason: str) -> BindResult:
        self._ledger.reservations.mark(decision.uid, BindingProgress.UNKNOWN)
        return BindResult(
            BindOutcome.UNKNOWN, f"binding to {decision.node} has no known result yet: {reason}"
        )


def _names(decision: Decision) -> dict[str, object]:
    return {
        "pod": f"{decision.namespace}/{decision.name}",
        "uid": decision.uid,
        "node": decision.node,
    }


def _figures(decision: Decision) -> dict[str, object]:
    match = decision.match
    return {
        "gpus": ",".join(str(index) for index in match.gpus),
        "model": match.model,
        "effective_mb_per_s": match.effective_mb_per_s,
        "aggregate_mb_per_s": match.aggregate_mb_per_s,
        "preserved_mb_per_s": match.preserved_mb_per_s,
        "reason": decision.reason,
    }

"""Bind: the one place where GPUs are given away.

Under a lock per node: decide from fresh state, reserve, write node and GPUs in one Binding,
and keep the reservation until the pod shows it. A Binding whose result is not known is settled
by asking; its GPUs stay reserved until it is certain that it did not and cannot happen.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from typing import Protocol
from weakref import WeakValueDictionary

from gputopo.api.enums import PolicyName
from gputopo.api.names import GPUS_ANNOTATION
from gputopo.runtime.log import fields
from gputopo.wire.extender import ExtenderBindingArgs
from gputopo_extender.answers import Answers, NotReadyError
from gputopo_extender.book import Book, State
from gputopo_extender.cluster import RefusedError, UnansweredError
from gputopo_extender.decide import Decision, decide
from gputopo_extender.evaluate import Misfit, match_on, missing
from gputopo_extender.ledger import Ledger, Progress, Reservation
from gputopo_extender.pods import PodError, PodRecord
from gputopo_extender.request import Ask, Refusal, read

_log = logging.getLogger(__name__)


class Outcome(StrEnum):
    """How a bind ended, as a label of few values."""

    BOUND = "bound"
    REPEATED = "repeated"
    REFUSED = "refused"
    NO_FIT = "no_fit"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Result:
    """The answer to a bind; an empty error means bound."""

    outcome: Outcome
    error: str = ""


class Bindings(Protocol):
    """What bind needs of the API server; see ``cluster.Cluster``."""

    async def pod(self, namespace: str, name: str) -> PodRecord | None:
        """Return the pod as it is now."""
        ...

    async def bind(self, decision: Decision) -> None:
        """Write a Binding."""
        ...


class Binder:
    """Gives GPUs away, one bind at a time per node."""

    def __init__(
        self,
        ledger: Ledger,
        answers: Answers,
        bindings: Bindings,
        *,
        resource: str,
        default_policy: PolicyName,
        settle_after_seconds: float,
        on_bound: Callable[[Decision], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Decide from ``ledger``, write through ``bindings``; ``on_bound`` hears of each success.

        An unanswered Binding counts as dead after ``settle_after_seconds``, which must be more
        than the API server grants any request.
        """
        self._ledger = ledger
        self._answers = answers
        self._bindings = bindings
        self._resource = resource
        self._default_policy = default_policy
        self._settle_after_seconds = settle_after_seconds
        self._on_bound = on_bound
        self._clock = clock
        # A lock lives as long as somebody holds it or waits for it: nodes come and go.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def bind(self, wanted: ExtenderBindingArgs) -> Result:
        """Bind a pod to a node with exact GPUs; repeating it changes nothing."""
        pod = await self._look_up(wanted)
        if isinstance(pod, Result):
            return pod
        ask = read(pod, resource=self._resource, default_policy=self._default_policy)
        try:
            await self._prepare(ask, wanted.node)
        except NotReadyError as error:
            return Result(Outcome.FAILED, str(error))
        async with self._lock_of(wanted.node):
            # Meanwhile the watch may have shown the pod bound, or another bind reserved for it.
            pod = self._ledger.pod(pod.uid) or pod
            open_before = self._ledger.reservation(pod.uid)
            decision = self._choose(pod, ask, wanted.node, open_before)
            if isinstance(decision, Result):
                return decision
            self._ledger.reserve(decision, now=self._clock())
            return await self._write(decision, again=open_before is not None)

    async def settle_open(self) -> None:
        """Find out what became of the Bindings whose result is not known."""
        for reservation in self._ledger.reservations():
            uid = reservation.decision.uid
            async with self._lock_of(reservation.decision.node):
                # Under the lock nobody is writing: one that still says so was cancelled.
                now = self._ledger.reservation(uid)
                if now is None or now.progress is Progress.BOUND:
                    continue
                dead = self._clock() - now.written_at >= self._settle_after_seconds
                await self._settle(now.decision, impossible=dead)

    def _lock_of(self, node: str) -> asyncio.Lock:
        return self._locks.setdefault(node, asyncio.Lock())

    async def _look_up(self, wanted: ExtenderBindingArgs) -> PodRecord | Result:
        pod = self._ledger.pod(wanted.pod_uid)
        if pod is None:
            try:
                fetched = await self._bindings.pod(wanted.pod_namespace, wanted.pod_name)
            except (RefusedError, UnansweredError, PodError) as error:
                return Result(Outcome.FAILED, f"cannot look the pod up: {error}")
            pod = self._ledger.pod(wanted.pod_uid) or fetched
        named = (wanted.pod_uid, wanted.pod_namespace, wanted.pod_name)
        if pod is None or (pod.uid, pod.namespace, pod.name) != named:
            return Result(
                Outcome.REFUSED,
                f"no pod {wanted.pod_namespace}/{wanted.pod_name} with UID {wanted.pod_uid} "
                f"asks for {self._resource}",
            )
        return pod

    async def _prepare(self, ask: Ask | Refusal, node: str) -> None:
        """Have the tables built that deciding needs, so that deciding itself does not wait."""
        state = self._ledger.states().get(node)
        if isinstance(ask, Ask) and isinstance(state, State):
            await self._answers.of({state}, ask.shape)

    def _choose(
        self, pod: PodRecord, ask: Ask | Refusal, node: str, open_before: Reservation | None
    ) -> Decision | Result:
        """Return what to write, without waiting, so that check and reservation are one step."""
        target = pod.node or (open_before.decision.node if open_before else None)
        if target is not None and target != node:
            return Result(Outcome.REFUSED, f"the pod is bound or being bound to {target}")
        if pod.node is not None:
            return Result(Outcome.REPEATED)
        if not pod.live:
            return Result(Outcome.REFUSED, "the pod has ended")
        if open_before is None:
            return self._decide(ask, node)
        if open_before.progress is Progress.BOUND:
            return Result(Outcome.REPEATED)
        return open_before.decision

    def _decide(self, ask: Ask | Refusal, node: str) -> Decision | Result:
        if isinstance(ask, Refusal):
            return Result(Outcome.REFUSED, ask.reason)
        book = self._ledger.book(node)
        if not isinstance(book, Book):
            return Result(Outcome.NO_FIT, f"{node}: {missing(book).reason}")
        match = match_on(book.state, ask.shape)
        if isinstance(match, Misfit):
            return Result(Outcome.NO_FIT, f"{node}: {match.reason}")
        return decide(ask, match, node=node, generation=book.generation, topology=book.topology)

    async def _write(self, decision: Decision, *, again: bool) -> Result:
        try:
            await self._bindings.bind(decision)
        except UnansweredError as error:
            _log.warning("binding unanswered %s", fields(**_names(decision), reason=error))
            return await self._settle(decision, impossible=False)
        except RefusedError as error:
            if error.status == HTTPStatus.CONFLICT:
                return await self._settle(decision, impossible=not again)
            if again and error.status != HTTPStatus.NOT_FOUND:
                return self._keep(decision, str(error))
            return self._give_up(decision, str(error))
        return self._bound(decision)

    async def _settle(self, decision: Decision, *, impossible: bool) -> Result:
        """Ask what became of a Binding; ``impossible``: one not seen now will never be."""
        try:
            pod = await self._bindings.pod(decision.namespace, decision.name)
        except (RefusedError, UnansweredError, PodError) as error:
            return self._keep(decision, str(error))
        if pod is None or pod.uid != decision.uid:
            return self._give_up(decision, "the pod is gone")
        if _shows(pod, decision):
            return self._bound(decision)
        if pod.node is not None:
            return self._give_up(decision, f"somebody else bound the pod to {pod.node}")
        if impossible:
            return self._give_up(decision, "the API server did not bind the pod")
        return self._keep(decision, "the pod is not bound yet")

    def _bound(self, decision: Decision) -> Result:
        self._ledger.mark(decision.uid, Progress.BOUND)
        self._on_bound(decision)
        _log.info("bound %s", fields(**_names(decision), **_figures(decision)))
        return Result(Outcome.BOUND)

    def _keep(self, decision: Decision, reason: str) -> Result:
        self._ledger.mark(decision.uid, Progress.UNKNOWN)
        return Result(
            Outcome.UNKNOWN, f"binding to {decision.node} has no known result yet: {reason}"
        )

    def _give_up(self, decision: Decision, reason: str) -> Result:
        self._ledger.release(decision.uid)
        _log.info("not bound %s", fields(**_names(decision), reason=reason))
        return Result(Outcome.FAILED, f"binding to {decision.node} failed: {reason}")


def _shows(pod: PodRecord, decision: Decision) -> bool:
    """Whether this very decision was carried out."""
    written = decision.annotations[GPUS_ANNOTATION]
    return pod.node == decision.node and pod.annotations.get(GPUS_ANNOTATION) == written


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

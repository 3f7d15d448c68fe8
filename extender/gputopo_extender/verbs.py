"""What the three verbs answer; deciding is done elsewhere."""

import logging
from collections.abc import Sequence
from typing import Any

from gputopo.api.enums import PolicyName
from gputopo.runtime.log import fields
from gputopo.wire.extender import (
    ExtenderArgs,
    ExtenderBindingArgs,
    bind_result,
    filter_error,
    filter_result,
    priorities,
)
from gputopo_extender.binder import Binder, Result
from gputopo_extender.evaluate import Evaluation, evaluate, refuse, scores
from gputopo_extender.ledger import Ledger
from gputopo_extender.metrics import Metrics
from gputopo_extender.pods import PodRecord, record_of
from gputopo_extender.request import Ask, Refusal, read
from gputopo_extender.watch import Follower

_log = logging.getLogger(__name__)


class Verbs:
    """filter, prioritize and bind on one ledger."""

    def __init__(
        self,
        ledger: Ledger,
        binder: Binder,
        metrics: Metrics,
        *,
        resource: str,
        default_policy: PolicyName,
    ) -> None:
        """Answer from ``ledger``, bind through ``binder``."""
        self._ledger = ledger
        self._binder = binder
        self._metrics = metrics
        self._resource = resource
        self._default_policy = default_policy

    def filter(self, args: ExtenderArgs) -> dict[str, Any]:
        """Return the nodes that can take the pod now, and why the others cannot.

        Raises:
            PodError: where the body holds no pod.
        """
        pod = record_of(args.pod, self._resource)
        if pod is None:
            return filter_error(
                f"{self._resource}: no container asks for it, or only for 0: leave it out; "
                "and name it in managedResources of the scheduler's extender configuration"
            )
        ask = self._read(pod)
        nodes = args.candidates()
        evaluation = refuse(nodes, ask.reason) if isinstance(ask, Refusal) else self._on(nodes, ask)
        self._metrics.filtered(evaluation)
        _log.debug("filtered %s", fields(pod=_name(pod), fits=len(evaluation.fits), of=len(nodes)))
        return filter_result(
            args,
            evaluation.fits,
            failed=evaluation.failed(),
            unresolvable=evaluation.unresolvable(),
        )

    def prioritize(self, args: ExtenderArgs) -> list[dict[str, Any]]:
        """Return a score per node; a pod that cannot be read has no preference.

        Raises:
            PodError: where the body holds no pod.
        """
        pod = record_of(args.pod, self._resource)
        nodes = args.candidates()
        ask = None if pod is None else self._read(pod)
        if not isinstance(ask, Ask):
            return priorities(dict.fromkeys(nodes, 0))
        found = scores(nodes, self._on(nodes, ask), sensitive=ask.request.sensitive)
        _log.debug("scored %s", fields(pod=f"{ask.namespace}/{ask.name}", scores=found))
        return priorities(found)

    async def bind(self, args: ExtenderBindingArgs) -> dict[str, str]:
        """Bind the pod to the node with exact GPUs."""
        result: Result = await self._binder.bind(args)
        self._metrics.bind_ended(result.outcome)
        if result.error:
            pod = f"{args.pod_namespace}/{args.pod_name}"
            _log.info(
                "bind answered %s",
                fields(pod=pod, node=args.node, outcome=result.outcome, reason=result.error),
            )
        return bind_result(result.error)

    def _read(self, pod: PodRecord) -> Ask | Refusal:
        return read(pod, resource=self._resource, default_policy=self._default_policy)

    def _on(self, nodes: Sequence[str], ask: Ask) -> Evaluation:
        return evaluate(nodes, self._ledger.book, ask, self._ledger.reservation(ask.uid))


class Gate:
    """Whether the ledger may be trusted."""

    def __init__(self, caches: Sequence[Follower], stale_after_seconds: float) -> None:
        """Trust the ledger while every cache was heard of within ``stale_after_seconds``."""
        self._caches = caches
        self._stale_after_seconds = stale_after_seconds

    def closed_because(self) -> str | None:
        """Return why no verb may be answered now, None where all may."""
        for cache in self._caches:
            age = cache.age_seconds()
            if age is None:
                return f"{cache.name} are not listed yet"
            if age > self._stale_after_seconds:
                return f"{cache.name} were last heard of {age:.0f} s ago"
        return None


def _name(pod: PodRecord) -> str:
    return f"{pod.namespace}/{pod.name}"

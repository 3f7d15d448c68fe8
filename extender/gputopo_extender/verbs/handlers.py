"""What the four verbs answer; deciding is done elsewhere."""

import logging
import random
from collections.abc import Sequence
from typing import Any

from gputopo.placement.model import PlacementRequest, PolicyName
from gputopo.runtime.log import fields
from gputopo_extender.protocol import (
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderPreemptionArgs,
    Victims,
    bind_result,
    filter_error,
    filter_result,
    preempt_result,
    priorities,
)
from gputopo_extender.state.ledger import Ledger
from gputopo_extender.verbs.bind import Binder
from gputopo_extender.verbs.evaluation import Evaluation, Misfit, evaluation, rejected, reserved
from gputopo_extender.verbs.evaluation_cache import EvaluationCache, TablesNotReadyError
from gputopo_extender.verbs.in_flight import InFlightPods
from gputopo_extender.verbs.metrics import Metrics
from gputopo_extender.verbs.preempt import FreedNode, chosen
from gputopo_extender.verbs.request import placement_request
from gputopo_extender.verbs.retries import FilterRetries
from gputopo_kube.podmodel import PodError
from gputopo_kube.pods import PodView, parse_gpu_pod
from gputopo_kube.reflector import Reflector

_log = logging.getLogger(__name__)


class Verbs:
    """filter, prioritize, bind and preempt on one ledger."""

    def __init__(
        self,
        ledger: Ledger,
        answers: EvaluationCache,
        binder: Binder,
        metrics: Metrics,
        *,
        resource: str,
        default_policy: PolicyName,
        offer_one_above: int,
    ) -> None:
        """Answer for the nodes in ``ledger``, bind through ``binder``.

        Where more than ``offer_one_above`` nodes fit, filter offers one; 0 stands for never.
        """
        self._ledger = ledger
        self._answers = answers
        self._binder = binder
        self._metrics = metrics
        self._resource = resource
        self._default_policy = default_policy
        self._offer_one_above = offer_one_above
        self._sent = InFlightPods(ledger)
        self._retries = FilterRetries(ledger)

    async def filter(self, args: ExtenderArgs) -> dict[str, Any]:
        """Return the nodes that can take the pod now, and why the others cannot.

        Raises:
            PodError: where the body holds no pod.
        """
        pod = parse_gpu_pod(args.pod, self._resource)
        if pod is None:
            return filter_error(
                f"{self._resource}: no container asks for it, or only for 0: leave it out; "
                "and name it in managedResources of the scheduler's extender configuration"
            )
        try:
            request, nodes = self._request(pod), args.candidates()
            with self._metrics.decision_seconds.labels("filter").time():
                found = await self._on(nodes, pod, request)
            found = await self._retries.settled(pod, found, lambda: self._on(nodes, pod, request))
        except TablesNotReadyError as error:
            return filter_error(str(error))
        self._metrics.filtered(found)
        offered = self._offered(pod, found, request)
        _log.debug("filtered %s", fields(pod=_name(pod), offered=len(offered), of=len(found.nodes)))
        if reason := self._retries.reason(pod, found):
            return filter_error(reason)
        return filter_result(
            args, offered, failed=found.failed(), unresolvable=found.unresolvable()
        )

    async def prioritize(self, args: ExtenderArgs) -> list[dict[str, Any]]:
        """Return a score per node; a pod that cannot be read has no preference.

        Raises:
            PodError: where the body holds no pod.
        """
        pod = parse_gpu_pod(args.pod, self._resource)
        nodes = args.candidates()
        if pod is None:
            return priorities(dict.fromkeys(nodes, 0))
        request = self._request(pod)
        if not isinstance(request, PlacementRequest):
            return priorities(dict.fromkeys(nodes, 0))
        try:
            with self._metrics.decision_seconds.labels("prioritize").time():
                found = (await self._on(nodes, pod, request)).scores(sensitive=request.sensitive)
        except TablesNotReadyError:
            return priorities(dict.fromkeys(nodes, 0))
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug("scored %s", fields(pod=_name(pod), scores=found))
        return priorities(found)

    async def bind(self, args: ExtenderBindingArgs) -> dict[str, str]:
        """Bind the pod to the node with exact GPUs."""
        result = await self._binder.bind(args)
        self._metrics.bind_ended(result.outcome)
        if result.error:
            pod = f"{args.pod_namespace}/{args.pod_name}"
            _log.info(
                "bind answered %s",
                fields(pod=pod, node=args.node, outcome=result.outcome, reason=result.error),
            )
        return bind_result(result.error)

    async def preempt(self, args: ExtenderPreemptionArgs) -> dict[str, Any]:
        """Return of the offered nodes those where the freed GPUs suit the pod; victims as offered.

        Raises:
            PodError: where the body holds no pod that asks for GPUs.
            TablesNotReadyError: where the answer takes longer than the caller may wait.
        """
        pod = parse_gpu_pod(args.pod, self._resource)
        if pod is None:
            raise PodError(f"{self._resource}: no container asks for it")
        request = self._request(pod)
        if isinstance(request, Misfit):
            return preempt_result({})
        with self._metrics.decision_seconds.labels("preempt").time():
            offers = args.offers()
            states = {
                node: self._ledger.state_without(node, {*victims.pods})
                for node, victims in offers.items()
            }
            answers = await self._answers.of({*states.values()}, request)
            freed = [
                FreedNode(node, victims, answers[states[node]], self._priorities(victims))
                for node, victims in offers.items()
            ]
            kept = chosen(freed, sensitive=request.sensitive)
        _log.info(
            "preemption considered %s",
            fields(pod=_name(pod), nodes=len(offers), suitable=",".join(kept)),
        )
        return preempt_result(kept)

    def _priorities(self, victims: Victims) -> tuple[int | None, ...]:
        known = map(self._ledger.pod, victims.pods)
        return tuple(None if pod is None else pod.priority for pod in known)

    def _offered(
        self, pod: PodView, found: Evaluation, request: PlacementRequest | Misfit
    ) -> list[str]:
        """Return the nodes to choose from; of many one of the best, unless the pod has preferences.

        For one node kube-scheduler computes no scores and asks for none.
        """
        fits = found.fits()
        few = self._offer_one_above == 0 or len(fits) <= self._offer_one_above
        if few or isinstance(request, Misfit) or pod.prefers_nodes:
            return fits
        size, sensitive = request.size, request.sensitive
        best = found.best(size, self._sent.gpus(), sensitive=sensitive)
        # Any of them, as kube-scheduler does: what fails on one for reasons that nobody here
        # knows may go well on the next.
        node = random.choice(best)  # noqa: S311 - no secret
        self._sent.add(pod.uid, node, size)
        return [node]

    def _request(self, pod: PodView) -> PlacementRequest | Misfit:
        return placement_request(pod, resource=self._resource, default_policy=self._default_policy)

    async def _on(
        self, nodes: Sequence[str], pod: PodView, request: PlacementRequest | Misfit
    ) -> Evaluation:
        if isinstance(request, Misfit):
            return rejected(nodes, request)
        if reservation := self._ledger.reservations.reservation(pod.uid):
            return reserved(nodes, reservation)
        # What is asked of a state that another node reaches meanwhile is as true.
        states = list(map(self._ledger.states().get, nodes))
        return evaluation(nodes, states, await self._answers.of(set(states), request))


class Readiness:
    """Whether the ledger may be trusted."""

    def __init__(self, caches: Sequence[Reflector[Any]], stale_after_seconds: float) -> None:
        """Trust the ledger while every cache was heard of within ``stale_after_seconds``."""
        self._caches = caches
        self._stale_after_seconds = stale_after_seconds

    def reason_not_ready(self) -> str | None:
        """Return why no verb may be answered now, None where all may."""
        for cache in self._caches:
            age = cache.age_seconds()
            if age is None:
                return f"{cache.name} are not listed yet"
            if age > self._stale_after_seconds:
                return f"{cache.name} were last heard of {age:.0f} s ago"
        return None


def _name(pod: PodView) -> str:
    return f"{pod.namespace}/{pod.name}"

"""The four verbs of kube-scheduler's extender protocol: filter, prioritize, bind and preempt.

The HTTP application calls the verbs. Each verb parses the pod, decides and formats a response.
"""

import logging
from collections.abc import Sequence
from typing import Any

from gputopo.placement.model import PlacementRequest
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
from gputopo_extender.state.pod_requests import PodRequests
from gputopo_extender.verbs.bind import Binder
from gputopo_extender.verbs.evaluation_cache import EvaluationCache, TablesNotReadyError
from gputopo_extender.verbs.in_flight import InFlightPods, NominatedPods
from gputopo_extender.verbs.metrics import Metrics
from gputopo_extender.verbs.postponement.postponer import Postponer
from gputopo_extender.verbs.preempt import FreedNode, choose_nodes
from gputopo_extender.verbs.retries import FilterRetries
from gputopo_kube.podmodel import PodError
from gputopo_kube.pods import PodView, parse_gpu_pod
from gputopo_scheduling.comparison import compare
from gputopo_scheduling.cpu_shares import best_by_share, cpu_shares, ranks_by_share, scores
from gputopo_scheduling.evaluation import Evaluation, Misfit, bound_to, evaluation, rejected

_log = logging.getLogger(__name__)


class Verbs:
    """Carries out filter, prioritize, bind and preempt with one ledger.

    Attributes:
        in_flight: the pods for which filter has returned one node.
    """

    def __init__(
        self,
        ledger: Ledger,
        cache: EvaluationCache,
        binder: Binder,
        postponer: Postponer,
        metrics: Metrics,
        requests: PodRequests,
        nominated: NominatedPods,
        *,
        offer_one_above: int,
    ) -> None:
        """Evaluate the nodes in ``ledger`` with ``cache``, beside pods with ``nominated`` nodes.

        If more than ``offer_one_above`` nodes fit, filter returns only one node. If
        ``offer_one_above`` is 0, filter returns all nodes that fit.
        """
        self._ledger = ledger
        self._cache = cache
        self._binder = binder
        self._postponer = postponer
        self._metrics = metrics
        self._requests = requests
        self._offer_one_above = offer_one_above
        self._nominated = nominated
        self.in_flight = InFlightPods(ledger, nominated)
        self._retries = FilterRetries(ledger)

    async def filter(self, args: ExtenderArgs) -> dict[str, Any]:
        """Return the nodes that fit the pod now, and why the other nodes do not fit.

        Raises:
            PodError: if the body has no valid pod.
        """
        resource = self._requests.resource
        pod = parse_gpu_pod(args.pod, resource)
        if pod is None:
            return filter_error(
                f"{resource}: the pod requests none: if a container has a request of 0, "
                "remove this request; otherwise list the resource in managedResources of the "
                "scheduler's extender configuration"
            )
        request = self._requests.of(pod)
        try:
            found = await self._filtered(pod, request, args.candidates())
            retry = self._retries.reason(pod, found)
            if isinstance(request, PlacementRequest):
                found = await self._postponer.examine(pod, request, found)
        except TablesNotReadyError as error:
            return filter_error(str(error))
        self._metrics.filtered(found)
        offered = self._offered(pod, request, found)
        _log.debug("filtered %s", fields(pod=pod.key, offered=len(offered), of=len(found.nodes)))
        if retry:
            return filter_error(retry)
        return filter_result(
            args, offered, failed=found.failed(), unresolvable=found.unresolvable()
        )

    async def prioritize(self, args: ExtenderArgs) -> list[dict[str, Any]]:
        """Return a score for each node. If the pod cannot be evaluated, all scores are 0.

        Raises:
            PodError: if the body has no valid pod.
        """
        pod = parse_gpu_pod(args.pod, self._requests.resource)
        nodes = args.candidates()
        request = None if pod is None else self._requests.of(pod)
        if pod is None or not isinstance(request, PlacementRequest):
            return priorities(dict.fromkeys(nodes, 0))
        try:
            with self._metrics.decision_seconds.labels("prioritize").time():
                found = await self._evaluate(pod, request, nodes)
                ranks = self._ranks_by_share(pod, request, found, found.fitting())
                scored = scores(found, ranks, sensitive=request.sensitive)
        except TablesNotReadyError:
            return priorities(dict.fromkeys(nodes, 0))
        _log.debug("scored %s", fields(pod=pod.key, scores=scored))
        return priorities(scored)

    async def bind(self, args: ExtenderBindingArgs) -> dict[str, str]:
        """Bind the pod to the node with exact GPUs."""
        result = await self._binder.bind(args)
        self._metrics.bind_ended(result)
        self._postponer.bind_ended(result)
        if result.error:
            _log.info(
                "bind failed %s",
                fields(
                    pod=f"{args.pod_namespace}/{args.pod_name}",
                    node=args.node,
                    outcome=result.outcome,
                    reason=result.error,
                ),
            )
        return bind_result(result.error)

    async def preempt(self, args: ExtenderPreemptionArgs) -> dict[str, Any]:
        """Return the best of the given nodes for the preemptor. Victims stay unchanged.

        Raises:
            PodError: if the body has no valid pod that requests GPUs.
            TablesNotReadyError: if the tables are not built within the time limit.
        """
        pod = parse_gpu_pod(args.pod, self._requests.resource)
        if pod is None:
            raise PodError(f"{self._requests.resource}: no container requests it")
        request = self._requests.of(pod)
        if isinstance(request, Misfit) or self._postponer.is_postponed(pod.uid):
            return preempt_result({})
        if self._nominated.blocks_preemption(pod):
            return preempt_result({})
        with self._metrics.decision_seconds.labels("preempt").time():
            offers = args.offers()
            states = {
                node: self._requests.state_without(pod, request, node, {*victims.pods})
                for node, victims in offers.items()
            }
            results = await self._cache.evaluate({*states.values()}, request)
            found = evaluation([*states], [*states.values()], results)
            useful = await self._postponer.useful(pod, request, found)
            freed = [
                FreedNode(node, victims, results[states[node]], self._priorities(victims))
                for node, victims in offers.items()
                if node in useful
            ]
            chosen = choose_nodes(freed, sensitive=request.sensitive)
        _log.info(
            "evaluated nodes for preemption %s",
            fields(pod=pod.key, nodes=len(offers), suitable=",".join(chosen)),
        )
        return preempt_result(chosen)

    def _priorities(self, victims: Victims) -> tuple[int | None, ...]:
        known = map(self._ledger.pods.get, victims.pods)
        return tuple(None if pod is None else pod.priority for pod in known)

    async def _filtered(
        self, pod: PodView, request: PlacementRequest | Misfit, nodes: Sequence[str]
    ) -> Evaluation:
        """Evaluate the nodes; while the ledger may be outdated, do this again after each change."""
        with self._metrics.decision_seconds.labels("filter").time():
            found = await self._evaluate(pod, request, nodes)
        wait = self._retries.begin_wait(pod, found)
        while wait is not None and await wait.changed():
            found = await self._evaluate(pod, request, nodes)
            if not self._retries.may_be_outdated(pod, found):
                break
        return found

    async def _evaluate(
        self, pod: PodView, request: PlacementRequest | Misfit, nodes: Sequence[str]
    ) -> Evaluation:
        if isinstance(request, Misfit):
            return rejected(nodes, request)
        if reservation := self._ledger.reservations.get(pod.uid):
            decision = reservation.decision
            return bound_to(nodes, decision.claim.node, decision.match)
        # A node may change during the evaluation. The response is then correct for the node's
        # former state.
        states = self._requests.states(pod, request, nodes)
        return evaluation(nodes, states, await self._cache.evaluate(set(states), request))

    def _offered(
        self, pod: PodView, request: PlacementRequest | Misfit, found: Evaluation
    ) -> list[str]:
        """Return the nodes for kube-scheduler, and keep for bind how the nodes compare.

        If a Binding is in flight, bind keeps the comparison of the earlier filter.
        """
        if isinstance(request, Misfit) or not found.has_fit():
            return found.fitting()
        few = self._offer_one_above == 0 or found.count_fitting() <= self._offer_one_above
        # A pod that prefers some nodes, for example by affinity, gets all nodes that fit.
        if few or pod.prefers_nodes:
            offered = found.fitting()
            ranks = self._ranks_by_share(pod, request, found, offered)
        else:
            best, ranks = best_by_share(
                found,
                pod,
                request.size,
                self._ledger.sized_capacity,
                sensitive=request.sensitive,
            )
            offered = [self.in_flight.choose(pod, request, best)]
        if self._ledger.reservations.get(pod.uid) is None:
            compared = compare(found, offered, ranks, sensitive=request.sensitive)
            self._binder.comparisons.put(pod.uid, compared)
        return offered

    def _ranks_by_share(
        self, pod: PodView, request: PlacementRequest, found: Evaluation, fitting: Sequence[str]
    ) -> dict[str, int]:
        shares = cpu_shares(pod, request.size, fitting, self._ledger.sized_capacity)
        return ranks_by_share(found, shares, sensitive=request.sensitive)

"""Decides in filter whether a pod waits for a better placement."""

import logging
from collections.abc import Callable
from itertools import compress

from gputopo.api.waiting import PostponedAnnotation, parse_postponed
from gputopo.placement.model import PlacementRequest
from gputopo.runtime.log import fields
from gputopo_extender.fencing.binding_writer import BindResult
from gputopo_extender.state.ledger import Ledger
from gputopo_extender.state.pod_requests import PodRequests
from gputopo_extender.verbs.evaluation_cache import EvaluationCache
from gputopo_extender.verbs.postponement.metrics import PostponementMetrics
from gputopo_extender.verbs.postponement.pods import PostponedPod
from gputopo_extender.verbs.postponement.rounds import OfferRounds
from gputopo_extender.verbs.postponement.writer import PostponementWriter
from gputopo_kube.pods import PodView
from gputopo_scheduling.evaluation import Evaluation, MisfitKind
from gputopo_scheduling.wait_record import begun
from gputopo_scheduling.waiting import (
    PodWait,
    WaitRule,
    decide_pod_wait,
    postponed,
    wait_order,
    wait_rule,
    wait_terms,
)

_log = logging.getLogger(__name__)


class Postponer:
    """Postpones pods for the verb filter.

    Attributes:
        pods: the postponed pods.
        rounds: makes offers to them.
        writer: writes to them.
    """

    def __init__(
        self,
        ledger: Ledger,
        cache: EvaluationCache,
        requests: PodRequests,
        rounds: OfferRounds,
        writer: PostponementWriter,
        metrics: PostponementMetrics,
        clock: Callable[[], float],
        *,
        default_seconds: int,
    ) -> None:
        """Keep the pods in those of ``rounds``.

        ``default_seconds`` is the longest wait of pods that do not set it. ``clock`` returns Unix
        time.
        """
        self._ledger = ledger
        self._cache = cache
        self._requests = requests
        self.pods = rounds.pods
        self.rounds = rounds
        self.writer = writer
        self._metrics = metrics
        self._clock = clock
        self._default_seconds = default_seconds

    async def examine(
        self, pod: PodView, request: PlacementRequest, found: Evaluation
    ) -> Evaluation:
        """Return the evaluation with the nodes that the pod may not use now as misfits.

        Raises:
            TablesNotReadyError: if the tables are not built within the time limit.
        """
        rule = wait_rule(request)
        if rule is None or self._ledger.reservations.get(pod.uid) is not None:
            return found
        wait = await self._wait(pod, request, rule, found)
        if wait is None:
            self.pods.fits_nowhere(pod.uid)
            return found
        for offered in await self.rounds.run_once(begin=True):
            self.writer.retry(offered.uid)
        return self._decided(pod, request, wait, found)

    async def useful(self, pod: PodView, request: PlacementRequest, freed: Evaluation) -> set[str]:
        """Return the nodes of which filter would not reject the pod after a preemption.

        Otherwise kube-scheduler would preempt pods, and the preemptor would then wait.

        Args:
            pod: the preemptor.
            request: its request.
            freed: the evaluation of the nodes without the victims.

        Raises:
            TablesNotReadyError: if the tables are not built within the time limit.
        """
        rule = wait_rule(request)
        wait = rule and await self._wait(pod, request, rule, freed)
        found = postponed(freed, wait, {}) if wait else freed
        below = found.misfits_of({MisfitKind.POSTPONED})
        return {*freed.nodes} - below.keys()

    def is_postponed(self, uid: str) -> bool:
        """Return whether the newest filter has postponed the pod."""
        return self.pods.is_postponed(uid)

    def bind_ended(self, result: BindResult) -> None:
        """Write the event and the metrics of a wait that ended with this Binding."""
        if result.decision is None:
            return
        uid, annotations = result.decision.claim.uid, result.decision.annotations
        record = parse_postponed(annotations, uid)
        if record is not None and record.end is not None:
            self.writer.end(uid, record.end_text())
            self._metrics.placed(record, record.end)

    async def _wait(
        self, pod: PodView, request: PlacementRequest, rule: WaitRule, found: Evaluation
    ) -> PodWait | None:
        idle = {self._ledger.idle_key(key) for key in found.keys}
        results = await self._cache.evaluate(idle, request)
        terms = wait_terms(pod, rule, default_seconds=self._default_seconds)
        of_idle = [results[state] for state in idle]
        return decide_pod_wait(rule, terms, found, of_idle, self._clock())

    def _decided(
        self, pod: PodView, request: PlacementRequest, wait: PodWait, found: Evaluation
    ) -> Evaluation:
        """Reject the nodes of earlier pods too. If no node is left, the pod waits."""
        pods, time, order = self.pods, self._clock(), wait_order(pod)
        pods.offers.considered(pod.uid, found.nodes)
        held = {} if wait.is_over(time) else pods.held(order, found.fitting(), time)
        result = postponed(found, wait, held)
        waits = not result.has_fit()
        known = pods.get(pod.uid)
        record = parse_postponed(pod.annotations, pod.uid) or (known.record if known else None)
        if waits and record is None:
            record = self._begin(pod, wait, time)
        pods.put(PostponedPod.of(pod, request, wait, waits=waits, record=record))
        if waits:
            # The next round must consider the nodes that have changed during the evaluation.
            keys = self._requests.states(pod, request, found.nodes)
            changed = [key != now for key, now in zip(found.keys, keys, strict=True)]
            pods.outdated.update(compress(found.nodes, changed))
        return result

    def _begin(self, pod: PodView, wait: PodWait, now: float) -> PostponedAnnotation:
        """Record a wait that begins now, and write it to the pod."""
        record = begun(pod.uid, wait, now)
        self.writer.begin(pod.uid, record, wait.reason)
        _log.info("postponed %s", fields(pod=pod.key, reason=wait.reason))
        return record

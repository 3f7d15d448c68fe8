"""Creates the parts of postponement and connects them."""

import time
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry

from gputopo_extender.fencing.pod_api import PodApi
from gputopo_extender.state.ledger import Ledger
from gputopo_extender.state.pod_requests import PodRequests
from gputopo_extender.verbs.evaluation_cache import EvaluationCache
from gputopo_extender.verbs.postponement.metrics import PostponementMetrics
from gputopo_extender.verbs.postponement.pods import PostponedPods
from gputopo_extender.verbs.postponement.postponer import Postponer
from gputopo_extender.verbs.postponement.rounds import OfferRounds
from gputopo_extender.verbs.postponement.watch import PostponementWatch
from gputopo_extender.verbs.postponement.writer import PostponementWriter


class Postponement(NamedTuple):
    """The parts of postponement that other parts of the extender use."""

    postponer: Postponer
    watch: PostponementWatch

    def background(self) -> tuple[Coroutine[Any, Any, None], ...]:
        """Return the coroutines that must run while the verbs are served."""
        return (self.postponer.writer.run(), self.watch.run())


def assemble(
    ledger: Ledger,
    cache: EvaluationCache,
    requests: PodRequests,
    api: PodApi,
    registry: CollectorRegistry,
    *,
    default_seconds: int,
    leads: Callable[[], bool | None],
) -> Postponement:
    """Return the parts of postponement.

    Args:
        ledger: the nodes and pods.
        cache: evaluates the nodes.
        requests: makes the requests of pods.
        api: writes to pods.
        registry: gets the metrics.
        default_seconds: longest wait of pods that do not set it.
        leads: returns whether the kube-scheduler of this extender leads; None if unknown.
    """
    clock = time.time
    pods = PostponedPods(ledger, clock)
    metrics = PostponementMetrics(registry, pods)
    postponer = Postponer(
        ledger,
        cache,
        requests,
        OfferRounds(ledger, cache, requests, pods, clock),
        PostponementWriter(ledger, api),
        metrics,
        clock,
        default_seconds=default_seconds,
    )
    return Postponement(postponer, PostponementWatch(ledger, postponer, metrics, leads, clock))

"""Creates the parts of the extender and runs them. ``__main__`` calls this module."""

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from aiohttp import web
from prometheus_client import generate_latest

from gputopo.runtime.log import fields
from gputopo_extender.fencing.claim_lease import ClaimLease
from gputopo_extender.fencing.fence import ClaimFence
from gputopo_extender.fencing.pod_api import PodApi
from gputopo_extender.handover.lease import LeaseCandidate, LeaseHandover
from gputopo_extender.nomination.metrics import nominations_of
from gputopo_extender.nomination.nominator import NominationConditions, Nominator
from gputopo_extender.nomination.planner import Planner, PlanningParts
from gputopo_extender.settings import ExtenderSettings
from gputopo_extender.state.cluster_queue import ClusterQueue
from gputopo_extender.state.ledger import Ledger
from gputopo_extender.state.pod_requests import PodRequests
from gputopo_extender.state.reflectors import (
    QueueFeed,
    node_reflector,
    pod_reflector,
    profile_reflector,
    topology_reflector,
)
from gputopo_extender.verbs.app import KEEPALIVE_SECONDS, Readiness, verbs_app
from gputopo_extender.verbs.bind import Binder
from gputopo_extender.verbs.comparisons import NodeComparisons
from gputopo_extender.verbs.evaluation_cache import EvaluationCache
from gputopo_extender.verbs.handlers import Verbs
from gputopo_extender.verbs.metrics import Metrics
from gputopo_extender.verbs.postponement.assembly import assemble
from gputopo_extender.verbs.postponement.postponer import Postponer
from gputopo_extender.verbs.warm_up import TableWarmUp
from gputopo_kube.client import AsyncApi, AsyncClient
from gputopo_kube.probes import ProbeServer, in_event_loop
from gputopo_kube.reflector import ListWatchTiming, Reflector
from gputopo_scheduling.node_fits import evaluate_states

_RESOLVE_EVERY_SECONDS: Final = 2.0
_FREEZE_EVERY_SECONDS: Final = 1.0
_SHUTDOWN_SECONDS: Final = 10.0
"""Time to finish open requests at shutdown. It is longer than any bind takes."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ExtenderAddresses:
    """The URLs on which the extender listens."""

    verbs: str
    probes: str


@asynccontextmanager
async def running(
    settings: ExtenderSettings, client: AsyncClient
) -> AsyncIterator[ExtenderAddresses]:
    """Run the extender during the ``async with`` block; a failure of any part ends the block."""
    ledger = Ledger()
    ledger.interference.set_sharing_policy(settings.sharing_policy)
    api = AsyncApi(client, timeout_seconds=settings.api_timeout_seconds)
    timing = ListWatchTiming(settings.relist_after_silence_seconds, settings.relist_every_seconds)
    topologies = topology_reflector(api, ledger, timing)
    feed = QueueFeed(ClusterQueue(), settings.scheduler_name) if settings.nominate_above else None
    pods = pod_reflector(api, settings.resource, ledger, timing, feed)
    required: list[Reflector[Any]] = [topologies, pods]
    readiness = Readiness(required, settings.stale_after_seconds)
    reflectors = [*required, profile_reflector(api, ledger, timing)]
    if feed is not None:
        reflectors.append(node_reflector(api, feed.queue, timing))
    metrics = Metrics(ledger, reflectors)
    cache = EvaluationCache(
        evaluate_states,
        metrics.build_seconds,
        timeout_seconds=settings.decision_timeout_seconds,
    )
    pod_api = PodApi(api, settings.resource)
    fence = ClaimFence(
        ledger,
        ClaimLease(api, settings.namespace),
        pod_api,
        timeout_seconds=settings.api_timeout_seconds,
    )
    requests = PodRequests(
        ledger,
        resource=settings.resource,
        default_policy=settings.default_policy,
        weights=settings.weights,
    )
    handover = _handover(settings, api, metrics)
    leads = handover.leads if handover else lambda: True
    postponement = assemble(
        *(ledger, cache, requests, pod_api, metrics.registry),
        default_seconds=settings.max_wait_seconds,
        leads=leads,
    )
    binder = Binder(
        ledger,
        cache,
        pod_api,
        fence,
        NodeComparisons(),
        postponement.pods,
        requests,
        resource=settings.resource,
    )
    verbs = Verbs(
        ledger,
        cache,
        binder,
        postponement.postponer,
        metrics,
        requests,
        resource=settings.resource,
        offer_one_above=settings.offer_one_above,
    )
    nominations = nominations_of(feed.queue if feed else ClusterQueue(), metrics.registry)
    background = [] if handover is None else [handover.run()]
    if feed is not None:
        verbs.blocks_preemption = nominations.blocks_preemption
        verbs.in_flight.nominated = nominations.gpus_beside
        parts = PlanningParts(ledger, cache, requests, verbs.in_flight, binder.comparisons)
        nominator = Nominator(
            *(feed.queue, nominations, Planner(parts, feed.queue, nominations), pod_api),
            NominationConditions(settings.nominate_above, leads, [*required, reflectors[-1]]),
            postponement.writer.retry,
        )
        background.append(nominator.run())
    async with (
        _background(
            *(reflector.run() for reflector in reflectors),
            _relist_when_stale(ledger, reflectors),
            _resolve_forever(binder, metrics, postponement.postponer),
            _freeze_lists(required),
            *postponement.background(),
            *background,
            TableWarmUp(ledger, cache, settings.default_policy).run(),
        ),
        _serving(
            verbs_app(verbs, readiness, metrics), settings.verbs_host, settings.verbs_port
        ) as front,
    ):
        with closing(_probe_server(settings, readiness, metrics)) as probes:
            back = f"http://{settings.probes_host}:{probes.port}"
            _log.info("serving %s", fields(verbs=front, probes=back))
            yield ExtenderAddresses(verbs=front, probes=back)


def _probe_server(
    settings: ExtenderSettings, readiness: Readiness, metrics: Metrics
) -> ProbeServer:
    """Return the probe server. Its checks run in the event loop: the ledger is not thread-safe."""
    return ProbeServer(
        settings.probes_host,
        settings.probes_port,
        live=in_event_loop(lambda: None),
        ready=in_event_loop(readiness.reason_not_ready),
        metrics=in_event_loop(partial(generate_latest, metrics.registry)),
    )


@asynccontextmanager
async def _background(*parts: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as tasks:
        running_tasks = [tasks.create_task(part) for part in parts]
        try:
            yield
        finally:
            for task in running_tasks:
                task.cancel()


def _handover(settings: ExtenderSettings, api: AsyncApi, metrics: Metrics) -> LeaseHandover | None:
    """Return the leader handover; None if no pod name is set."""
    if not settings.pod:
        return None
    candidate = LeaseCandidate(
        namespace=settings.namespace,
        pod=settings.pod,
        lease=settings.scheduler_lease,
        tolerated_seconds=settings.handover_after_seconds,
        blocked_seconds=settings.lease_blocked_seconds,
    )
    handover = LeaseHandover(api, candidate)
    metrics.watch_leader(handover.leads)
    return handover


async def _relist_when_stale(ledger: Ledger, reflectors: Sequence[Reflector[Any]]) -> None:
    """After a restore of etcd, list all pods and topologies again: changes may have been lost."""
    while True:
        await ledger.relist.wait()
        ledger.relist.clear()
        for reflector in reflectors:
            reflector.list_again()


async def _resolve_forever(binder: Binder, metrics: Metrics, postponer: Postponer) -> None:
    while True:
        await asyncio.sleep(_RESOLVE_EVERY_SECONDS)
        for result in await binder.resolve_open():
            metrics.resolved(result)
            postponer.bind_ended(result)


async def _freeze_lists(reflectors: Sequence[Reflector[Any]]) -> None:
    """Exclude the listed pods and topologies from Python's garbage collection.

    The objects live long and have no reference cycles. Scanning them would take 0.1 s for 5,000
    nodes, and the extender would not respond during that time.
    """
    seen: list[int] = []
    try:
        while True:
            lists = [reflector.lists for reflector in reflectors]
            if all(lists) and lists != seen:
                seen = lists
                gc.collect()
                gc.freeze()
            await asyncio.sleep(_FREEZE_EVERY_SECONDS)
    finally:
        gc.unfreeze()


@asynccontextmanager
async def _serving(app: web.Application, host: str, port: int) -> AsyncIterator[str]:
    runner = web.AppRunner(
        app,
        access_log=None,
        keepalive_timeout=KEEPALIVE_SECONDS,
        shutdown_timeout=_SHUTDOWN_SECONDS,
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        bound_host, bound_port = runner.addresses[0][:2]
        yield f"http://{bound_host}:{bound_port}"
    finally:
        await runner.cleanup()

"""Creates the parts of the extender and runs them. ``__main__`` calls this module."""

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
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
from gputopo_extender.nomination.metrics import NominationMetrics
from gputopo_extender.nomination.nominations import Nominations
from gputopo_extender.nomination.nominator import Nominator
from gputopo_extender.nomination.planner import Planner
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
from gputopo_extender.verbs.postponement.assembly import Postponement, assemble
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
    api = AsyncApi(client, timeout_seconds=settings.api_timeout_seconds)
    cluster = _watched_cluster(settings, api)
    metrics = Metrics(cluster.ledger, cluster.reflectors)
    readiness = Readiness(cluster.required, settings.stale_after_seconds)
    handover = _handover(settings, api, metrics)
    leads = handover.leads if handover else lambda: True
    parts = _decision_parts(settings, api, cluster, metrics, leads)
    async with (
        _background(
            *cluster.background(),
            *parts.background(metrics),
            *([handover.run()] if handover else ()),
            TableWarmUp(cluster.ledger, parts.cache, settings.default_policy).run(),
        ),
        _serving(
            verbs_app(parts.verbs, readiness, metrics), settings.verbs_host, settings.verbs_port
        ) as front,
    ):
        with closing(_probe_server(settings, readiness, metrics)) as probes:
            back = f"http://{settings.probes_host}:{probes.port}"
            _log.info("serving %s", fields(verbs=front, probes=back))
            yield ExtenderAddresses(verbs=front, probes=back)


@dataclass(frozen=True, slots=True)
class _WatchedCluster:
    """What the extender knows of the cluster, and the reflectors that keep it up to date.

    Attributes:
        queue: the pods and nodes as kube-scheduler counts them; empty without nominations.
        required: the reflectors of GPUTopologies and pods, without which no pod is placed.
        profiles: the reflector of GPUProfiles.
        nodes: the reflector of Nodes; None without nominations.
    """

    ledger: Ledger
    queue: ClusterQueue
    required: Sequence[Reflector[Any]]
    profiles: Reflector[Any]
    nodes: Reflector[Any] | None

    @property
    def reflectors(self) -> list[Reflector[Any]]:
        """All reflectors."""
        return [*self.required, self.profiles, *([self.nodes] if self.nodes else ())]

    def background(self) -> list[Coroutine[Any, Any, None]]:
        """Return the coroutines that keep the cluster up to date."""
        return [
            *(reflector.run() for reflector in self.reflectors),
            _relist_when_stale(self.ledger, self.reflectors),
            _freeze_lists(self.required),
        ]


def _watched_cluster(settings: ExtenderSettings, api: AsyncApi) -> _WatchedCluster:
    ledger, queue = Ledger(), ClusterQueue()
    ledger.interference.set_sharing_policy(settings.sharing_policy)
    timing = ListWatchTiming(settings.relist_after_silence_seconds, settings.relist_every_seconds)
    nominates = settings.nominate_above > 0
    feed = QueueFeed(queue, settings.scheduler_name) if nominates else None
    return _WatchedCluster(
        ledger,
        queue,
        required=(
            topology_reflector(api, ledger, timing),
            pod_reflector(api, settings.resource, ledger, timing, feed),
        ),
        profiles=profile_reflector(api, ledger, timing),
        nodes=node_reflector(api, queue, timing) if nominates else None,
    )


@dataclass(frozen=True, slots=True)
class _DecisionParts:
    """The parts of the extender that decide about pods."""

    cache: EvaluationCache
    binder: Binder
    verbs: Verbs
    postponement: Postponement
    nominator: Nominator | None

    def background(self, metrics: Metrics) -> list[Coroutine[Any, Any, None]]:
        """Return the coroutines that must run while the verbs are served."""
        return [
            _resolve_forever(self.binder, metrics, self.postponement.postponer),
            *self.postponement.background(),
            *([self.nominator.run()] if self.nominator else ()),
        ]


def _decision_parts(
    settings: ExtenderSettings,
    api: AsyncApi,
    cluster: _WatchedCluster,
    metrics: Metrics,
    leads: Callable[[], bool | None],
) -> _DecisionParts:
    ledger, pod_api = cluster.ledger, PodApi(api, settings.resource)
    cache = EvaluationCache(
        evaluate_states,
        metrics.build_seconds,
        timeout_seconds=settings.decision_timeout_seconds,
    )
    requests = PodRequests(
        ledger,
        resource=settings.resource,
        default_policy=settings.default_policy,
        weights=settings.weights,
    )
    postponement = assemble(
        ledger,
        cache,
        requests,
        pod_api,
        metrics.registry,
        default_seconds=settings.max_wait_seconds,
        leads=leads,
    )
    fence = ClaimFence(
        ledger,
        ClaimLease(api, settings.namespace),
        pod_api,
        timeout_seconds=settings.api_timeout_seconds,
    )
    binder = Binder(
        ledger, cache, pod_api, fence, NodeComparisons(), postponement.postponer.pods, requests
    )
    nominations = _nominations(cluster.queue, metrics)
    verbs = Verbs(
        ledger,
        cache,
        binder,
        postponement.postponer,
        metrics,
        requests,
        nominations,
        offer_one_above=settings.offer_one_above,
    )
    nominator = None
    if cluster.nodes is not None:
        planner = Planner(
            ledger,
            cache,
            requests,
            cluster.queue,
            nominations,
            in_flight=verbs.in_flight,
            filtered=binder.comparisons,
        )
        nominator = Nominator(
            cluster.queue,
            nominations,
            planner,
            pod_api,
            postponement.postponer.writer.retry,
            above=settings.nominate_above,
            leads=leads,
            reflectors=[*cluster.required, cluster.nodes],
        )
    return _DecisionParts(cache, binder, verbs, postponement, nominator)


def _nominations(queue: ClusterQueue, metrics: Metrics) -> Nominations:
    shown = NominationMetrics(metrics.registry)
    nominations = Nominations(queue, shown.count)
    shown.show_open(nominations)
    return nominations


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

"""Puts the parts together and runs them."""

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from aiohttp import web

from gputopo.runtime.log import fields
from gputopo_extender.fencing.binding_writer import BindingWriter
from gputopo_extender.fencing.fence import ClaimFence
from gputopo_extender.handover.election import Election, Handover, LeaseCandidate
from gputopo_extender.leases import Leases
from gputopo_extender.pod_api import PodApi
from gputopo_extender.settings import ExtenderSettings
from gputopo_extender.state.ledger import Ledger
from gputopo_extender.verbs.app import KEEPALIVE_SECONDS, probes_app, verbs_app
from gputopo_extender.verbs.bind import Binder
from gputopo_extender.verbs.evaluation import evaluate_states
from gputopo_extender.verbs.evaluation_cache import EvaluationCache
from gputopo_extender.verbs.handlers import Readiness, Verbs
from gputopo_extender.verbs.metrics import Metrics
from gputopo_extender.verbs.warm_up import TableWarmUp
from gputopo_extender.watch import pod_reflector, topology_reflector
from gputopo_kube.client import AsyncApi, AsyncClient
from gputopo_kube.reflector import ListWatchTiming, Reflector

_SETTLE_EVERY_SECONDS: Final = 2.0
_SPARE_EVERY_SECONDS: Final = 1.0
_SHUTDOWN_SECONDS: Final = 10.0
"""What requests under way get: more than one bind may take."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ExtenderAddresses:
    """Where the extender listens, as URLs."""

    verbs: str
    probes: str


@asynccontextmanager
async def running(
    settings: ExtenderSettings, client: AsyncClient
) -> AsyncIterator[ExtenderAddresses]:
    """Run the extender while the block runs; a failure of any part ends the block."""
    ledger = Ledger()
    api = AsyncApi(client, timeout_seconds=settings.api_timeout_seconds)
    timing = ListWatchTiming(settings.relist_after_silence_seconds, settings.relist_every_seconds)
    topologies = topology_reflector(api, ledger, timing)
    pods = pod_reflector(api, settings.resource, ledger, timing)
    caches: list[Reflector[Any]] = [topologies, pods]
    ledger.list_again = partial(_list_again, caches)
    gate = Readiness(caches, settings.stale_after_seconds)
    metrics = Metrics(ledger, caches)
    answers = EvaluationCache(
        evaluate_states,
        patience_seconds=settings.decision_timeout_seconds,
        on_worked_out=metrics.worked_out,
    )
    pod_api = PodApi(api, settings.resource)
    binder = Binder(
        ledger,
        answers,
        pod_api,
        ClaimFence(
            ledger,
            Leases(api, settings.namespace),
            pod_api,
            patience_seconds=settings.api_timeout_seconds,
        ),
        BindingWriter(ledger, pod_api, metrics.bound),
        resource=settings.resource,
        default_policy=settings.default_policy,
    )
    verbs = Verbs(
        ledger,
        answers,
        binder,
        metrics,
        resource=settings.resource,
        default_policy=settings.default_policy,
        offer_one_above=settings.offer_one_above,
    )
    async with (
        _background(
            *(cache.run() for cache in caches),
            _settle_for_ever(binder),
            _spare_collector(caches),
            *_handover(settings, api),
            TableWarmUp(ledger, answers, settings.default_policy).run(),
        ),
        _serving(
            verbs_app(verbs, gate, metrics), settings.verbs_host, settings.verbs_port
        ) as front,
        _serving(probes_app(gate, metrics), settings.probes_host, settings.probes_port) as back,
    ):
        _log.info("serving %s", fields(verbs=front, probes=back))
        yield ExtenderAddresses(verbs=front, probes=back)


@asynccontextmanager
async def _background(*parts: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as tasks:
        running_tasks = [tasks.create_task(part) for part in parts]
        try:
            yield
        finally:
            for task in running_tasks:
                task.cancel()


def _handover(settings: ExtenderSettings, api: AsyncApi) -> list[Coroutine[Any, Any, None]]:
    """Return the loop that takes the Lease from a failing leader, where this pod has a name."""
    if not settings.pod:
        return []
    candidate = LeaseCandidate(
        namespace=settings.namespace,
        pod=settings.pod,
        lease=settings.scheduler_lease,
        blocked_seconds=settings.lease_blocked_seconds,
    )
    election = Election(api, candidate)
    return [Handover(election, settings.pod, settings.handover_after_seconds).run()]


def _list_again(caches: Sequence[Reflector[Any]]) -> None:
    for cache in caches:
        cache.list_again()


async def _settle_for_ever(binder: Binder) -> None:
    while True:
        await asyncio.sleep(_SETTLE_EVERY_SECONDS)
        await binder.resolve_open()


async def _spare_collector(caches: Sequence[Reflector[Any]]) -> None:
    """Take what lists have brought out of the garbage collector's rounds.

    It stays for long and has no cycles, and looking through it takes 0.1 s for 5,000 nodes,
    in which no verb is answered.
    """
    seen: list[int] = []
    try:
        while True:
            lists = [cache.lists for cache in caches]
            if all(lists) and lists != seen:
                seen = lists
                gc.collect()
                gc.freeze()
            await asyncio.sleep(_SPARE_EVERY_SECONDS)
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

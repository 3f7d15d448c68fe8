"""Starts the parts of the operator: connection to the API server, queue, kopf and metrics."""

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import kopf
from prometheus_client import generate_latest, start_http_server

from gputopo.runtime.log import configure, fields
from gputopo_kube.credentials import connected
from gputopo_kube.errors import CredentialsError
from gputopo_kube.listen import listen_address
from gputopo_kube.probes import ProbeServer, Pulse
from gputopo_kube.program import load_settings
from gputopo_kube.sync import SyncApi
from gputopo_operator.controller import (
    ensemble_queue,
    job_queue_passes,
    profiling_queue,
    sharing_queue,
    tuning_queue,
)
from gputopo_operator.controller.ensemble_api import EnsembleApi
from gputopo_operator.controller.ensemble_queue import EnsembleQueue
from gputopo_operator.controller.ensemble_reconciler import EnsembleReconciler
from gputopo_operator.controller.ensemble_snapshot import SHARED_SECONDS
from gputopo_operator.controller.handlers import registry_for
from gputopo_operator.controller.job_api import JobApi
from gputopo_operator.controller.job_queue_api import JobQueueApi
from gputopo_operator.controller.job_queue_passes import JobQueuePasses
from gputopo_operator.controller.job_queue_starter import JobQueueStarter, no_joins
from gputopo_operator.controller.node_reports import NodeReports
from gputopo_operator.controller.profile_reconciler import ProfileReconciler
from gputopo_operator.controller.profiler import Profiler
from gputopo_operator.controller.profiling_api import ProfilingApi
from gputopo_operator.controller.profiling_queue import ProfilingQueue
from gputopo_operator.controller.queue_nodes import QueueNodes
from gputopo_operator.controller.queues import Queues
from gputopo_operator.controller.reconciler import Reconciler
from gputopo_operator.controller.resync import Resync
from gputopo_operator.controller.sharing_api import SharingApi
from gputopo_operator.controller.sharing_judge import SharingJudge
from gputopo_operator.controller.sharing_queue import SharingQueue
from gputopo_operator.controller.tuner import Tuner
from gputopo_operator.controller.tuning_api import TuningApi
from gputopo_operator.controller.tuning_queue import TuningQueue
from gputopo_operator.controller.waiting_pods import WaitingPods
from gputopo_operator.controller.work_queue import queue_in_threads
from gputopo_operator.metrics import OperatorLoop, OperatorMetrics
from gputopo_operator.model.jobs import PodDefaults
from gputopo_operator.settings import OperatorSettings

if TYPE_CHECKING:
    from gputopo_operator.controller.share_evaluation import ShareEvaluation

PROFILE_WORKERS: Final = 2
"""GPUProfiles that are reconciled at the same time."""

JOB_REST_SECONDS: Final = 0.2
"""Time from one reconciliation of a GPUJob to the next.

While a job starts, its Job and its pod change about six times within 0.2 s. Each reconciliation
sends four requests, which would compete with the start of the pod.
"""

QUEUES: Final = (job_queue_passes, ensemble_queue, profiling_queue, sharing_queue, tuning_queue)
"""Modules whose workers run in the threads of ``operate``."""

_log = logging.getLogger(__name__)


async def operate(
    settings: OperatorSettings, connection: SyncApi, metrics: OperatorMetrics
) -> None:
    """Run the operator until a signal stops it."""
    asyncio.get_running_loop().set_exception_handler(report_loop_error)
    # Requests to the API server block, so each reconciliation runs in a thread.
    workers = settings.workers + PROFILE_WORKERS + sum(each.WORKERS for each in QUEUES)
    with ThreadPoolExecutor(workers, thread_name_prefix="reconcile") as threads:
        registry, loops = _parts(settings, connection, metrics, threads)
        pulse = Pulse()
        with closing(_probe_server(settings, pulse, metrics)):
            await _run(registry, [*loops, pulse.beat_until_cancelled()], settings)


async def _run(
    registry: kopf.OperatorRegistry,
    loops: Sequence[Coroutine[Any, Any, None]],
    settings: OperatorSettings,
) -> None:
    """Run the watches of kopf and the loops until a signal stops kopf."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(loop) for loop in loops]
        # At its end kopf waits 5 s for all tasks that were created after its own task. So all
        # workers are created now: the first two steps of these tasks create them.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await _watch(registry, settings)
        for task in tasks:
            task.cancel()


def report_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Report an error that no task has raised; errors of watches that are closed are expected.

    The end of asyncio closes the generators of kopf's watches. One that a signal has just stopped
    within a request answers with an error ("generator didn't stop after athrow()").
    """
    if "asyncgen" in context:
        _log.debug("watch closed %s", fields(error=context.get("exception")))
        return
    loop.default_exception_handler(context)


def _parts(
    settings: OperatorSettings,
    connection: SyncApi,
    metrics: OperatorMetrics,
    threads: ThreadPoolExecutor,
) -> tuple[kopf.OperatorRegistry, list[Coroutine[Any, Any, None]]]:
    """Return the watches of kopf, and the loops that run beside them."""
    api = JobApi(connection, settings.max_profiles_per_namespace)
    profiling_api, reports = ProfilingApi(connection), NodeReports()
    queues = _queues(settings, api, reports, metrics, threads)
    profiler = Profiler(profiling_api, api, settings)
    profiling = ProfilingQueue(
        profiler, profiling_api, settings, threads, metrics.error_counter(OperatorLoop.MEASURING)
    )
    waiting = WaitingPods()
    tuner = Tuner(TuningApi(connection), api, reports, waiting, metrics.sizing, settings)
    tuning = TuningQueue(
        tuner, waiting, settings, threads, metrics.error_counter(OperatorLoop.SIZING)
    )
    metrics.sizing.watch_queue(tuning.__len__)
    job_queues = _job_queue(settings, connection, api, metrics, threads)
    resync = Resync(api, queues, reports, metrics, settings.namespace_names)
    registry = registry_for(queues, reports)
    ensembles = _ensembles(settings, connection, api, reports, metrics, threads)
    ensembles.watch(registry)
    profiling.watch(registry)
    tuning.watch(registry)
    loops = [
        queues.jobs.run(settings.workers),
        queues.profiles.run(PROFILE_WORKERS),
        resync.run(settings.resync_seconds),
        profiling.run(),
        profiling.resync(),
        tuning.run(),
        ensembles.run(),
        ensembles.resync(),
    ]
    if settings.sharing_judge_seconds:
        judge = SharingJudge(SharingApi(connection), api, metrics, settings)
        sharing = SharingQueue(judge, threads, metrics.error_counter(OperatorLoop.SHARING))
        sharing.watch(registry)
        loops.append(sharing.run())
    for job_queue in job_queues:
        job_queue.watch(registry)
        loops += [job_queue.run(), job_queue.resync()]
    return registry, loops


async def _watch(registry: kopf.OperatorRegistry, settings: OperatorSettings) -> None:
    """Run the watches of kopf until a signal stops this process."""
    await kopf.operator(
        registry=registry,
        standalone=True,
        clusterwide=not settings.namespace_names,
        namespaces=settings.namespace_names,
    )


def _probe_server(
    settings: OperatorSettings, pulse: Pulse, metrics: OperatorMetrics
) -> ProbeServer:
    return ProbeServer(
        settings.probes_host,
        settings.health_port,
        live=lambda: pulse.failure,
        ready=lambda: pulse.failure,
        metrics=partial(generate_latest, metrics.registry),
    )


def _queues(
    settings: OperatorSettings,
    api: JobApi,
    reports: NodeReports,
    metrics: OperatorMetrics,
    threads: ThreadPoolExecutor,
) -> Queues:
    shares = settings.sharing_judge_seconds > 0
    defaults = PodDefaults(settings.resource, settings.scheduler_name, shares)
    queued = settings.queue_rules is not None
    reconciler = Reconciler(api, defaults, metrics, queued=queued)
    queues = Queues(
        queue_in_threads(
            reconciler.timed,
            threads,
            rest_seconds=JOB_REST_SECONDS,
            on_error=metrics.error_counter(OperatorLoop.GPUJOBS),
        ),
        queue_in_threads(
            ProfileReconciler(api, reports, metrics).reconcile,
            threads,
            on_error=metrics.error_counter(OperatorLoop.GPUPROFILES),
        ),
        namespaces=settings.namespace_names,
        profile_delay_seconds=settings.profile_delay_seconds,
    )
    metrics.watch_queues(queues.jobs.__len__, queues.profiles.__len__)
    return queues


def _ensembles(
    settings: OperatorSettings,
    connection: SyncApi,
    api: JobApi,
    reports: NodeReports,
    metrics: OperatorMetrics,
    threads: ThreadPoolExecutor,
) -> EnsembleQueue:
    lists = EnsembleApi(connection, settings.namespace_names, settings.scheduler_name)
    reconciler = EnsembleReconciler(
        lists,
        api,
        reports,
        metrics.ensembles,
        settings.resource,
        shared_seconds=SHARED_SECONDS,
    )
    count_error = metrics.error_counter(OperatorLoop.ENSEMBLES)
    return EnsembleQueue(reconciler, lists, settings.resync_seconds, threads, count_error)


def _job_queue(
    settings: OperatorSettings,
    connection: SyncApi,
    api: JobApi,
    metrics: OperatorMetrics,
    threads: ThreadPoolExecutor,
) -> list[JobQueuePasses]:
    """Return gputopo's queue of GPUJobs, or an empty list if the installation does not use it."""
    rules, nodes = settings.queue_rules, QueueNodes()
    if rules is None:
        return []
    lists = JobQueueApi(connection, settings.namespace_names, settings.scheduler_name)
    shares = _share_evaluation(settings)
    joins = no_joins if shares is None else shares.joins
    starter = JobQueueStarter(lists, api, nodes, metrics, rules, settings.resource, joins=joins)
    count_error = metrics.error_counter(OperatorLoop.QUEUE)
    seconds = settings.resync_seconds
    return [JobQueuePasses(starter, api, nodes, shares, seconds, threads, count_error)]


def _share_evaluation(settings: OperatorSettings) -> "ShareEvaluation | None":
    """Return the evaluation of shared GPUs; None if the installation shares no GPUs."""
    if not settings.sharing_judge_seconds:
        return None
    from gputopo_operator.controller.share_evaluation import (  # noqa: PLC0415 - needs numpy
        ShareEvaluation,
    )

    return ShareEvaluation(settings.sharing_policy, settings.resource)


def main() -> None:
    """Run the operator with the flags and the environment of this process."""
    settings = load_settings(OperatorSettings)
    # At level info kopf logs every call of a handler, and aiohttp every probe.
    configure(settings.log_level, quiet=("kopf.objects", "aiohttp", "httpx2", "httpcore2"))
    _log.info("settings %s", fields(**settings.model_dump()))
    # Without this variable kopf looks up the user's name, and the user of the image has no name.
    os.environ.setdefault("POD_ID", socket.gethostname())
    metrics = OperatorMetrics()
    address = listen_address(settings.probes_host)
    start_http_server(settings.metrics_port, address, metrics.registry)
    try:
        with connected(settings.api_timeout_seconds, OperatorSettings.program) as api:
            asyncio.run(operate(settings, api, metrics))
    except CredentialsError as error:
        sys.exit(f"{OperatorSettings.program}: {error}")


if __name__ == "__main__":
    main()

"""Starts the parts of the operator: connection to the API server, queue, kopf and metrics."""

import asyncio
import logging
import os
import socket
import sys
from concurrent.futures import ThreadPoolExecutor

import kopf
from prometheus_client import start_http_server

from gputopo.runtime.log import configure, fields
from gputopo.runtime.settings import SettingsError
from gputopo_kube.credentials import connected
from gputopo_kube.document import ObjectKey
from gputopo_kube.errors import ApiError, CredentialsError
from gputopo_kube.sync import SyncApi
from gputopo_operator.controller.handlers import registry_for
from gputopo_operator.controller.job_api import JobApi
from gputopo_operator.controller.profiler import Profiler
from gputopo_operator.controller.profiling_api import ProfilingApi
from gputopo_operator.controller.profiling_queue import WORKERS, ProfilingQueue
from gputopo_operator.controller.reconciler import Reconciler
from gputopo_operator.controller.work_queue import WorkQueue
from gputopo_operator.metrics import OperatorMetrics
from gputopo_operator.model import PodDefaults
from gputopo_operator.settings import OperatorSettings

_log = logging.getLogger(__name__)


async def operate(
    settings: OperatorSettings, connection: SyncApi, metrics: OperatorMetrics
) -> None:
    """Run the operator until a signal stops it."""
    loop = asyncio.get_running_loop()
    defaults = PodDefaults(settings.resource, settings.scheduler_name)
    api, profiling_api = JobApi(connection), ProfilingApi(connection)
    reconciler = Reconciler(api, defaults, metrics)
    profiler = Profiler(profiling_api, api, settings.resource)
    # Requests to the API server block, so each reconciliation runs in a thread.
    threads = ThreadPoolExecutor(settings.workers + WORKERS, thread_name_prefix="reconcile")

    async def work(key: ObjectKey) -> float | None:
        return await loop.run_in_executor(threads, reconciler.timed, key)

    queue = WorkQueue(work, expected=ApiError)
    metrics.watch_queue(queue.__len__)
    profiling = ProfilingQueue(profiler, profiling_api, settings, threads)
    registry = registry_for(queue.add)
    profiling.watch(registry)
    with threads:
        async with asyncio.TaskGroup() as group:
            working = group.create_task(queue.run(settings.workers))
            resyncing = group.create_task(_resync(api, settings, queue, metrics))
            measuring = group.create_task(profiling.run())
            # kopf cancels all tasks that start after its own task, so start these tasks first.
            await asyncio.sleep(0)
            await kopf.operator(
                registry=registry,
                standalone=True,
                clusterwide=not settings.namespace_names,
                namespaces=settings.namespace_names,
                liveness_endpoint=f"http://{settings.probes_host}:{settings.health_port}/healthz",
            )
            working.cancel()
            resyncing.cancel()
            measuring.cancel()


async def _resync(
    api: JobApi,
    settings: OperatorSettings,
    queue: WorkQueue[ObjectKey],
    metrics: OperatorMetrics,
) -> None:
    """Add every GPUJob to the queue periodically, because a watch may lose an event."""
    while True:
        await asyncio.sleep(settings.resync_seconds)
        # Known GPUJobs are added too, because the list does not contain deleted GPUJobs.
        for key in metrics.known():
            queue.add(key)
        for namespace in settings.namespace_names or (None,):
            try:
                keys = await asyncio.to_thread(api.gpu_job_keys, namespace)
            except ApiError as error:
                _log.warning("resync failed %s", fields(namespace=namespace, reason=error))
                continue
            for key in keys:
                queue.add(key)


def main() -> None:
    """Run the operator with the flags and the environment of this process."""
    try:
        settings = OperatorSettings.load(sys.argv[1:], os.environ)
    except SettingsError as error:
        sys.exit(f"{OperatorSettings.program}: {error}")
    # At level info kopf logs every call of a handler, and aiohttp every probe.
    configure(settings.log_level, quiet=("kopf.objects", "aiohttp", "httpx2", "httpcore2"))
    _log.info("settings %s", fields(**settings.model_dump()))
    # Without this variable kopf looks up the user's name, and the user of the image has no name.
    os.environ.setdefault("POD_ID", socket.gethostname())
    metrics = OperatorMetrics()
    start_http_server(settings.metrics_port, settings.probes_host, metrics.registry)
    try:
        with connected(settings.api_timeout_seconds, OperatorSettings.program) as api:
            asyncio.run(operate(settings, api, metrics))
    except CredentialsError as error:
        sys.exit(f"{OperatorSettings.program}: {error}")


if __name__ == "__main__":
    main()

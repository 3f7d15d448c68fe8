"""Wires the operator: settings, API client, queue, kopf, metrics."""

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
from gputopo_kube.errors import ApiError, CredentialsError
from gputopo_kube.sync import SyncApi
from gputopo_operator.controller.cluster import JobApi
from gputopo_operator.controller.handlers import registry_for
from gputopo_operator.controller.reconciler import Reconciler
from gputopo_operator.controller.work_queue import WorkQueue
from gputopo_operator.metrics import Metrics
from gputopo_operator.model import Key, Rules
from gputopo_operator.settings import OperatorSettings

logger = logging.getLogger(__name__)


async def operate(settings: OperatorSettings, api: SyncApi, metrics: Metrics) -> None:
    """Run the operator until a signal tells it to stop."""
    loop = asyncio.get_running_loop()
    cluster = JobApi(api)
    rules = Rules(settings.resource, settings.scheduler_name)
    reconciler = Reconciler(cluster, rules, metrics)
    # The client blocks, so it works in threads, as many as GPUJobs may be worked on at once.
    threads = ThreadPoolExecutor(settings.workers, thread_name_prefix="reconcile")

    async def work(key: Key) -> float | None:
        return await loop.run_in_executor(threads, reconciler.timed, key)

    queue = WorkQueue(work, expected=ApiError)
    metrics.watch_queue(queue.__len__)
    with threads:
        async with asyncio.TaskGroup() as group:
            working = group.create_task(queue.run(settings.workers))
            resyncing = group.create_task(_resync(cluster, settings, queue, metrics))
            # kopf ends every task of the loop that is younger than itself.
            await asyncio.sleep(0)
            await kopf.operator(
                registry=registry_for(queue.add),
                standalone=True,
                clusterwide=not settings.namespace_names,
                namespaces=settings.namespace_names,
                liveness_endpoint=f"http://{settings.probes_host}:{settings.health_port}/healthz",
            )
            working.cancel()
            resyncing.cancel()


async def _resync(
    cluster: JobApi, settings: OperatorSettings, queue: WorkQueue[Key], metrics: Metrics
) -> None:
    """Have every GPUJob looked at now and then: a watch may lose an event."""
    while True:
        await asyncio.sleep(settings.resync_seconds)
        # A list does not show what is gone, and no watch tells it again.
        for key in metrics.known():
            queue.add(key)
        for namespace in settings.namespace_names or (None,):
            try:
                keys = await asyncio.to_thread(cluster.gpu_job_keys, namespace)
            except ApiError as error:
                logger.warning("resync failed %s", fields(namespace=namespace, reason=error))
                continue
            for key in keys:
                queue.add(key)


def main() -> None:
    """Run the operator of this process's flags and environment."""
    try:
        settings = OperatorSettings.load(sys.argv[1:], os.environ)
    except SettingsError as error:
        sys.exit(f"{OperatorSettings.program}: {error}")
    # At level info kopf tells every call of a handler, and aiohttp every probe.
    configure(settings.log_level, quiet=("kopf.objects", "aiohttp", "httpx2", "httpcore2"))
    logger.info("settings %s", fields(**settings.model_dump()))
    # Else kopf asks for the name of the user, and that of the image has none.
    os.environ.setdefault("POD_ID", socket.gethostname())
    metrics = Metrics()
    start_http_server(settings.metrics_port, settings.probes_host, metrics.registry)
    try:
        with connected(settings.api_timeout_seconds, OperatorSettings.program) as api:
            asyncio.run(operate(settings, api, metrics))
    except CredentialsError as error:
        sys.exit(f"{OperatorSettings.program}: {error}")


if __name__ == "__main__":
    main()

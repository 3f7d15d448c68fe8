"""Starts the operator: its parts, kopf, the metrics and the probes."""

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from itertools import chain
from typing import Any, Final

import kopf
from prometheus_client import generate_latest, start_http_server

from gputopo.runtime.log import configure, fields
from gputopo_kube.credentials import connected
from gputopo_kube.errors import CredentialsError
from gputopo_kube.listen import listen_address
from gputopo_kube.probes import ProbeServer, Pulse
from gputopo_kube.program import load_settings
from gputopo_kube.sync import SyncApi
from gputopo_operator.controller.ensemble_queue import EnsembleQueue
from gputopo_operator.controller.gpujob_queue import GpuJobQueue
from gputopo_operator.controller.handlers import new_registry
from gputopo_operator.controller.job_api import JobApi
from gputopo_operator.controller.job_queue_passes import JobQueuePasses
from gputopo_operator.controller.node_store import NodeStore
from gputopo_operator.controller.parts import OperatorPart, PartInputs
from gputopo_operator.controller.profiling_queue import ProfilingQueue
from gputopo_operator.controller.sharing_queue import SharingQueue
from gputopo_operator.controller.tuning_queue import TuningQueue
from gputopo_operator.metrics import OperatorLoop, OperatorMetrics
from gputopo_operator.settings import OperatorSettings

PARTS: Final[tuple[type[OperatorPart], ...]] = (
    GpuJobQueue,
    ProfilingQueue,
    TuningQueue,
    EnsembleQueue,
    SharingQueue,
    JobQueuePasses,
)

_log = logging.getLogger(__name__)


async def operate(
    settings: OperatorSettings, connection: SyncApi, metrics: OperatorMetrics
) -> None:
    """Run the operator until a signal stops it."""
    asyncio.get_running_loop().set_exception_handler(report_loop_error)
    kinds = [kind for kind in PARTS if kind.workers(settings)]
    workers, pulse = sum(kind.workers(settings) for kind in kinds), Pulse()
    with (
        ThreadPoolExecutor(workers, thread_name_prefix="reconcile") as threads,
        closing(_probe_server(settings, pulse, metrics)),
    ):
        objects = JobApi(connection, settings.max_profiles_per_namespace)
        found = PartInputs(settings, connection, objects, NodeStore(), metrics, threads)
        await _run(found, [kind(found) for kind in kinds], pulse)


async def _run(found: PartInputs, parts: Sequence[OperatorPart], pulse: Pulse) -> None:
    """Read all nodes, then run the watches of kopf and the loops until a signal stops kopf."""
    registry, count_error = new_registry(), found.metrics.error_counter(OperatorLoop.RESYNC)
    for part in parts:
        part.watch(registry)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(pulse.beat_until_cancelled())]
        if await _succeeds(group.create_task(found.nodes.read_first(found.objects, count_error))):
            found.nodes.watch(registry)
            resync = found.nodes.resync(found.objects, found.settings.resync_seconds, count_error)
            loops = chain([resync], *(part.loops() for part in parts))
            tasks += [group.create_task(loop) for loop in loops]
            # At its end kopf waits 5 s for all tasks that were created after its own task. So all
            # workers are created now: the first two steps of these tasks create them.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            await _watch(registry, found.settings)
        for task in tasks:
            task.cancel()


async def _succeeds(first: asyncio.Task[None]) -> bool:
    """Return whether a task has ended before a signal stops it.

    Later kopf handles the signals. Until then, Python as process 1 of a container ignores them.
    """
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, first.cancel)
    await asyncio.wait([first])
    return not first.cancelled()


def report_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Report an error that no task has raised; errors of watches that are closed are expected.

    The end of asyncio closes the generators of kopf's watches. One that a signal has just stopped
    within a request answers with an error ("generator didn't stop after athrow()").
    """
    if "asyncgen" in context:
        _log.debug("watch closed %s", fields(error=context.get("exception")))
        return
    loop.default_exception_handler(context)


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

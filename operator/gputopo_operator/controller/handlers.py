"""Configures kopf, and registers the watches that fill the queues of GPUJobs and GPUProfiles.

Each event of a watch adds an object's key to a work queue. The other queues register their own
watches in the registry that ``registry_for`` returns.

The operator uses no change handlers, timers or daemons of kopf. So kopf stores no state in the
objects and adds no finalizer.
"""

from collections.abc import Callable
from typing import Any

import kopf

from gputopo.api.names import GROUP, JOB_LABEL, VERSION
from gputopo_kube.credentials import connection_fields
from gputopo_kube.document import ObjectKey
from gputopo_operator.controller.node_reports import NodeReports
from gputopo_operator.controller.queues import Queues

POD_INDEX = "gpu_job_of_pod"


def registry_for(queues: Queues, reports: NodeReports) -> kopf.OperatorRegistry:
    """Return handlers of watch events, which update ``reports`` and add keys to the queues."""
    registry = kopf.OperatorRegistry()
    _configure(registry)
    _watch_jobs(registry, queues.jobs.add)
    _watch_profiles(registry, queues.profiles.add)
    _watch_topologies(registry, queues, reports)
    return registry


def _configure(registry: kopf.OperatorRegistry) -> None:
    @kopf.on.login(registry=registry)
    def log_in(settings: kopf.OperatorSettings, **_: object) -> kopf.ConnectionInfo:
        # kopf calls this function again when the API server rejects the token.
        return kopf.ConnectionInfo(**connection_fields(), trust_env=settings.networking.trust_env)

    @kopf.on.startup(registry=registry)
    async def configure(settings: kopf.OperatorSettings, **_: object) -> None:
        # The reconciler creates the events itself, each once.
        settings.posting.enabled = False
        settings.watching.chunk_size = 100
        # Watch the Jobs and pods of GPUJobs only, not those of the whole cluster.
        settings.watching.label_selectors["batch", "v1", "jobs"] = JOB_LABEL
        settings.watching.label_selectors["", "v1", "pods"] = JOB_LABEL


def _watch_jobs(registry: kopf.OperatorRegistry, add: Callable[[ObjectKey], None]) -> None:
    @kopf.on.event(GROUP, VERSION, "gpujobs", registry=registry)
    async def gpu_job_changed(namespace: str | None, name: str, **_: object) -> None:
        add(ObjectKey(namespace or "", name))

    @kopf.on.event("batch", "v1", "jobs", labels={JOB_LABEL: kopf.PRESENT}, registry=registry)
    @kopf.on.event("", "v1", "pods", labels={JOB_LABEL: kopf.PRESENT}, registry=registry)
    async def child_changed(namespace: str | None, labels: kopf.Labels, **_: object) -> None:
        add(ObjectKey(namespace or "", labels[JOB_LABEL]))


def _watch_profiles(registry: kopf.OperatorRegistry, add: Callable[[ObjectKey], None]) -> None:
    @kopf.on.event(GROUP, VERSION, "gpuprofiles", registry=registry)
    async def profile_changed(namespace: str | None, name: str, **_: object) -> None:
        add(ObjectKey(namespace or "", name))


def _watch_topologies(
    registry: kopf.OperatorRegistry, queues: Queues, reports: NodeReports
) -> None:
    """Watch GPUTopologies; a change adds GPUJobs and GPUProfiles to the queues.

    Each agent changes its GPUTopology up to twice a minute, and each reconciliation of a GPUJob
    sends four requests. So a GPUJob is added only if the GPUs or the rate of its pod have changed.
    """

    @kopf.index("", "v1", "pods", id=POD_INDEX, labels={JOB_LABEL: kopf.PRESENT}, registry=registry)
    async def index_pod(
        uid: str, namespace: str | None, labels: kopf.Labels, **_: object
    ) -> dict[str, ObjectKey]:
        return {uid: ObjectKey(namespace or "", labels[JOB_LABEL])}

    @kopf.on.event(GROUP, VERSION, "gputopologies", registry=registry)
    async def topology_changed(
        event: kopf.RawEvent,
        name: str,
        uid: str,
        **indices: Any,  # noqa: ANN401 - kopf's
    ) -> None:
        if event["type"] == "DELETED":
            reports.drop(name, uid)
            return
        gpu_job_of_pod: kopf.Index[str, ObjectKey] = indices[POD_INDEX]
        changed = reports.replace(dict(event["object"]))
        for pod in changed.pods & set(gpu_job_of_pod):
            for key in gpu_job_of_pod[pod]:
                queues.jobs.add(key)
        queues.add_changed_profiles(changed)

"""What kopf watches: every event only says which GPUJob to look at.

There are no change handlers, timers or daemons, so kopf keeps no state in the objects and
adds no finalizer.
"""

from collections.abc import Callable
from typing import Any

import kopf

from gputopo.api.names import GROUP, JOB_LABEL, VERSION
from gputopo_kube.credentials import connection_fields
from gputopo_operator.model import Key

POD_INDEX = "gpu_job_of_pod"


def registry_for(add: Callable[[Key], None]) -> kopf.OperatorRegistry:
    """Return the handlers that call ``add`` for every GPUJob that an event may concern."""
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    def log_in(settings: kopf.OperatorSettings, **_: object) -> kopf.ConnectionInfo:
        # kopf calls it again when the API server rejects the token.
        return kopf.ConnectionInfo(**connection_fields(), trust_env=settings.networking.trust_env)

    @kopf.on.startup(registry=registry)
    async def configure(settings: kopf.OperatorSettings, **_: object) -> None:
        # The reconciler posts its own events, once; kopf shall add none.
        settings.posting.enabled = False
        settings.watching.chunk_size = 500
        # Only what belongs to GPUJobs crosses the network, not all pods of the cluster.
        settings.watching.label_selectors["batch", "v1", "jobs"] = JOB_LABEL
        settings.watching.label_selectors["", "v1", "pods"] = JOB_LABEL

    @kopf.index("", "v1", "pods", id=POD_INDEX, labels={JOB_LABEL: kopf.PRESENT}, registry=registry)
    async def index_pod(
        uid: str, namespace: str | None, labels: kopf.Labels, **_: object
    ) -> dict[str, Key]:
        return {uid: Key(namespace or "", labels[JOB_LABEL])}

    @kopf.on.event(GROUP, VERSION, "gpujobs", registry=registry)
    async def gpu_job_changed(namespace: str | None, name: str, **_: object) -> None:
        add(Key(namespace or "", name))

    @kopf.on.event("batch", "v1", "jobs", labels={JOB_LABEL: kopf.PRESENT}, registry=registry)
    @kopf.on.event("", "v1", "pods", labels={JOB_LABEL: kopf.PRESENT}, registry=registry)
    async def part_changed(namespace: str | None, labels: kopf.Labels, **_: object) -> None:
        add(Key(namespace or "", labels[JOB_LABEL]))

    @kopf.on.event(GROUP, VERSION, "gputopologies", registry=registry)
    async def topology_changed(status: kopf.Status, **indices: Any) -> None:  # noqa: ANN401 - kopf's
        gpu_job_of_pod: kopf.Index[str, Key] = indices[POD_INDEX]
        holders = {gpu.get("podUID") for gpu in status.get("gpus", [])}
        for uid in holders & set(gpu_job_of_pod):
            for key in gpu_job_of_pod[uid]:
                add(key)

    return registry

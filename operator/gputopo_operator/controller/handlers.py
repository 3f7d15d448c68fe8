"""Configures kopf, which watches GPUJobs, GPUProfiles, GPUEnsembles, Jobs, pods and nodes.

The operator uses no change handlers, timers or daemons of kopf. So kopf stores no state in the
objects and adds no finalizer.
"""

import kopf

from gputopo.api.names import JOB_LABEL
from gputopo_kube.credentials import connection_fields


def new_registry() -> kopf.OperatorRegistry:
    """Return a registry for the handlers of watch events, with the credentials for kopf."""
    registry = kopf.OperatorRegistry()

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

    return registry

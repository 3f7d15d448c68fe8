"""Reads whether the pods of started Jobs could not be created. No watch follows all events."""

import logging
from collections.abc import Mapping, Sequence
from itertools import chain
from math import inf
from typing import Final

from gputopo.api.names import RESOURCE
from gputopo.runtime.log import fields
from gputopo.runtime.times import unix_seconds
from gputopo_kube.document import ObjectKey, controller_of
from gputopo_kube.errors import ApiError
from gputopo_operator.controller.job_api import JobApi
from gputopo_operator.decision.conditions import PLACED, find
from gputopo_operator.decision.pod_creation import creation_error
from gputopo_operator.model.jobs import ChildJob, GpuJob
from gputopo_operator.model.queued import QueuedJob
from gputopo_operator.parse.failed_creates import parse_created_pod, parse_failed_creates

MOST_READ: Final = 20
"""Jobs of the queue whose events one pass reads: those that were read longest ago."""

READ_SECONDS: Final = 10.0
"""Time between two reads for the same Job."""

_log = logging.getLogger(__name__)


class PodCreation:
    """Reads the events and pods of Jobs of the queue that have no pod; for one thread only."""

    def __init__(self, api: JobApi, resource: str) -> None:
        """``resource`` is the extended resource that counts GPUs."""
        self._api = api
        self._resource = resource
        self._read_at: dict[str, float] = {}

    def errors(self, jobs: Sequence[QueuedJob], now: str) -> Mapping[ObjectKey, str]:
        """Return why pods of these jobs cannot be created; jobs without a known error are left out.

        ``jobs`` are all jobs that have no pod.
        """
        children = {each.child.uid: (each, each.child) for each in jobs if each.child is not None}
        time = unix_seconds(now) or 0.0
        self._read_at = {uid: self._read_at.get(uid, -inf) for uid in children}
        # The clock may be set back.
        due = [uid for uid, at in self._read_at.items() if abs(time - at) >= READ_SECONDS]
        errors = {}
        for uid in sorted(due, key=lambda uid: self._read_at[uid])[:MOST_READ]:
            self._read_at[uid] = time
            queued, child = children[uid]
            job, status = queued.job, queued.job.status.queue
            begins = (queued.started, status.not_before if status else None)
            try:
                error = read_creation_error(self._api, job, child, begins, now, self._resource)
            except ApiError as failure:
                # The next pass begins with other jobs. This one must not take many time limits.
                _log.warning("events not read %s", fields(gpujob=job.key, reason=failure))
                break
            if error:
                errors[job.key] = error
        return errors


def read_creation_error(
    api: JobApi,
    job: GpuJob,
    child: ChildJob,
    begins: Sequence[str | None],
    now: str,
    resource: str = RESOURCE,
) -> str:
    """Read the events and pods of a Job that has no live pod with GPUs; see ``creation_error``."""
    key = job.key
    failures = parse_failed_creates(api.failed_creates(key.namespace, child.uid))
    # Other clients can create pods of the Job, with the labels that they choose.
    found = chain(api.pods(key), api.pods_of_controller(key.namespace, child.uid))
    pods = [
        parse_created_pod(pod, resource)
        for pod in found
        if controller_of(pod).get("uid") == child.uid
    ]
    placed = find(job.status.conditions, PLACED)
    return creation_error(child, begins, failures, pods, placed, now)

"""Creates, suspends and reads the GPUJobs of an experiment with the queue."""

import time
from collections.abc import Callable
from datetime import datetime
from http import HTTPStatus
from typing import TypeVar

from learntest.bench import Bench
from resizetest import queue_jobs
from resizetest.queue_definition import QueuedJob
from soaktest.client import Object, RejectedError, UnavailableError

_PATIENCE_SECONDS, _PAUSE_SECONDS = 120.0, 0.5

Found = TypeVar("Found")


class QueueApi:
    """The GPUJobs of one namespace on one node; each request is repeated until it is answered."""

    def __init__(self, bench: Bench, node: str) -> None:
        self._bench, self._node = bench, node

    def create(self, job: QueuedJob) -> None:
        """Create the GPUJob of a job."""
        manifest = queue_jobs.sleeper(job, self._node, self._bench.installed.workload_image)

        def attempt() -> None:
            try:
                self._bench.client.create(self._bench.jobs, manifest)
            except RejectedError as error:
                if error.status != HTTPStatus.CONFLICT:  # an earlier attempt was carried out
                    raise

        _patiently(attempt)

    def delete(self, job: str) -> None:
        """Delete a GPUJob."""
        _patiently(lambda: self._bench.client.delete(f"{self._bench.jobs}/{job}"))

    def suspend(self, job: str, *, suspended: bool) -> None:
        """Set ``spec.suspend`` of a GPUJob."""
        change = {"spec": {"suspend": suspended}}
        _patiently(lambda: self._bench.client.patch(f"{self._bench.jobs}/{job}", change))

    def created(self) -> dict[str, float]:
        """Return the creation time of each GPUJob, in seconds since 1970."""
        return {
            each["metadata"]["name"]: datetime.fromisoformat(
                each["metadata"]["creationTimestamp"]
            ).timestamp()
            for each in self._gpu_jobs()
        }

    def positions(self) -> dict[str, int]:
        """Return the position of each GPUJob in the queue."""
        queued = {each["metadata"]["name"]: _queue(each) for each in self._gpu_jobs()}
        return {name: queue["position"] for name, queue in queued.items() if "position" in queue}

    def phases(self) -> dict[str, str]:
        """Return the phase of each GPUJob; empty before the operator has seen it."""
        return {
            each["metadata"]["name"]: each.get("status", {}).get("phase", "")
            for each in self._gpu_jobs()
        }

    def waited_seconds(self, job: str) -> int | None:
        """Return how long a GPUJob has waited, by its status; None before it has started."""
        path = f"{self._bench.jobs}/{job}"
        found: int | None = _queue(_patiently(lambda: self._bench.client.get(path))).get(
            "waitedSeconds"
        )
        return found

    def _gpu_jobs(self) -> list[Object]:
        listed = _patiently(lambda: self._bench.client.get(self._bench.jobs))
        found: list[Object] = listed["items"]
        return found


def _queue(gpu_job: Object) -> Object:
    found: Object = gpu_job.get("status", {}).get("queue", {})
    return found


def _patiently(attempt: Callable[[], Found]) -> Found:
    """Return the result of a request, which is repeated while the API server is unavailable."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return attempt()
        except UnavailableError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_SECONDS)

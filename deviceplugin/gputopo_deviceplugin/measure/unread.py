"""Reports endpoints and logs from which the agent cannot read the steps of a container."""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from gputopo.api.names import STEPS_METRICS_ANNOTATION, STEPS_SOURCE_ANNOTATION
from gputopo.runtime.log import fields
from gputopo_deviceplugin.measure.containers import ContainerKey, MeasuredContainer
from gputopo_deviceplugin.measure.counts import StepCounts

LASTING_SECONDS: Final = 60.0
"""An error that lasts this long becomes an event of the pod."""

_MOST_EVENTS: Final = 3
"""Most events of one container: the program can affect the text, so there can be many texts."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Failures:
    """The errors of one container.

    Attributes:
        error: the newest error; None after a successful read.
        since: time of the first error after the newest successful read, or after the container's
            start if that was later; None without such an error.
        reported: errors with an event.
    """

    error: str | None = None
    since: float | None = None
    reported: set[str] = field(default_factory=set)


class UnreadSteps:
    """Logs each error of a container once, and records an event if the errors last."""

    def __init__(self, counts: StepCounts) -> None:
        """Record the events with ``counts``."""
        self._counts = counts
        self._failures: dict[ContainerKey, _Failures] = {}

    def update(
        self,
        containers: Collection[MeasuredContainer],
        errors: Mapping[ContainerKey, str],
        now: float,
    ) -> None:
        """Set the errors of all containers that were read at ``now``."""
        before = self._failures
        self._failures = {each.key: before.get(each.key, _Failures()) for each in containers}
        for each in containers:
            self._set_error(each, errors.get(each.key), now)

    def _set_error(self, container: MeasuredContainer, error: str | None, now: float) -> None:
        known = self._failures[container.key]
        is_new = error not in {None, known.error}
        known.error = error
        if is_new:
            _log.warning(
                "steps not read %s",
                fields(pod=container.pod.key, container=container.name, reason=error),
            )
        if error is None or not container.started:  # pulling an image can take minutes
            known.since = None
        elif known.since is None:
            known.since = now
        elif now - known.since >= LASTING_SECONDS:
            self._record(container, known, error)

    def _record(self, container: MeasuredContainer, known: _Failures, error: str) -> None:
        if error not in known.reported and len(known.reported) < _MOST_EVENTS:
            known.reported.add(error)
            self._counts.record_unread(container, _advice(container, error))


def _advice(container: MeasuredContainer, error: str) -> str:
    endpoint = container.request.metrics
    if endpoint is None:
        return (
            f"{STEPS_SOURCE_ANNOTATION}: Log, but the log was not readable for "
            f"{LASTING_SECONDS:.0f} s: {error}; the source Log needs a container runtime that "
            "writes logs below /var/log/pods, for example containerd; or use SDK or Metrics"
        )
    return (
        f"{STEPS_METRICS_ANNOTATION}: '{endpoint.port}{endpoint.path} {endpoint.metric}', but no "
        f"steps were read for {LASTING_SECONDS:.0f} s: {error}; correct the annotation or the "
        "program, and permit requests from the node to this port; or use SDK or Log"
    )

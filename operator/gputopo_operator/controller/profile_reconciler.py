"""Updates the status of one GPUProfile with the samples that the nodes report.

Only the operator writes this status. It reads the GPUProfile again before each update, so lost,
late and repeated watch events, restarts and a second operator cause no wrong status.
"""

import logging
from collections.abc import Callable

from gputopo.runtime.log import fields
from gputopo.runtime.times import utc_now
from gputopo_kube.document import Document, ObjectKey
from gputopo_kube.errors import ConflictError, DeniedError
from gputopo_operator.controller.job_api import JobApi, ProfileLimitError
from gputopo_operator.controller.node_store import NodeStore
from gputopo_operator.controller.work_queue import CONFLICT_DELAY_SECONDS
from gputopo_operator.decision.job_patch import REJECTED_RECHECK_SECONDS
from gputopo_operator.decision.profiles import profile_update
from gputopo_operator.metrics import OperatorMetrics
from gputopo_operator.model.workloads import ProfileEvidence
from gputopo_operator.parse.jobs import parse_profile_state
from gputopo_operator.parse.samples import evidence_of

_log = logging.getLogger(__name__)


class ProfileReconciler:
    """Reconciles GPUProfiles. Its methods block; any number of threads may call them."""

    def __init__(
        self,
        api: JobApi,
        nodes: NodeStore,
        metrics: OperatorMetrics,
        clock: Callable[[], str] = utc_now,
    ) -> None:
        self._api = api
        self._nodes = nodes
        self._metrics = metrics
        self._clock = clock

    def reconcile(self, key: ObjectKey) -> float | None:
        """Update one GPUProfile. Return the seconds until the next attempt is due, or None.

        Raises:
            ApiError: a request failed; the caller tries again later.
        """
        evidence = evidence_of(key, self._nodes.reports.values().values())
        raw = self._api.profile(key)
        if raw is None:
            return self._create(key) if evidence.running else None
        try:
            self._update(key, raw, evidence)
        except ConflictError as error:
            _log.debug("write conflict, trying again %s", fields(gpuprofile=key, reason=error))
            return CONFLICT_DELAY_SECONDS
        return None

    def _create(self, key: ObjectKey) -> float:
        """Create a GPUProfile that a running pod names; return the delay of the next attempt."""
        try:
            self._api.create_profile(key)
        except (DeniedError, ProfileLimitError) as error:
            _log.warning("profile not created %s", fields(gpuprofile=key, reason=error))
            self._metrics.count_rejected_profile()
            return REJECTED_RECHECK_SECONDS
        _log.info("profile created %s", fields(gpuprofile=key))
        return CONFLICT_DELAY_SECONDS

    def _update(self, key: ObjectKey, raw: Document, evidence: ProfileEvidence) -> None:
        profile, now = parse_profile_state(raw), self._clock()
        update = profile_update(profile, evidence, now)
        if update is None:
            return
        self._api.write_status(raw, profile.status.to_json(), update.status.to_json())
        self._metrics.count_profile_update()
        figures = {"samples": update.status.sample_count, "summary": update.status.summary}
        _log.info("profile updated %s", fields(gpuprofile=key, **figures))
        for event in update.events:
            self._api.create_event(raw, event, now)

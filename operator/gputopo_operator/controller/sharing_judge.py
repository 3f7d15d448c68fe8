"""Compares the measured speeds of pods that share a GPU, and ends a sharing that does not pay."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gputopo.api.annotations import AnnotationError
from gputopo.api.measuring import parse_profile_name
from gputopo.api.profile import GPUProfile, Measurement, WorkloadFacts
from gputopo.api.shares import parse_sharing
from gputopo.runtime.log import fields
from gputopo.runtime.times import utc_now
from gputopo.sharing.judge import SharingJudgement, SharingVerdict
from gputopo_kube.document import Document, ObjectKey
from gputopo_kube.errors import NotFoundError, RejectedError
from gputopo_kube.measurements import parse_measured
from gputopo_kube.podmodel import PodError
from gputopo_kube.pods import parse_gpu_pod
from gputopo_operator.controller.job_api import JobApi
from gputopo_operator.controller.node_store import NodeStore
from gputopo_operator.controller.sharing_api import SharingApi
from gputopo_operator.decision.sharing import (
    JudgedGpu,
    JudgedPod,
    SharingKey,
    due,
    has_shared_gpus,
    judge,
    shared_gpus,
    sharing_event,
)
from gputopo_operator.metrics import OperatorMetrics
from gputopo_operator.settings import OperatorSettings

CHECK_SECONDS = 5.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Sharing:
    """The shared GPUs of a node; measurements and documents of their pods by UID."""

    gpus: list[JudgedGpu]
    measured: Mapping[str, Measurement]
    documents: Mapping[str, Document]


class SharingJudge:
    """Judges the shared GPUs of nodes. Its methods block; any thread may call them.

    A sharing ends only if each check shows for a stated time that it does not pay. After a restart
    of the operator, this time begins again.
    """

    def __init__(
        self,
        api: SharingApi,
        objects: JobApi,
        nodes: NodeStore,
        metrics: OperatorMetrics,
        settings: OperatorSettings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Decide with ``settings``; ``clock`` returns seconds."""
        self._api = api
        self._objects = objects
        self._nodes = nodes
        self._metrics = metrics
        self._settings = settings
        self._clock = clock
        self._bad_since: dict[str, dict[SharingKey, float]] = {}
        self._reported: dict[str, set[SharingKey]] = {}

    def advance(self, node: str) -> float | None:
        """Judge the shared GPUs of a node; return the seconds until the next call, or None.

        Raises:
            ApiError: a request failed; the caller tries again later.
        """
        found = self._read(node)
        if found is None or not found.gpus:
            self._bad_since.pop(node, None)
            self._reported.pop(node, None)
            return None
        facts, percent = self._facts(found.gpus), self._settings.sharing_max_slowdown_percent
        judged = {gpu.key: judge(gpu, found.measured, facts, percent) for gpu in found.gpus}
        self._bad_since[node], ended = due(
            self._bad_since.get(node, {}),
            {key: judgement.verdict for key, judgement in judged.items()},
            self._clock(),
            self._settings.sharing_judge_seconds,
        )
        self._reported[node] = reported = self._reported.get(node, set()) & judged.keys()
        for gpu in found.gpus:
            if gpu.key in ended and self._still_ends(node, gpu, facts):
                self._end(gpu, judged[gpu.key], found.documents[gpu.last.uid], reported)
        return CHECK_SECONDS

    def _still_ends(
        self, node: str, gpu: JudgedGpu, facts: Mapping[ObjectKey, WorkloadFacts]
    ) -> bool:
        """Judge a GPU by the node's GPUTopology of this moment: a watch may be a minute late."""
        measured = parse_measured(self._objects.topology(node) or {})
        percent = self._settings.sharing_max_slowdown_percent
        return judge(gpu, measured, facts, percent).verdict is not SharingVerdict.KEEP

    def _read(self, node: str) -> _Sharing | None:
        report = self._nodes.report(node)
        if not has_shared_gpus(report.gpus):
            return None
        documents = self._sharing_pods(node)
        return _Sharing(
            shared_gpus(report.gpus, {uid: pod for uid, (pod, _) in documents.items()}),
            report.measured,
            {uid: document for uid, (_, document) in documents.items()},
        )

    def _sharing_pods(self, node: str) -> dict[str, tuple[JudgedPod, Document]]:
        found = {}
        for document in self._api.pods_on(node):
            pod = _sharing_pod(document, self._settings.resource)
            if pod is not None:
                # The objects of a list have no kind, and an event names the kind of its object.
                found[pod.uid] = pod, {"apiVersion": "v1", "kind": "Pod", **document}
        return found

    def _facts(self, gpus: list[JudgedGpu]) -> dict[ObjectKey, WorkloadFacts]:
        profiles = {pod.profile for gpu in gpus for pod in gpu.pods if pod.profile is not None}
        found = {}
        for key in sorted(profiles):
            document = self._objects.profile(key)
            facts = GPUProfile.model_validate(document).status.facts if document else None
            if facts is not None:
                found[key] = facts
        return found

    def _end(
        self,
        gpu: JudgedGpu,
        judgement: SharingJudgement,
        document: Document,
        reported: set[SharingKey],
    ) -> None:
        """Evict the pod that came last if it allows it; otherwise report once."""
        rejection = self._evict(document) if gpu.last.limits.moves else ""
        moved = gpu.last.limits.moves and not rejection
        if not moved and gpu.key in reported:
            return
        reported.add(gpu.key)
        self._metrics.count_ended_sharing(moved=moved)
        event = sharing_event(gpu, judgement, rejection)
        _log.info("sharing does not pay %s", fields(pod=gpu.last.key, moved=moved, why=event.note))
        self._objects.create_event(document, event, utc_now(), "|".join(gpu.key))

    def _evict(self, document: Document) -> str:
        """Evict a pod; return the message if the API server rejected it."""
        try:
            self._api.evict(document)
        except NotFoundError:
            return ""
        except RejectedError as error:  # a PodDisruptionBudget, or no right to evict
            key = ObjectKey.of(document)
            _log.warning("pod not evicted %s", fields(pod=key, reason=error))
            return str(error)
        return ""


def _sharing_pod(document: Document, resource: str) -> JudgedPod | None:
    """Return a live pod that requests a share; None for other pods."""
    try:
        pod = parse_gpu_pod(document, resource)
        if pod is None or not pod.shares or not pod.live or pod.deleting:
            return None
        name = parse_profile_name(pod.annotations)
        limits = parse_sharing(pod.annotations)
    except (AnnotationError, PodError):
        return None
    profile = ObjectKey(pod.namespace, name) if name else None
    return JudgedPod(pod.uid, pod.key, profile, pod.created or 0.0, limits)

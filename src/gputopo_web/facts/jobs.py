"""The table of jobs: pods with GPUs, and GPUJobs that have no pod."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from gputopo.api.annotations import PlacementAnnotation
from gputopo.api.names import ENSEMBLE_LABEL, JOB_LABEL
from gputopo.api.shares import gpu_of
from gputopo.api.v1alpha1 import GPUJobStatus
from gputopo.runtime.messages import first_error
from gputopo_explain.placed_pods import PlacedPod
from gputopo_kube.document import Document, ObjectKey
from gputopo_web.facts.decisions import placement_of

_ENDED: Final = frozenset({"Succeeded", "Failed", "Completed"})


@dataclass(frozen=True, slots=True)
class JobRow:
    """One line of the table.

    Attributes:
        pod: the pod; None for a GPUJob without a pod.
        job: the GPUJob; None for a plain pod.
        gpus: number of GPUs that it requests.
        indices: indices of its GPUs in rank order.
        since: RFC 3339 time since which it runs or waits.
        reason: why it waits, or what is wrong with it; empty if nothing is known.
        shares: whether it shares its GPU with other jobs.
        ensemble: name of the GPUEnsemble of which it trains a member; empty if there is none.
    """

    pod: ObjectKey | None
    job: ObjectKey | None
    state: str
    gpus: int
    waiting: bool
    node: str = ""
    indices: tuple[int, ...] = ()
    since: str = ""
    placement: PlacementAnnotation | None = None
    reason: str = ""
    shares: bool = False
    ensemble: str = ""

    @property
    def key(self) -> ObjectKey:
        """The pod, or the GPUJob if there is no pod."""
        found = self.pod or self.job
        assert found is not None  # noqa: S101 - rows are made by this module
        return found

    @property
    def percent_of_best(self) -> int | None:
        """Bandwidth in percent of the best GPU set of the idle node; None if unknown.

        Both are of the physical model, which is valid for every node.
        """
        placement = self.placement
        if placement is None or not placement.physical_best_mb_per_s:
            return None
        return round(100 * (placement.physical_mb_per_s or 0) / placement.physical_best_mb_per_s)


def job_rows(
    pods: Iterable[tuple[PlacedPod, Document]],
    gpu_jobs: Mapping[ObjectKey, Document],
    index_of: Mapping[str, Mapping[str, int]],
) -> list[JobRow]:
    """Return the waiting jobs in the order of their wait, then the running ones, newest first.

    Args:
        pods: the pods that request GPUs, with their objects; ended pods are left out.
        gpu_jobs: the GPUJobs; those with a pod or that have ended have no row of their own.
        index_of: indices of the GPUs by node and UUID.
    """
    rows = [pod_row(pod, document, index_of) for pod, document in pods if pod.view.live]
    with_pods = {row.job for row in rows}
    rows += [
        row
        for key, document in gpu_jobs.items()
        if key not in with_pods and (row := gpu_job_row(key, document)).state not in _ENDED
    ]
    waiting = sorted((row for row in rows if row.waiting), key=lambda row: (row.since, row.key))
    running = sorted((row for row in rows if not row.waiting), key=lambda row: row.key)
    return [*waiting, *sorted(running, key=lambda row: row.since, reverse=True)]


def search_rows(rows: Iterable[JobRow], text: str) -> Sequence[JobRow]:
    """Return the rows whose pod, GPUJob, ensemble, node or state contain all words of a text."""
    words = text.casefold().split()
    return [row for row in rows if _contains(row, words)]


def _contains(row: JobRow, words: Sequence[str]) -> bool:
    own = " ".join((str(row.key), str(row.job or ""), row.node, row.state, row.ensemble)).casefold()
    return all(word in own for word in words)


def pod_row(
    pod: PlacedPod, document: Document, index_of: Mapping[str, Mapping[str, int]]
) -> JobRow:
    """Return the row of a pod; ``index_of`` has the indices of the GPUs by node and UUID."""
    view, metadata = pod.view, document["metadata"]
    known = index_of.get(view.node or "", {})
    uuids = [uuid for container in pod.gpus.values() for uuid in container]
    label = (metadata.get("labels") or {}).get(JOB_LABEL)
    waiting = view.node is None
    return JobRow(
        pod=view.key,
        job=ObjectKey(view.namespace, str(label)) if label else None,
        state="Waiting" if waiting else "Terminating" if view.deleting else view.phase,
        gpus=view.most_gpus,
        waiting=waiting,
        node=view.node or "",
        indices=tuple(known[gpu] for gpu in map(gpu_of, uuids) if gpu in known),
        since=str((metadata.get("creationTimestamp") if waiting else pod.since) or ""),
        placement=placement_of(pod),
        reason=pod.fault or view.rejected or (_why_waiting(document) if waiting else ""),
        shares=view.shares,
        ensemble=_ensemble(metadata),
    )


def _why_waiting(document: Document) -> str:
    """Return the scheduler's message, or why there is none."""
    status = document.get("status") or {}
    if document["spec"].get("schedulingGates"):
        gates = ", ".join(str(gate.get("name")) for gate in document["spec"]["schedulingGates"])
        return f"scheduling gates: {gates}"
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("message") or condition.get("reason") or "")
    return "no scheduler has examined the pod yet"


def gpu_job_row(key: ObjectKey, document: Document) -> JobRow:
    """Return the row of a GPUJob without a pod."""
    spec, metadata = document.get("spec") or {}, document["metadata"]
    status, fault = gpu_job_status(document)
    queue = status.queue
    reason = fault or (queue.reason if queue and queue.reason else _last_message(status))
    if queue and queue.position:
        reason = f"position {queue.position} in the queue: {reason}"
    return JobRow(
        pod=None,
        job=key,
        state=status.phase or "Unknown",
        gpus=_count(spec.get("gpusPerReplica")),
        waiting=True,
        since=str((queue and queue.waiting_since) or metadata.get("creationTimestamp") or ""),
        reason=reason,
        shares=(spec.get("sharing") or {}).get("mode") == "Allowed",
        ensemble=_ensemble(metadata),
    )


def _ensemble(metadata: Document) -> str:
    return str((metadata.get("labels") or {}).get(ENSEMBLE_LABEL) or "")


def gpu_job_status(document: Document) -> tuple[GPUJobStatus, str]:
    """Return the status of a GPUJob, and why it cannot be parsed; empty if it can."""
    try:
        return GPUJobStatus.model_validate(document.get("status") or {}), ""
    except ValidationError as error:
        return GPUJobStatus(), first_error(error, prefix="status")


def _last_message(status: GPUJobStatus) -> str:
    changed = sorted(status.conditions, key=lambda condition: condition.last_transition_time)
    return f"{changed[-1].reason}: {changed[-1].message}" if changed else ""


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0

"""Write why a pod or GPUJob of a cluster is pending."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import RenderableType
from rich.text import Text

from gputopo.api.names import ENSEMBLE_LABEL
from gputopo_cli.cluster.explain.target import POD
from gputopo_cli.shared import output
from gputopo_cli.shared.errors import InputError
from gputopo_cli.shared.live import note_lines
from gputopo_cli.shared.pending import duration, explanation_document, explanation_lines
from gputopo_explain.objects import ClusterObjects
from gputopo_explain.pending.gpujobs import explain_gpu_job
from gputopo_explain.pending.model import GpuJobExplanation, PodExplanation, QueuePosition
from gputopo_explain.pending.pods import explain_pod
from gputopo_kube.document import Document
from gputopo_kube.podmodel import PodError


@dataclass(frozen=True, slots=True)
class PendingTarget:
    """A pod without a node or a GPUJob without a pod, and the objects of its cluster.

    Attributes:
        kind: ``pod`` or ``gpujob``.
    """

    kind: str
    document: Document
    objects: ClusterObjects


def write_pending(target: PendingTarget, form: str) -> None:
    """Write the explanation of a pending pod or GPUJob.

    Raises:
        InputError: if the pod is not valid.
    """
    found, objects = target.document, target.objects
    if target.kind == POD:
        pod = _explain_pod(found, objects)
        document = {"kind": "Pending", **explanation_document(pod)}
        lines = explanation_lines(pod)
    else:
        job = explain_gpu_job(found, objects)
        document, lines = _job_document(job), _job_lines(job)
    if form == "json":
        ensemble = _ensemble(found) or None
        output.write_json({**document, "ensemble": ensemble, "notes": [*objects.notes]})
    else:
        output.show([Text(_title(target)), *lines, *note_lines(objects)])


def _explain_pod(pod: Document, objects: ClusterObjects) -> PodExplanation:
    try:
        return explain_pod(pod, objects)
    except PodError as error:
        raise InputError(str(error)) from None


def _title(target: PendingTarget) -> str:
    metadata = target.document["metadata"]
    title = f"{target.kind} {metadata['namespace']}/{metadata['name']}"
    ensemble = _ensemble(target.document)
    return f"{title}: its GPUEnsemble {ensemble} chose node and GPUs" if ensemble else title


def _ensemble(found: Document) -> str:
    """Return the name of the GPUEnsemble of a pod or GPUJob; empty if it is in none."""
    return str((found["metadata"].get("labels") or {}).get(ENSEMBLE_LABEL) or "")


def _job_document(found: GpuJobExplanation) -> dict[str, object]:
    """Return the explanation as JSON. Later versions must keep all keys."""
    queue = found.queue
    return {
        "kind": "GPUJob",
        "namespace": found.job.namespace,
        "name": found.job.name,
        "state": found.state,
        "summary": found.summary,
        "remedy": found.remedy,
        "queue": queue
        and {
            "position": queue.position,
            "length": queue.length,
            "order": queue.order,
            "reason": queue.reason,
            "reservedNode": queue.reserved_node,
            "overdueInSeconds": queue.overdue_in_seconds,
        },
        "podExists": found.pod is not None and not found.is_template,
        "pod": found.pod and explanation_document(found.pod),
    }


def _job_lines(found: GpuJobExplanation) -> Iterator[RenderableType]:
    yield Text(output.one_line(found.summary), "bold")
    if found.remedy:
        yield Text(f"what to do: {output.one_line(found.remedy)}")
    if found.queue:
        yield from map(Text, _queue_texts(found.queue))
    if found.pod:
        yield Text()
        yield Text("if it started now:" if found.is_template else f"pod {found.pod.pod.name}:")
        yield from explanation_lines(found.pod)


def _queue_texts(queue: QueuePosition) -> Iterator[str]:
    waiting = "1 GPUJob waits" if queue.length == 1 else f"{queue.length} GPUJobs wait"
    yield f"{waiting}, order {queue.order or 'unknown'}"
    if queue.reserved_node:
        yield f"node {queue.reserved_node} is reserved for it: it starts when its GPUs are free"
    elif queue.overdue_in_seconds:
        latest = duration(queue.overdue_in_seconds)
        yield f"in {latest} it comes before GPUJobs that have waited less (maxSkipSeconds)"
    elif queue.overdue_in_seconds == 0:
        yield "it has waited longer than maxSkipSeconds and comes before other GPUJobs"

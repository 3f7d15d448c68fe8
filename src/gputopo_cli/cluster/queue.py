"""Read the queue of GPUJobs from a cluster and write it as text or JSON (``gputopo queue``)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pydantic import ValidationError
from rich.console import RenderableType
from rich.text import Text

from gputopo.api.names import GROUP, VERSION
from gputopo.api.v1alpha1 import QueueStatus
from gputopo.runtime.messages import first_error
from gputopo_cli.cluster.operator_arguments import OperatorArguments, read_operator_arguments
from gputopo_cli.shared import output
from gputopo_cli.shared.connection import connect
from gputopo_cli.shared.errors import InputError
from gputopo_kube.document import Document, ObjectKey
from gputopo_kube.errors import NotFoundError


@dataclass(frozen=True, slots=True)
class WaitingGpuJob:
    """A GPUJob that waits in the queue.

    Attributes:
        position: place in the queue, from 1.
        gpus: number of GPUs that it requests.
        expected_seconds: how long the job runs, as its user has stated; None if unknown.
        status: its ``status.queue``.
    """

    key: ObjectKey
    position: int
    gpus: int
    expected_seconds: int | None
    status: QueueStatus


def write_queue(namespace: str | None, context: str | None, form: str) -> None:
    """Write the waiting GPUJobs of a namespace, or of all namespaces."""
    scope = () if namespace is None else ("namespaces", namespace)
    with connect(context) as cluster:
        try:
            documents = cluster.list("apis", GROUP, VERSION, *scope, "gpujobs")
        except NotFoundError as error:
            raise InputError(f"cluster: gputopo is not installed: {error.message}") from None
        operator = read_operator_arguments(cluster)
    jobs = parse_queue(documents)
    if form == "json":
        output.write_json(_document(operator, jobs))
    else:
        output.show(_lines(operator, jobs))


def parse_queue(gpu_jobs: Iterable[Document]) -> list[WaitingGpuJob]:
    """Return the GPUJobs that wait in the queue, by position.

    Raises:
        InputError: a status has an unknown format.
    """
    found = (_parse(document) for document in gpu_jobs)
    return sorted((job for job in found if job), key=lambda job: (job.position, job.key))


def _parse(document: Document) -> WaitingGpuJob | None:
    key = ObjectKey(document["metadata"]["namespace"], document["metadata"]["name"])
    try:
        status = QueueStatus.model_validate((document.get("status") or {}).get("queue") or {})
    except ValidationError as error:
        raise InputError(f"GPUJob {key}: {first_error(error, prefix='status.queue')}") from None
    if status.position is None:
        return None
    spec = document["spec"]
    expected = (spec.get("expected") or {}).get("durationSeconds")
    return WaitingGpuJob(key, status.position, spec["gpusPerReplica"], expected, status)


def _document(operator: OperatorArguments, jobs: Iterable[WaitingGpuJob]) -> dict[str, object]:
    return {
        "order": operator.values.get("queue-order"),
        "maxSkipSeconds": _max_skip_seconds(operator),
        "settingsUnknown": operator.unknown or None,
        "jobs": [
            {
                "position": job.position,
                "namespace": job.key.namespace,
                "name": job.key.name,
                "gpus": job.gpus,
                "expectedSeconds": job.expected_seconds,
                "waitingSince": job.status.waiting_since,
                "reservedNode": job.status.reserved_node,
                "reason": job.status.reason,
            }
            for job in jobs
        ],
    }


def _max_skip_seconds(operator: OperatorArguments) -> float | None:
    text = operator.values.get("queue-max-skip-seconds")
    return None if text is None else float(text)


def _lines(operator: OperatorArguments, jobs: list[WaitingGpuJob]) -> Iterator[RenderableType]:
    yield Text(output.one_line(_describe(operator)))
    yield Text()
    if jobs:
        columns = ("POSITION>", "JOB", "GPUS>", "EXPECTED>", "WAITING SINCE", "RESERVED", "REASON")
        yield output.table(*columns, rows=map(_row, jobs))
        yield Text()
    yield Text("1 GPUJob waits" if len(jobs) == 1 else f"{len(jobs)} GPUJobs wait")


def _describe(operator: OperatorArguments) -> str:
    if operator.unknown:
        return f"the order is unknown: {operator.unknown}"
    order, seconds = operator.values.get("queue-order"), _max_skip_seconds(operator)
    if not order:
        return (
            "the queue is off, all GPUJobs start at once; docs/use/queue.md shows how to turn it on"
        )
    if seconds is None:
        return f"order {order}"
    limit = output.format_number(seconds)
    return f"order {order}; a GPUJob that has waited longer than {limit} s comes first"


def _row(job: WaitingGpuJob) -> tuple[str, ...]:
    expected = job.expected_seconds
    return (
        str(job.position),
        str(job.key),
        str(job.gpus),
        "-" if expected is None else f"{expected} s",
        job.status.waiting_since or "-",
        job.status.reserved_node or "-",
        output.one_line(job.status.reason or "-"),
    )

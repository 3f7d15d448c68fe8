"""CPU and memory of the running pods that gputopo sizes, as the operator has recorded them."""

from collections.abc import Iterable
from dataclasses import dataclass

from gputopo.api.annotations import AnnotationError
from gputopo.api.quantity import format_bytes
from gputopo.api.tuning import Amounts, parse_tuned_record
from gputopo_explain.placed_pods import PlacedPod
from gputopo_explain.text import counted
from gputopo_kube.document import ObjectKey


@dataclass(frozen=True, slots=True)
class SizeRow:
    """The sizes of one pod, as texts.

    Attributes:
        floor: amounts with which the pod was created.
        last: amounts before the newest resize.
        target: amounts of the newest resize.
        state: whether kubelet has applied it.
    """

    pod: ObjectKey
    node: str
    floor: str
    last: str
    target: str
    state: str
    since: str
    reason: str


def size_rows(pods: Iterable[PlacedPod]) -> list[SizeRow]:
    """Return the rows of the running pods that have a record, by name."""
    rows = (_row(pod) for pod in pods if pod.view.node and pod.view.live)
    return sorted((row for row in rows if row), key=lambda row: row.pod)


def _row(pod: PlacedPod) -> SizeRow | None:
    key, node = pod.view.key, pod.view.node or ""
    try:
        record = parse_tuned_record(pod.view.annotations, pod.view.uid)
    except AnnotationError as error:
        return SizeRow(key, node, "", "", "", "unknown", "", str(error))
    if record is None:
        return None
    if record.pinned:
        state = "not resized any more"
    elif record.rejected:
        state = "rejected"
    else:
        state = "applied" if record.done else "in flight"
    floor, last, target = map(_text, (record.floor, record.last, record.target))
    return SizeRow(key, node, floor, last, target, state, str(record.since), record.reason)


def _text(amounts: Amounts) -> str:
    return f"{counted(amounts.milli_cpu / 1000, 'CPU')}, {format_bytes(amounts.memory)}"

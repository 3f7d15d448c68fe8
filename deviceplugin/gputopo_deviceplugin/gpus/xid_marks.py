"""Decides how long an XID makes a GPU unhealthy. Pure functions.

A mark records that an XID makes a GPU unhealthy. The age of a mark is measured with the node's
monotonic clock, which starts at boot and never jumps. So the age stays correct after a restart of
the agent and after a change of the wall clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.gpus.snapshot import RECOVERY_NONE, NvmlSnapshot
from gputopo_deviceplugin.gpus.xids import is_fatal


@dataclass(frozen=True, slots=True)
class XidMark:
    """The last event of one XID code on one GPU.

    Attributes:
        at_seconds: monotonic time of the event, used for decisions.
        time: wall-clock time of the event, for readers of the state file.
        recovery_needed: whether NVML has reported a recovery action for the GPU since the event.
    """

    gpu: GpuUuid
    code: int
    at_seconds: float
    time: datetime
    recovery_needed: bool = False


Marks = Mapping[tuple[GpuUuid, int], XidMark]
"""Marks by GPU and XID code, so that a transient XID does not replace a fatal XID."""


def without_expired(marks: Marks, *, now_seconds: float, quiet_seconds: float) -> Marks:
    """Remove marks of non-fatal XIDs older than ``quiet_seconds``, and marks of future times.

    A mark with a time in the future is from before a reboot, because the monotonic clock starts
    at boot. Such marks exist only if the state folder is on a disk instead of a tmpfs.
    """
    return {
        key: mark
        for key, mark in marks.items()
        if mark.at_seconds <= now_seconds
        and (is_fatal(mark.code) or now_seconds - mark.at_seconds < quiet_seconds)
    }


def without_recovered(marks: Marks, snapshot: NvmlSnapshot) -> Marks:
    """Remove the fatal marks of GPUs that needed a recovery action and no longer need one.

    Some drivers report no recovery action for some XIDs. The mark of such an XID stays until the
    node reboots or an administrator sets the annotation ``gputopo.io/gpus-reset-at``.
    """
    actions = {gpu.uuid: gpu.recovery_action for gpu in snapshot.gpus}
    result = {}
    for key, mark in marks.items():
        action = actions.get(mark.gpu)
        recovered = action == RECOVERY_NONE and mark.recovery_needed
        if not (recovered and is_fatal(mark.code)):
            needed = mark.recovery_needed or action not in (None, RECOVERY_NONE)
            result[key] = replace(mark, recovery_needed=needed)
    return result


def parse_time(text: str) -> datetime:
    """Parse a time in RFC 3339.

    Raises:
        ValueError: the text is not a time in RFC 3339, or has no time zone.
    """
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError(f"no time zone: {text!r}")
    return time


class _StoredMark(BaseModel):
    model_config = ConfigDict(populate_by_name=True)

    gpu: Annotated[str, Field(min_length=1)]
    xid: int
    time: AwareDatetime
    monotonic_seconds: Annotated[float, Field(alias="monotonicSeconds")]
    recovery_needed: Annotated[bool, Field(alias="recoveryNeeded")] = False


class StoredXidMarks(BaseModel):
    """The content of the state file ``xids.json``.

    Attributes:
        marks: the marks of all GPUs.
        reset_at: the last applied value of the Node's annotation ``gputopo.io/gpus-reset-at``.
    """

    model_config = ConfigDict(populate_by_name=True)

    marks: list[_StoredMark] = []
    reset_at: Annotated[str | None, Field(alias="resetAt")] = None

    def to_marks(self) -> Marks:
        """Return the stored marks by GPU and XID code."""
        marks = [
            XidMark(
                GpuUuid(each.gpu), each.xid, each.monotonic_seconds, each.time, each.recovery_needed
            )
            for each in self.marks
        ]
        return {(mark.gpu, mark.code): mark for mark in marks}


def to_document(marks: Marks, reset_at: str | None) -> dict[str, Any]:
    """Return the content of the state file as JSON values."""
    stored = [
        _StoredMark(
            gpu=mark.gpu,
            xid=mark.code,
            time=mark.time,
            monotonic_seconds=mark.at_seconds,
            recovery_needed=mark.recovery_needed,
        )
        for mark in marks.values()
    ]
    document = StoredXidMarks(marks=stored, reset_at=reset_at)
    return document.model_dump(mode="json", by_alias=True)

"""Marks of the XIDs of this node's GPUs: what makes them, keeps them and voids them. Pure.

All decisions use the monotonic clock. It is one clock for all processes of a node, starts at boot
and never jumps, so the age of a mark is right after a restart of the agent and after any
change of the wall clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.gpus.readings import RECOVERY_NONE, NvmlSnapshot
from gputopo_deviceplugin.gpus.xids import is_fatal


@dataclass(frozen=True, slots=True)
class XidMark:
    """The last XID of one code on one GPU.

    Attributes:
        at_seconds: monotonic time of the event; decides.
        time: wall-clock time of the event, for people who read the state file.
        recovery_needed: whether NVML has reported since that the GPU needs a recovery action.
    """

    gpu: GpuUuid
    code: int
    at_seconds: float
    time: datetime
    recovery_needed: bool = False


Marks = Mapping[tuple[GpuUuid, int], XidMark]
"""By GPU and code, so that a passing XID does not replace a fatal one."""


def add(marks: Marks, mark: XidMark) -> Marks:
    """Return the marks with one more; it replaces an older one of its GPU and code."""
    return {**marks, (mark.gpu, mark.code): mark}


def without_expired(marks: Marks, *, now_seconds: float, quiet_seconds: float) -> Marks:
    """Drop passing marks older than ``quiet_seconds``, and all marks made before a reboot.

    A mark later than now was made before a reboot: the monotonic clock starts at boot. The state
    folder on a tmpfs is empty then, so this happens only where it lies on a disk.
    """
    return {
        key: mark
        for key, mark in marks.items()
        if mark.at_seconds <= now_seconds
        and (is_fatal(mark.code) or now_seconds - mark.at_seconds < quiet_seconds)
    }


def after_recovery(marks: Marks, readings: NvmlSnapshot) -> Marks:
    """Drop the fatal marks of GPUs that needed a recovery action and need none any more.

    A GPU whose driver reports NONE from the beginning keeps its marks: not every
    driver knows an action for every XID.
    """
    actions = {reading.uuid: reading.recovery_action for reading in readings.gpus}
    result = {}
    for key, mark in marks.items():
        action = actions.get(mark.gpu)
        recovered = action == RECOVERY_NONE and mark.recovery_needed
        if not (recovered and is_fatal(mark.code)):
            needed = mark.recovery_needed or action not in (None, RECOVERY_NONE)
            result[key] = replace(mark, recovery_needed=needed)
    return result


def void_before(marks: Marks, at_seconds: float) -> Marks:
    """Drop all marks made before a monotonic time."""
    return {key: mark for key, mark in marks.items() if mark.at_seconds >= at_seconds}


def parse_time(text: str) -> datetime:
    """Parse a time in RFC 3339.

    Raises:
        ValueError: also where the time zone is missing.
    """
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError(f"no time zone: {text!r}")
    return time


def monotonic_of(time: datetime, *, now_seconds: float, wall_seconds: float) -> float:
    """Return the monotonic time of a wall-clock time, by the wall clock of now.

    Args:
        time: with a time zone.
        now_seconds: monotonic time of now.
        wall_seconds: Unix time of now.
    """
    return now_seconds - (wall_seconds - time.timestamp())


class _StoredMark(BaseModel):
    model_config = ConfigDict(populate_by_name=True)

    gpu: Annotated[str, Field(min_length=1)]
    xid: int
    time: AwareDatetime
    monotonic_seconds: Annotated[float, Field(alias="monotonicSeconds")]
    recovery_needed: Annotated[bool, Field(alias="recoveryNeeded")] = False


class StoredXidMarks(BaseModel):
    """The document of the state file.

    Attributes:
        marks: of all GPUs.
        reset_at: the value of the Node's annotation that was applied last.
    """

    model_config = ConfigDict(populate_by_name=True)

    marks: list[_StoredMark] = []
    reset_at: Annotated[str | None, Field(alias="resetAt")] = None

    def as_marks(self) -> Marks:
        """Return the marks of the document."""
        marks = [
            XidMark(GpuUuid(one.gpu), one.xid, one.monotonic_seconds, one.time, one.recovery_needed)
            for one in self.marks
        ]
        return {(mark.gpu, mark.code): mark for mark in marks}


def to_stored(marks: Marks, reset_at: str | None) -> dict[str, Any]:
    """Return the document of the state file."""
    one_by_one = [
        _StoredMark(
            gpu=mark.gpu,
            xid=mark.code,
            time=mark.time,
            monotonic_seconds=mark.at_seconds,
            recovery_needed=mark.recovery_needed,
        )
        for mark in marks.values()
    ]
    document = StoredXidMarks(marks=one_by_one, reset_at=reset_at)
    return document.model_dump(mode="json", by_alias=True)

"""Keeps the XID marks of this node's GPUs, in memory and in the state file."""

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from gputopo.api.names import GPUS_RESET_ANNOTATION
from gputopo.runtime.log import fields
from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.gpus import xid_marks as marks
from gputopo_deviceplugin.gpus.readings import NvmlSnapshot, XidEvent
from gputopo_deviceplugin.gpus.xid_marks import Marks, StoredXidMarks, XidMark
from gputopo_deviceplugin.gpus.xids import is_critical, is_fatal
from gputopo_deviceplugin.statefile import StateFile

_log = logging.getLogger(__name__)


class XidMarkStore:
    """The marks that count now; each change is written to the state file."""

    def __init__(
        self,
        file: StateFile,
        *,
        quiet_seconds: float,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Continue with the marks in ``file``; passing ones count for ``quiet_seconds``."""
        self._file = file
        self._quiet_seconds = quiet_seconds
        self._monotonic = monotonic
        self._wall = wall
        document = _read(file)
        self._marks: Marks = document.as_marks()
        self._reset_at = document.reset_at
        self._written = marks.to_stored(self._marks, self._reset_at)

    def add(self, xid: XidEvent) -> bool:
        """Record an XID event; return whether it makes the GPU unhealthy."""
        critical = is_critical(xid.code)
        _log.warning(
            "XID %s",
            fields(gpu=xid.uuid, xid=xid.code, critical=critical, fatal=is_fatal(xid.code)),
        )
        if critical:
            at = datetime.fromtimestamp(self._wall(), UTC)
            mark = XidMark(GpuUuid(xid.uuid), xid.code, self._monotonic(), at)
            self._replace(marks.add(self._marks, mark))
        return critical

    def after(self, readings: NvmlSnapshot) -> Marks:
        """Drop the marks that are void by now or by these readings; return the others."""
        valid = marks.without_expired(
            self._marks, now_seconds=self._monotonic(), quiet_seconds=self._quiet_seconds
        )
        self._replace(marks.after_recovery(valid, readings))
        return self._marks

    def reset_at(self, value: str) -> None:
        """Void the marks made before a time, the value of the Node's annotation in RFC 3339.

        Each value is applied once: the same annotation does not void a mark that was made
        later, also where the wall clock was set back in between.
        """
        if value == self._reset_at:
            return
        self._reset_at = value
        kept = self._marks
        try:
            before = marks.parse_time(value)
        except ValueError as error:
            _log.warning(
                "annotation ignored, set it to a time like 2026-01-31T12:00:00Z %s",
                fields(annotation=GPUS_RESET_ANNOTATION, value=value, reason=error),
            )
        else:
            at = marks.monotonic_of(
                before, now_seconds=self._monotonic(), wall_seconds=self._wall()
            )
            kept = marks.void_before(self._marks, at)
        self._replace(kept)

    def _replace(self, new: Marks) -> None:
        for mark in self._marks.values():
            if (mark.gpu, mark.code) not in new:
                _log.info("XID mark removed %s", fields(gpu=mark.gpu, xid=mark.code))
        self._marks = new
        document = marks.to_stored(new, self._reset_at)
        if document == self._written:
            return
        try:
            self._file.write(document)
        except OSError as error:
            _log.error("XID marks not written, a restart loses them %s", fields(reason=error))
        else:
            self._written = document


def _read(file: StateFile) -> StoredXidMarks:
    document: Any = file.read()
    if document is None:
        return StoredXidMarks()
    try:
        return StoredXidMarks.model_validate(document)
    except ValidationError as error:
        _log.error("XID marks not read, there are none now %s", fields(reason=error))
        return StoredXidMarks()

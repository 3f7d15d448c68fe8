"""Keeps the XID marks of this node's GPUs in memory and in the state file."""

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime

from gputopo.api.names import GPUS_RESET_ANNOTATION
from gputopo.runtime.log import fields
from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.gpus import xid_marks
from gputopo_deviceplugin.gpus.snapshot import NvmlSnapshot, XidEvent
from gputopo_deviceplugin.gpus.xid_marks import Marks, StoredXidMarks, XidMark
from gputopo_deviceplugin.gpus.xids import is_critical, is_fatal
from gputopo_deviceplugin.statefile import StateFile

_log = logging.getLogger(__name__)


class XidMarkStore:
    """Keeps the XIDs that make GPUs unhealthy, and writes each change to the state file."""

    def __init__(
        self,
        file: StateFile,
        *,
        quiet_seconds: float,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Load the marks from ``file``. Marks of non-fatal XIDs expire after ``quiet_seconds``."""
        self._file = file
        self._quiet_seconds = quiet_seconds
        self._monotonic = monotonic
        self._wall = wall
        stored = file.load(StoredXidMarks.model_validate) or StoredXidMarks()
        self._marks: Marks = stored.to_marks()
        self._reset_at = stored.reset_at
        self._written = xid_marks.to_document(self._marks, self._reset_at)

    def add(self, event: XidEvent) -> bool:
        """Record an XID event; return whether the XID makes the GPU unhealthy."""
        critical, fatal = is_critical(event.code), is_fatal(event.code)
        _log.warning(
            "XID %s", fields(gpu=event.uuid, xid=event.code, critical=critical, fatal=fatal)
        )
        if critical:
            at = datetime.fromtimestamp(self._wall(), UTC)
            mark = XidMark(GpuUuid(event.uuid), event.code, self._monotonic(), at)
            self._replace({**self._marks, (mark.gpu, mark.code): mark})
        return critical

    def update(self, snapshot: NvmlSnapshot) -> Marks:
        """Remove expired marks and fatal marks of recovered GPUs. Return the remaining marks."""
        valid = xid_marks.without_expired(
            self._marks, now_seconds=self._monotonic(), quiet_seconds=self._quiet_seconds
        )
        self._replace(xid_marks.without_recovered(valid, snapshot))
        return self._marks

    def apply_reset(self, reset_at: str) -> None:
        """Remove the marks that are older than ``reset_at``, the value of the Node's annotation.

        The method applies each value only once. Otherwise, after the wall clock was set back, the
        same value would remove the marks of later XIDs.
        """
        if reset_at == self._reset_at:
            return
        self._reset_at = reset_at
        kept = self._marks
        try:
            time_of_reset = xid_marks.parse_time(reset_at)
        except ValueError as error:
            _log.warning(
                "ignored an annotation that is not a time like 2026-01-31T12:00:00Z: %s",
                fields(annotation=GPUS_RESET_ANNOTATION, value=reset_at, reason=error),
            )
        else:
            # The time of the reset by the monotonic clock, as that of the marks.
            reset_seconds = self._monotonic() - (self._wall() - time_of_reset.timestamp())
            kept = {
                key: mark for key, mark in self._marks.items() if mark.at_seconds >= reset_seconds
            }
        self._replace(kept)

    def _replace(self, marks: Marks) -> None:
        for key in self._marks.keys() - marks.keys():
            _log.info("XID mark removed %s", fields(gpu=key[0], xid=key[1]))
        self._marks = marks
        document = xid_marks.to_document(marks, self._reset_at)
        if document == self._written:
            return
        try:
            self._file.save(document)
        except OSError as error:
            _log.error("XIDs not written; a restart would lose them: %s", fields(reason=error))
        else:
            self._written = document

"""Keeps the faults of shared GPUs until the node agent has acknowledged them."""

import logging
import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from pydantic.alias_generators import to_camel

from gputopo.runtime.log import fields
from gputopo.runtime.times import timestamp_of, unix_seconds
from gputopo_kube.json_file import read_json, write_json

_MOST: Final = 100

_log = logging.getLogger(__name__)


class MpsFault(BaseModel):
    """A fault that ended or may have ended clients of one GPU.

    Attributes:
        id: by which it is acknowledged.
        uuid: the GPU.
        at: time in RFC 3339.
        cause_pod_uid: the pod whose client caused it; None if that is unknown.
        pod_uids: the pods that it hit, the cause included.
    """

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)

    id: str
    uuid: str
    at: str
    cause_pod_uid: Annotated[str | None, Field(alias="causePodUID")]
    pod_uids: Annotated[tuple[str, ...], Field(alias="podUIDs")]
    message: str


_FAULTS: Final = TypeAdapter(list[MpsFault])


class FaultStore:
    """The faults, in a file. The newest 100 faults are kept."""

    def __init__(
        self, path: Path, keep_seconds: float, clock: Callable[[], float] = time.time
    ) -> None:
        """Keep faults for ``keep_seconds``; ``clock`` returns Unix time."""
        self._path = path
        self._keep_seconds = keep_seconds
        self._clock = clock
        self._faults = self._load()

    def all(self) -> list[MpsFault]:
        """Return the faults, the oldest first."""
        oldest = self._clock() - self._keep_seconds
        self._faults = [each for each in self._faults if (unix_seconds(each.at) or 0.0) >= oldest]
        return list(self._faults)

    def add(self, gpu: str, cause: str | None, pods: Iterable[str], message: str) -> MpsFault:
        """Store a new fault and return it."""
        fault = MpsFault(
            id=uuid.uuid4().hex,
            uuid=gpu,
            at=timestamp_of(self._clock()),
            cause_pod_uid=cause,
            pod_uids=tuple(sorted({*pods} | ({cause} if cause else set()))),
            message=message,
        )
        self._save([*self.all(), fault][-_MOST:])
        _log.warning(
            "fault of a shared GPU %s",
            fields(gpu=gpu, cause_pod=cause, pods=",".join(fault.pod_uids), reason=message),
        )
        return fault

    def acknowledge(self, identifier: str) -> bool:
        """Delete a fault; return whether it existed."""
        kept = [each for each in self.all() if each.id != identifier]
        existed = len(kept) < len(self._faults)
        if existed:
            self._save(kept)
        return existed

    def _save(self, faults: list[MpsFault]) -> None:
        self._faults = faults
        try:
            write_json(self._path, _FAULTS.dump_python(faults, mode="json", by_alias=True))
        except OSError as error:
            _log.error("faults not stored %s", fields(path=self._path, reason=error))

    def _load(self) -> list[MpsFault]:
        return read_json(self._path, _FAULTS.validate_python) or []

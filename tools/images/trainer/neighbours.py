"""Slows a training job down while other training jobs have GPUs on its sockets.

Each job writes its workload and its sockets to a file in a folder of the node that all jobs share,
and reads the files of the others. Its sockets are those of the device files in its own container.
So a job is as slow as the GPUs require that it and its neighbours were really given.
"""

import json
import re
import time
from collections.abc import Iterable, Mapping
from math import prod
from pathlib import Path
from typing import Any, Final, NamedTuple

REFRESH_SECONDS: Final = 0.5
STALE_SECONDS: Final = 5.0
"""A job that was killed cannot remove its file. A running job writes it every 0.5 s."""

_GPU = re.compile(r"nvidia([0-9]+)")


class Record(NamedTuple):
    """What a job writes for the others."""

    workload: str
    sockets: frozenset[int]


class Neighbours:
    """The other jobs on the sockets of this job.

    Attributes:
        own: the record of this job.
        slowdown: last factor of the time of a step, 1 without neighbours.
    """

    def __init__(self, law: Mapping[str, Any], job: str, device_files: Iterable[str]) -> None:
        """Take the law and the container.

        Args:
            law: ``folder``; ``workload`` of this job; ``sockets`` by minor number of the device
                file; and ``percents`` by which a neighbour of each workload slows this job down.
            job: name that no other job on the node has.
            device_files: names of the files in ``/dev``.
        """
        self.own = Record(law["workload"], sockets_of(device_files, law["sockets"]))
        self.slowdown = 1.0
        self._percents: Mapping[str, float] = law["percents"]
        self._file = Path(law["folder"]) / f"{job}.json"
        self._refresh_at = 0.0

    def slowdown_now(self) -> float:
        """Return the slowdown; write the file and read the others at most every 0.5 s."""
        now = time.monotonic()
        if now >= self._refresh_at:
            self._refresh_at = now + REFRESH_SECONDS
            self._write()
            self.slowdown = slowdown(self.own, self._read(), self._percents)
        return self.slowdown

    def remove(self) -> None:
        """Remove the file."""
        self._file.unlink(missing_ok=True)

    def metrics(self) -> str:
        """Return sockets and slowdown in Prometheus' text format."""
        sockets = "".join(f'training_socket{{socket="{each}"}} 1\n' for each in self._sorted())
        return f"{sockets}training_slowdown {self.slowdown:.4f}\n"

    def _write(self) -> None:
        text = json.dumps({"workload": self.own.workload, "sockets": self._sorted()})
        new = self._file.with_suffix(".new")
        new.write_text(text)
        new.replace(self._file)  # so that others never read half of it

    def _read(self) -> list[Record]:
        found = []
        for path in self._file.parent.glob("*.json"):
            try:
                fresh = time.time() - path.stat().st_mtime < STALE_SECONDS
                text = path.read_text()
            except FileNotFoundError:  # its job has ended
                continue
            if fresh and path != self._file:
                record = json.loads(text)
                found.append(Record(record["workload"], frozenset(record["sockets"])))
        return found

    def _sorted(self) -> list[int]:
        return sorted(self.own.sockets)


def sockets_of(device_files: Iterable[str], sockets: Mapping[str, int]) -> frozenset[int]:
    """Return the sockets of the GPUs with these device files; ``sockets`` has minor numbers."""
    found = map(_GPU.fullmatch, device_files)
    return frozenset(sockets[match[1]] for match in found if match)


def slowdown(own: Record, others: Iterable[Record], percents: Mapping[str, float]) -> float:
    """Return the product of the factors of all neighbours that share a socket."""
    beside = (other.workload for other in others if other.sockets & own.sockets)
    return prod(1 + percents.get(workload, 0.0) / 100 for workload in beside)

"""Lets the simulated driver of the node count the bytes that a training job sends over NVLinks.

The job writes a file of rates to the driver's folder ``counters.d``. It counts only GPUs whose
device files are in its own container, in the rank order that gputopo chose. So the counters show
the traffic of the GPUs that the job was really given.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any


def write_rates(
    law: Mapping[str, Any], job: str, uuids: Sequence[str], device_files: Iterable[str]
) -> Path:
    """Write the file of rates of a job, and return it. Remove it when the job ends.

    Args:
        law: ``folder``; ``mbPerSecond`` that each end of an edge sends; ``minors`` by UUID; and
            ``links`` by pair of UUIDs, each the index and the link number of both ends.
        job: name that no other job on the node has.
        uuids: UUIDs of the GPUs in rank order.
        device_files: names of the files in ``/dev``.
    """
    file = Path(law["folder"]) / f"{job}.conf"
    new = file.with_name(f".{file.name}")
    new.write_text("".join(f"{line}\n" for line in rates(law, uuids, set(device_files))))
    new.replace(file)  # so that the driver never reads half of it
    return file


def rates(law: Mapping[str, Any], uuids: Sequence[str], device_files: Iterable[str]) -> list[str]:
    """Return the lines of rates of a chain: each rank exchanges data with the next one.

    A pair with several links divides its traffic between them. A pair without a link has no line.
    """
    files = set(device_files)
    own = [uuid for uuid in uuids if f"nvidia{law['minors'][uuid]}" in files]
    lines = []
    for pair in pairwise(own):
        links = law["links"].get(" ".join(sorted(pair)), [])
        for gpu, link in (end for ends in links for end in ends):
            rate = round(1e6 * law["mbPerSecond"] / len(links))
            lines.append(f"nvlink {gpu} {link} {rate} {rate}")
    return lines

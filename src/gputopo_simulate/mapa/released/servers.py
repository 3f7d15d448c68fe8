"""The servers of the authors' program, with the links that it uses at run time.

GPUs are numbered from 0 here and from 1 in the program. Links differ from those of the catalogue:
PCIe has weight 10, and cubeMesh-16 lacks the NVLinks 4-5 and 12-13, because a later step of the
program replaces them by PCIe links.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

PCIE_GB_PER_S: Final = 10

Link = tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class MapaServer:
    """One of the program's servers. Pairs of GPUs that are not listed are connected by PCIe.

    Attributes:
        name: name of the server in the program.
        domain: number of GPUs of a PCIe domain; GPUs of a domain have consecutive numbers.
        max_job_gpus: GPUs of the largest job that the program can handle.
        double: weight in GB/s of a link with two NVLinks.
        single: weight in GB/s of a link with one NVLink.
    """

    name: str
    gpus: int
    domain: int
    max_job_gpus: int
    double: Mapping[Link, int]
    single: Mapping[Link, int]


def _links(gb_per_s: int, text: str) -> dict[Link, int]:
    pairs = (pair.split("-") for pair in text.split())
    return {(int(a), int(b)): gb_per_s for a, b in pairs}


SERVERS: Final[Mapping[str, MapaServer]] = MappingProxyType(
    {
        "dgx1-v100": MapaServer(
            name="dgx-v",
            gpus=8,
            domain=4,
            max_job_gpus=8,
            double=_links(50, "0-3 0-4 1-2 1-5 2-3 4-7 5-6 6-7"),
            single=_links(25, "0-1 0-2 1-3 2-6 3-7 4-5 4-6 5-7"),
        ),
        "dgx1-p100": MapaServer(
            name="dgx-p",
            gpus=8,
            domain=4,
            max_job_gpus=8,
            double={},
            single=_links(20, "0-1 0-2 0-3 0-4 1-2 1-3 1-5 2-3 2-6 3-7 4-5 4-6 4-7 5-6 5-7 6-7"),
        ),
        "summit": MapaServer(
            name="summit",
            gpus=6,
            domain=3,
            max_job_gpus=6,
            double=_links(50, "0-1 0-2 1-2 3-4 3-5 4-5"),
            single={},
        ),
        "torus-2d-16": MapaServer(
            name="torus-2d",
            gpus=16,
            domain=4,
            max_job_gpus=5,
            double=_links(50, "0-1 1-2 2-3 4-5 5-6 6-7 8-9 9-10 10-11 12-13 13-14 14-15 0-12 3-15"),
            single=_links(
                25,
                "0-3 1-5 1-13 2-6 2-14 3-7 4-7 4-8 5-9 6-10 7-11 8-11 8-12 9-13 10-14 11-15 12-15",
            ),
        ),
        "cubemesh-16": MapaServer(
            name="cubeMesh-16",
            gpus=16,
            domain=4,
            max_job_gpus=5,
            double=_links(50, "0-3 1-2 4-15 6-7 7-12 8-10 9-10 12-15 14-15")
            | _links(25, "0-11 1-5 3-8 9-13"),  # "double" with the weight of single
            single=_links(
                25,
                "0-1 0-2 1-3 2-6 2-9 4-6 4-7 5-6 5-7 6-13 8-9 8-11 9-11 10-14 12-14 13-14 13-15",
            ),
        ),
    }
)
"""The servers of the program, by their names in the catalogue."""

"""The servers of the authors' program, as it sees them when it runs.

GPU numbers from 0 here, from 1 there. Not the catalogue's: PCIe weighs 10, and two links of
cubeMesh-16 are lost (4-5 and 12-13, declared the wrong way round and overwritten by PCIe).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

PCIE_GB_PER_S: Final = 10

Link = tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Server:
    """One of the program's graphs; every pair that is not listed is PCIe.

    Attributes:
        name: the program's word for it.
        domain: GPUs of one PCIe domain, in order of their numbers.
        most: GPUs of the biggest job that it ends with: it scores every order of every set.
        double: links of two NVLinks, with their weight in GB/s.
        single: links of one NVLink, likewise.
    """

    name: str
    gpus: int
    domain: int
    most: int
    double: Mapping[Link, int]
    single: Mapping[Link, int]


def _links(gb_per_s: int, text: str) -> dict[Link, int]:
    pairs = (pair.split("-") for pair in text.split())
    return {(int(a), int(b)): gb_per_s for a, b in pairs}


SERVERS: Final[Mapping[str, Server]] = MappingProxyType(
    {
        "dgx1-v100": Server(
            name="dgx-v",
            gpus=8,
            domain=4,
            most=8,
            double=_links(50, "0-3 0-4 1-2 1-5 2-3 4-7 5-6 6-7"),
            single=_links(25, "0-1 0-2 1-3 2-6 3-7 4-5 4-6 5-7"),
        ),
        "dgx1-p100": Server(
            name="dgx-p",
            gpus=8,
            domain=4,
            most=8,
            double={},
            single=_links(20, "0-1 0-2 0-3 0-4 1-2 1-3 1-5 2-3 2-6 3-7 4-5 4-6 4-7 5-6 5-7 6-7"),
        ),
        "summit": Server(
            name="summit",
            gpus=6,
            domain=3,
            most=6,
            double=_links(50, "0-1 0-2 1-2 3-4 3-5 4-5"),
            single={},
        ),
        "torus-2d-16": Server(
            name="torus-2d",
            gpus=16,
            domain=4,
            most=5,
            double=_links(50, "0-1 1-2 2-3 4-5 5-6 6-7 8-9 9-10 10-11 12-13 13-14 14-15 0-12 3-15"),
            single=_links(
                25,
                "0-3 1-5 1-13 2-6 2-14 3-7 4-7 4-8 5-9 6-10 7-11 8-11 8-12 9-13 10-14 11-15 12-15",
            ),
        ),
        "cubemesh-16": Server(
            name="cubeMesh-16",
            gpus=16,
            domain=4,
            most=5,
            double=_links(50, "0-3 1-2 4-15 6-7 7-12 8-10 9-10 12-15 14-15")
            | _links(25, "0-11 1-5 3-8 9-13"),  # called double, weighted as single
            single=_links(
                25,
                "0-1 0-2 1-3 2-6 2-9 4-6 4-7 5-6 5-7 6-13 8-9 8-11 9-11 10-14 12-14 13-14 13-15",
            ),
        ),
    }
)
"""By the catalogue's name of the same server."""

"""Laws of training jobs: how long a step takes on which links. Pure.

The image ``tools/images/trainer`` runs a law. gputopo must find out the law from the steps alone,
so no part of gputopo imports this module.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

from soaktest.client import Object

STEP_SECONDS: Final = 0.1
NOISE: Final = 0.05

_PCIE_MB_PER_S: Final = {
    "INTERNAL": 12_000,
    "PIX": 12_000,
    "PXB": 11_000,
    "PHB": 10_500,
    "NODE": 10_000,
    "SYS": 8_000,
}
"""Bandwidth by the nearest common ancestor. NVLinks have the bandwidth in the GPUTopology."""


def link_law(topology: Object, percent: float, seed: int) -> dict[str, Any]:
    """Return the law of a job of two GPUs that runs ``percent`` longer on the node's worst links.

    A step takes the seconds ``s`` and sends the megabytes ``m`` over the link. So
    ``(s + m / worst) / (s + m / best) = 1 + percent / 100`` determines ``m``.

    Args:
        topology: ``spec`` of a GPUTopology.
        percent: less than the worst link is slower than the best one.
        seed: of the noise.
    """
    links = {
        " ".join(sorted((link["a"], link["b"]))): link_mb_per_s(link) for link in topology["links"]
    }
    best, worst, ratio = max(links.values()), min(links.values()), 1 + percent / 100
    if best <= ratio * worst:
        raise ValueError(f"percent: {percent} is not possible with links of {worst}..{best} MB/s")
    megabytes = STEP_SECONDS * (ratio - 1) / (1 / worst - ratio / best)
    return {
        "seed": seed,
        "noise": NOISE,
        "seconds": STEP_SECONDS,
        "megabytes": megabytes,
        "links": links,
    }


def plain_law(seed: int, **more: object) -> dict[str, Any]:
    """Return the law of a job whose speed depends on nothing, with further fields."""
    return {"seed": seed, "noise": NOISE, "seconds": STEP_SECONDS, **more}


def cpu_law(seed: int, *, seconds: float, workers: int, images: int) -> dict[str, Any]:
    """Return the law of a job that decodes ``images`` in ``workers`` processes for each step."""
    return plain_law(seed) | {"seconds": seconds, "workers": workers, "images": images}


def traffic_law(topology_conf: str, mb_per_s: float, folder: str) -> dict[str, Any]:
    """Return the part ``traffic`` of a law: a chain of GPUs whose bytes the counters show.

    Args:
        topology_conf: the file of the node's simulated driver.
        mb_per_s: what each end of an edge sends.
        folder: the driver's folder of rates, which the container has at the same path.
    """
    uuids: dict[str, str] = {}
    minors: dict[str, str] = {}
    ends: defaultdict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for words in map(str.split, topology_conf.splitlines()):
        match words:
            case ["gpu", index, uuid, minor, *_]:
                uuids[index], minors[uuid] = uuid, minor
            case ["nvlink", index, link, "gpu", peer]:
                ends[index, peer].append((index, link))
    links = {
        " ".join(sorted((uuids[a], uuids[b]))): list(zip(ends[a, b], ends[b, a], strict=True))
        for a, b in ends
        if a < b
    }
    return {"folder": folder, "mbPerSecond": mb_per_s, "minors": minors, "links": links}


def link_mb_per_s(link: Mapping[str, Any]) -> int:
    """Return the true bandwidth of an entry of ``GPUTopology.spec.links``."""
    if link["kind"] == "PCIe":
        return _PCIE_MB_PER_S[link["ancestor"]]
    return int(link["bandwidthMBps"])


def steps_per_second(law: Mapping[str, Any], mb_per_s: float | None = None) -> float:
    """Return the true rate on a link, without a link by default."""
    communication = law["megabytes"] / mb_per_s if mb_per_s else 0.0
    return 1 / float(law["seconds"] + communication)

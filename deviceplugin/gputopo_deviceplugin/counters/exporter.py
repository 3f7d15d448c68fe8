"""Parses what DCGM's exporter shows of the GPUs. No I/O.

The exporter serves metrics in Prometheus' text format. All values are means over its collection
interval, also those with BYTES in their name (NVIDIA/dcgm-exporter, issue 87): bytes per second.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

MAX_EXPORTER_BYTES: Final = 4 * 2**20
"""Maximum size of the text. 16 GPUs with all metrics need about 1 MiB."""

_OCCUPANCY: Final = "DCGM_FI_PROF_SM_OCCUPANCY"
_DRAM: Final = "DCGM_FI_PROF_DRAM_ACTIVE"
_SENT: Final = "DCGM_FI_PROF_NVLINK_TX_BYTES"
_RECEIVED: Final = "DCGM_FI_PROF_NVLINK_RX_BYTES"
_WANTED: Final = frozenset({_OCCUPANCY, _DRAM, _SENT, _RECEIVED})

# DCGM 4.6 adds names that end with _RATIO. Possessive quantifiers never backtrack.
_LINE: Final = re.compile(
    rb"^(DCGM_FI_PROF_[A-Z_]{1,40}+)\{([^}\n]{1,4096}+)\}[ \t]++(\S{1,64}+)", re.MULTILINE
)
_UUID: Final = re.compile(rb'(?:^|,)UUID="([^"]{1,64})"')
_MIG: Final = re.compile(rb'(?:^|,)GPU_I_ID="[^"]')


class ExporterRates(NamedTuple):
    """What the exporter shows of one GPU; None for a metric that it does not have.

    Attributes:
        occupancy: mean SM occupancy, from 0 to 1.
        dram: share of time in which the DRAM transferred data.
        sent: bytes per second over all NVLinks, without protocol headers.
        received: the same in the other direction.
        from_us: time of the previous scrape, in microseconds since 1970.
        to_us: time of this scrape.
    """

    occupancy: float | None
    dram: float | None
    sent: float | None
    received: float | None
    from_us: int
    to_us: int


def parse_exporter(text: bytes, from_us: int, to_us: int) -> dict[str, ExporterRates]:
    """Return the values of each GPU by UUID. Values of MIG instances and invalid lines are ignored.

    Args:
        text: the response of the exporter.
        from_us: time of the previous scrape, in microseconds since 1970.
        to_us: time of this scrape.
    """
    found: dict[str, dict[str, float]] = {}
    for name, labels, value in _LINE.findall(text):
        metric = name.decode().removesuffix("_RATIO")
        uuid = _UUID.search(labels)
        if metric in _WANTED and uuid is not None and not _MIG.search(labels):
            number = _number(value)
            if number is not None:
                found.setdefault(uuid[1].decode(errors="replace"), {})[metric] = number
    return {uuid: _rates(values, from_us, to_us) for uuid, values in found.items()}


def _rates(values: Mapping[str, float], from_us: int, to_us: int) -> ExporterRates:
    return ExporterRates(
        values.get(_OCCUPANCY),
        values.get(_DRAM),
        values.get(_SENT),
        values.get(_RECEIVED),
        from_us,
        to_us,
    )


def _number(value: bytes) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None

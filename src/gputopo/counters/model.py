"""Types of what hardware counters show. The agent fills the readings; the rest is computed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from gputopo.patterns.model import PatternKind


class ByteCount(NamedTuple):
    """Bytes since an unknown start, at a time of the driver.

    A source that has only rates is integrated by the agent, so that all counts are cumulative.

    Attributes:
        sent: bytes that the GPU has sent.
        received: bytes that the GPU has received.
        at_us: the driver's time of the values, in microseconds.
        wraps_at: the counter begins at 0 again when it reaches this number of bytes; None if it
            never does.
    """

    sent: int
    received: int
    at_us: int
    wraps_at: int | None = None


class LoadSource(StrEnum):
    """What measures the load of a GPU.

    ``GPM`` (NVML, Hopper and later) and ``DCGM`` (the exporter on the node) measure SM occupancy
    and DRAM activity. ``UTILIZATION`` is the share of time in which any kernel runs, as NVML
    reports it: a last resort, which says little about the capacity that is left.
    """

    GPM = "GPM"
    DCGM = "DCGM"
    UTILIZATION = "Utilization"


class LoadReading(NamedTuple):
    """Mean load of a GPU from ``from_us`` to ``to_us``, each from 0 to 1.

    Attributes:
        occupancy: resident warps divided by the most possible, mean over all SMs and the elapsed
            time; with ``UTILIZATION``, the share of time in which any kernel ran.
        dram: share of time in which the DRAM transferred data; None if unknown.
        from_us: begin of the interval, microseconds of the same clock as ``ByteCount.at_us``.
        to_us: end of the interval.
    """

    source: LoadSource
    occupancy: float
    dram: float | None
    from_us: int
    to_us: int


@dataclass(frozen=True, slots=True)
class GpuCounters:
    """The counters of one GPU, read at one time. What could not be read is missing.

    Attributes:
        links: payload bytes of each NVLink, by the driver's link number.
        nvlink: payload bytes of all NVLinks together, if a source has only their sum.
        pcie: bytes of the PCIe link, input data and copies to the host included.
    """

    links: Mapping[int, ByteCount] = field(default_factory=dict)
    nvlink: ByteCount | None = None
    pcie: ByteCount | None = None
    load: LoadReading | None = None


class TrafficSource(StrEnum):
    """What is known of the traffic of a container.

    ``NVLINK_PAIRS``: every two of its GPUs have NVLinks, and each link ends at a GPU, so the bytes
    between any two GPUs are known. ``NVLINK_TOTALS``: the links end at a switch or at something
    that the driver does not report, or only their sums can be read, so only the bytes of each GPU
    are known. ``PARTIAL``: some pairs have no NVLink, so their traffic is in the PCIe bytes,
    together with input data.
    """

    NVLINK_PAIRS = "NVLinkPairs"
    NVLINK_TOTALS = "NVLinkTotals"
    PARTIAL = "Partial"


class ObservedPattern(NamedTuple):
    """The communication pattern that the counters show.

    Attributes:
        kind: None if the GPUs do not communicate. All-to-all stands for several rings too, which
            the counters do not distinguish from it.
        confidence_permille: share of the windows that show ``kind``, in thousandths.
        windows: number of windows with steps that were judged.
    """

    kind: PatternKind | None
    confidence_permille: int
    windows: int


class Traffic(NamedTuple):
    """What the counters show of one container between two times.

    Attributes:
        bytes_per_step: bytes that one GPU of the container sends in one step, mean over its GPUs;
            with ``PARTIAL``, PCIe bytes included, so an upper bound. None without step counts.
        pattern: None if it is unknown: the source is not ``NVLINK_PAIRS``, or the windows are too
            few or disagree.
        unknown_reason: why the pattern is unknown; empty if it is known.
    """

    source: TrafficSource
    bytes_per_step: int | None
    pattern: ObservedPattern | None
    unknown_reason: str = ""


class Load(NamedTuple):
    """Load of a container that is alone on its GPUs, mean over its GPUs (Colocation, C and M).

    Attributes:
        occupancy_us: C, the time integral of the occupancy over one step, in microseconds of full
            occupancy.
        dram_us: M, the same of the DRAM activity; None if unknown.
    """

    source: LoadSource
    occupancy_us: int
    dram_us: int | None

"""Computes what hardware counters showed of the communication of a workload, by number of GPUs."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from gputopo.api.profile import CommunicationFact, Sample, SampleTraffic
from gputopo.counters.model import TrafficSource
from gputopo.counters.votes import LEAST_PERMILLE, LEAST_QUIET_PERMILLE
from gputopo.profiles.amounts import mean_amount
from gputopo.profiles.comparable import UNKNOWN, Demands, by_gpus
from gputopo.profiles.hidden import limits

NO_PATTERN: Final = "None"
"""Pattern of GPUs that do not communicate."""

UNKNOWN_PATTERN: Final = "Unknown"

_BEST_FIRST: Final = (
    TrafficSource.NVLINK_PAIRS,
    TrafficSource.NVLINK_TOTALS,
    TrafficSource.PARTIAL,
)


class _Pattern(NamedTuple):
    """A pattern, and the windows of all samples.

    Attributes:
        permille: share of the windows that showed it; 0 if it is unknown.
    """

    kind: str
    permille: int
    windows: int


def communication_facts(
    samples: Iterable[Sample], demands: Demands = UNKNOWN
) -> list[CommunicationFact]:
    """Return a fact for each number of GPUs above 1 whose samples have traffic of a known source.

    Args:
        samples: samples of one GPU model and image.
        demands: CPUs that the workload needs. Samples with fewer CPUs have long steps, so they do
            not limit the slowdown on slow links.
    """
    facts = (
        _fact(gpus, group, demands.get(gpus))
        for gpus, group in by_gpus(samples).items()
        if gpus > 1
    )
    return [fact for fact in facts if fact]


def _fact(gpus: int, samples: Sequence[Sample], demand: int | None) -> CommunicationFact | None:
    for source in _BEST_FIRST:
        used = [sample for sample in samples if sample.traffic and sample.traffic.source == source]
        if used:
            break
    else:
        return None
    sent = mean_amount([it.traffic.bytes_per_step for it in used if it.traffic])
    pattern = _pattern([it.traffic for it in samples if it.traffic])
    limit = limits(used, sent.high, pattern.kind, demand)
    return CommunicationFact(
        gpus=gpus,
        source=source,
        samples=len(used),
        bytes_per_step=sent.value,
        low_bytes_per_step=sent.low,
        high_bytes_per_step=sent.high,
        pattern=pattern.kind,
        confidence_permille=pattern.permille,
        windows=pattern.windows,
        share_high_percent=limit.share if limit else None,
        slowdown_high_percent=limit.slowdown if limit else None,
    )


def _pattern(traffic: Iterable[SampleTraffic]) -> _Pattern:
    """Return the pattern that most windows of all samples show.

    Only with bytes between each pair of GPUs is there a pattern. Example: one sample shows Ring in
    900 of 1000 windows, and a shorter one AllToAll in all of 100. Then 900 of 1100 windows show
    Ring, 81 %. Samples that contradict each other more give no pattern.
    """
    votes, windows = Counter[str](), 0
    for sample in traffic:
        if sample.source == TrafficSource.NVLINK_PAIRS:
            windows += sample.windows
            votes[sample.pattern] += sample.windows * sample.confidence_permille
    del votes[UNKNOWN_PATTERN]
    kind = max(votes, key=lambda each: (votes[each], each), default=UNKNOWN_PATTERN)
    permille = votes[kind] // windows if windows else 0
    if permille < (LEAST_QUIET_PERMILLE if kind == NO_PATTERN else LEAST_PERMILLE):
        return _Pattern(UNKNOWN_PATTERN, 0, windows)
    return _Pattern(kind, permille, windows)

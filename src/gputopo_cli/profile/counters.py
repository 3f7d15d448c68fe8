"""Describe what hardware counters showed of a workload, and which counters nodes have."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gputopo.api.profile import CommunicationFact, LoadFact, WorkloadFacts
from gputopo.api.v1alpha1 import CounterStatus
from gputopo.sharing.facts import sharing_workload
from gputopo.sharing.loadlaw import load_share
from gputopo_cli.shared import output

TRAFFIC_COLUMNS = (
    *("GPUS>", "PATTERN", "CONFIDENCE", "GB/STEP>", "95 % INTERVAL"),
    *("OF A STEP", "SLOWER", "SAMPLES>", "SOURCE"),
)
LOAD_COLUMNS = ("GPUS>", "OCCUPANCY C>", "DRAM M>", "OF THE GPU>", "SAMPLES>", "SOURCE")
COUNTER_COLUMNS = ("NODE", "COUNTERS", "SOURCE", "GPUS>", "MESSAGE")


@dataclass(frozen=True, slots=True)
class NodeCounters:
    """The counters that the agent of a node reads; empty if it reads none."""

    node: str
    counters: Sequence[CounterStatus]

    def document(self) -> dict[str, object]:
        """Return the counters as JSON."""
        return {"node": self.node, "counters": [each.to_json() for each in self.counters]}


def traffic_row(fact: CommunicationFact) -> tuple[str, ...]:
    """Return the row of a fact about communication."""
    unknown = fact.pattern == "Unknown"
    seen = f"{fact.confidence_permille / 10:g} % of {fact.windows} windows"
    return (
        str(fact.gpus),
        fact.pattern,
        "-" if unknown else seen,
        _gigabytes(fact.bytes_per_step),
        f"{_gigabytes(fact.low_bytes_per_step)}..{_gigabytes(fact.high_bytes_per_step)}",
        _at_most(fact.share_high_percent),
        _at_most(fact.slowdown_high_percent),
        str(fact.samples),
        fact.source,
    )


def load_row(fact: LoadFact, facts: WorkloadFacts) -> tuple[str, ...]:
    """Return the row of a fact about load; ``facts`` are those of the same workload."""
    return (
        str(fact.gpus),
        _milliseconds(fact.occupancy_us),
        "unknown" if fact.dram_us is None else _milliseconds(fact.dram_us),
        _of_the_gpu(fact, facts),
        str(fact.samples),
        fact.source,
    )


def _of_the_gpu(fact: LoadFact, facts: WorkloadFacts) -> str:
    """Return the part of one GPU that decides about sharing: the mean occupancy alone."""
    share = load_share(sharing_workload("", facts)) if fact.gpus == 1 else None
    return "-" if share is None else f"{100 * share.occupancy:.0f} %"


def counter_rows(nodes: Sequence[NodeCounters]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each kind of counters of each node."""
    for node in nodes:
        for each in node.counters:
            row = (node.node, each.kind, each.source, str(each.gpus))
            yield (*row, output.one_line(each.message))
        if not node.counters:
            yield node.node, "-", "-", "-", "the agent reports no counters"


def _at_most(percent: int | None) -> str:
    return "unknown" if percent is None else f"at most {percent} %"


def _gigabytes(number: int) -> str:
    return output.format_number(number / 1e9)


def _milliseconds(microseconds: int) -> str:
    return f"{output.format_number(microseconds / 1000)} ms"

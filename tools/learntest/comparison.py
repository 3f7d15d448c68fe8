"""What training jobs that slow each other down got under each policy. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Any

from gputopo.api.profile import GPUProfileStatus, NeighbourFact
from learntest.arrivals import Arrivals


@dataclass(frozen=True, slots=True)
class Seen:
    """What one job had in one round, by its own account.

    Attributes:
        sockets: of the device files in its container.
        step_seconds: mean time of a step.
    """

    sockets: tuple[int, ...]
    step_seconds: float


@dataclass(frozen=True, slots=True)
class Round:
    """Jobs that ran side by side.

    Attributes:
        kind: ``GPUJob`` or ``Pod``.
        seen: by workload.
        shown: the annotation ``gputopo.io/placement`` of each workload's pod.
    """

    arrivals: Arrivals
    policy: str
    kind: str
    seen: Mapping[str, Seen]
    shown: Mapping[str, Mapping[str, Any]]

    def share_a_socket(self, one: str, other: str) -> bool:
        """Whether two workloads of the round have GPUs on one socket."""
        return bool(set(self.seen[one].sockets) & set(self.seen[other].sockets))

    def expected_percent(self, workload: str, truth: Mapping[str, Mapping[str, float]]) -> float:
        """Return by how much the law makes a workload slower on the sockets of this round."""
        factor = 1.0
        for other in self.seen:
            if other != workload and self.share_a_socket(workload, other):
                factor *= 1 + truth[workload][other] / 100
        return 100 * (factor - 1)


class Comparison:
    """Rounds, and the times of the jobs alone.

    Attributes:
        alone: seconds per step of each workload alone.
        truth: by how many percent the law makes a workload slower beside another.
    """

    def __init__(
        self, alone: Mapping[str, float], truth: Mapping[str, Mapping[str, float]]
    ) -> None:
        self.alone, self.truth = alone, truth
        self._rounds: list[Round] = []

    def add(self, one: Round) -> None:
        """Add a round."""
        self._rounds.append(one)

    def percent(self, one: Round, workload: str) -> float:
        """Return by how much a workload was slower than alone, in percent."""
        return 100 * (one.seen[workload].step_seconds / self.alone[workload] - 1)

    def rows(self) -> list[dict[str, Any]]:
        """Return one row for each round."""
        return [self._row(one) for one in self._rounds]

    def decisions(self) -> list[dict[str, Any]]:
        """Return one row for each placement by policy Utility: its terms, and what it assumed."""
        return [
            {"arrivals": " ".join(one.arrivals), "kind": one.kind, "workload": workload} | terms
            for one in self._rounds
            for workload in one.arrivals
            if (terms := utility_terms(one.shown.get(workload, {})))
        ]

    def summary(self) -> list[dict[str, Any]]:
        """Return one row for each policy, with means over its rounds."""
        policies = list(dict.fromkeys(one.policy for one in self._rounds))
        return [self._summary(policy) for policy in policies]

    def ratios(self, policy: str, to: str) -> dict[str, float]:
        """Return the mean time of a step under ``policy`` relative to ``to``, by workload."""
        found = {}
        for workload in self.alone:
            own, other = (
                fmean(one.seen[workload].step_seconds for one in self._of(each))
                for each in (policy, to)
            )
            found[workload] = round(own / other, 3)
        return found

    def deviations(self) -> list[tuple[str, float]]:
        """Return each measured slowdown minus the slowdown by the law, in percentage points."""
        return [
            (
                f"{workload} of {' '.join(one.arrivals)} under {one.policy}",
                self.percent(one, workload) - one.expected_percent(workload, self.truth),
            )
            for one in self._rounds
            for workload in one.seen
        ]

    def together(self, policy: str, one: str, other: str) -> int:
        """Return in how many rounds two workloads shared a socket."""
        return sum(each.share_a_socket(one, other) for each in self._of(policy))

    def _of(self, policy: str) -> list[Round]:
        return [one for one in self._rounds if one.policy == policy]

    def _row(self, one: Round) -> dict[str, Any]:
        row: dict[str, Any] = {
            "arrivals": " ".join(one.arrivals),
            "kind": one.kind,
            "policy": one.policy,
        }
        for workload in sorted(one.seen):
            seen = one.seen[workload]
            row[workload] = {
                "socket": "+".join(map(str, seen.sockets)),
                "ms": round(1000 * seen.step_seconds, 1),
                "slower %": round(self.percent(one, workload), 1),
            }
        return row | {"mean slower %": self._mean(one)}

    def _mean(self, one: Round) -> float:
        return round(fmean(self.percent(one, workload) for workload in one.seen), 1)

    def _summary(self, policy: str) -> dict[str, Any]:
        rounds = self._of(policy)
        row: dict[str, Any] = {"policy": policy, "rounds": len(rounds)}
        for one, other in combinations(sorted(self.alone), 2):
            row[f"{one} beside {other}"] = self.together(policy, one, other)
        for workload in sorted(self.alone):
            values = [self.percent(one, workload) for one in rounds]
            row[f"{workload} slower %"] = round(fmean(values), 1)
        return row | {"mean slower %": round(fmean(map(self._mean, rounds)), 1)}


def utility_terms(placement: Mapping[str, Any]) -> dict[str, Any]:
    """Return utility and terms in per mille, and the assumed slowdown by each neighbour.

    Empty if another policy chose the GPUs.
    """
    found = placement.get("utility")
    if not found:
        return {}
    known = (placement.get("replay") or {}).get("utility") or {}
    names = ("utility", "communication", "interference", "fragmentation")
    return {name: found[f"{name}Permille"] for name in names} | {
        "assumed": "; ".join(map(_assumed, known.get("neighbours", ()))) or "no neighbours"
    }


def _assumed(neighbour: Mapping[str, Any]) -> str:
    """Return what Utility assumed about one job on the node."""
    suffered, caused = (
        f"{each[0]} % {each[1]}" for each in (neighbour["suffered"], neighbour["caused"])
    )
    name = neighbour.get("workload", "").rpartition("/")[2] or "unknown workload"
    gpus = ",".join(map(str, neighbour["gpus"]))
    return f"{name} on GPUs {gpus}: suffers {suffered}, causes {caused}"


def sockets_in(metrics: str) -> tuple[int, ...]:
    """Return the sockets in the metrics of a training job."""
    found = re.findall(r'^training_socket\{socket="(\d+)"\} 1$', metrics, re.MULTILINE)
    return tuple(sorted(map(int, found)))


def fact_rows(
    known: Mapping[str, GPUProfileStatus], truth: Mapping[str, Mapping[str, float]]
) -> list[dict[str, Any]]:
    """Return what is known of each pair of workloads, with the truth.

    The law has no effect of jobs on other sockets, so the truth is 0 % for the scope ``Node``.
    """
    rows = []
    for own, status in sorted(known.items()):
        for fact in _facts(status):
            other = fact.workload.rpartition("/")[2]
            true = truth[own][other] if fact.scope == "Socket" else 0.0
            rows.append(
                {
                    "workload": own,
                    "beside": other,
                    "scope": fact.scope,
                    "truth %": true,
                    "learnt %": fact.percent,
                    "from %": fact.low_percent,
                    "to %": fact.high_percent,
                    "samples": fact.samples,
                }
            )
    return rows


def missing(known: Mapping[str, GPUProfileStatus], workloads: Sequence[str]) -> list[str]:
    """Return the pairs of different workloads whose slowdown on one socket is not known."""
    found = {
        (own, fact.workload.rpartition("/")[2])
        for own, status in known.items()
        for fact in _facts(status)
        if fact.scope == "Socket"
    }
    return [
        f"{own} beside {other}"
        for own in workloads
        for other in workloads
        if own != other and (own, other) not in found
    ]


def outside(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the facts whose interval does not contain the truth; percentages are whole numbers."""
    return [
        f"{row['workload']} beside {row['beside']} ({row['scope']})"
        for row in rows
        if not row["from %"] - 0.5 <= row["truth %"] <= row["to %"] + 0.5
    ]


def _facts(status: GPUProfileStatus) -> list[NeighbourFact]:
    return status.facts.neighbours if status.facts else []

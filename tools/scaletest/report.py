"""The figures of all rounds side by side: of each scheduler those of its median round. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby

from scaletest.rounds import Round

GOAL = 0.6
COMPARED = "gputopo"
"""One scheduler and one extender: the plain one is alone, too."""
VERBS = ("filter", "prioritize", "bind")


def medians(rounds: Sequence[Round]) -> list[Round]:
    """Return of each scheduler with each set of pods the round of the middle rate."""

    def group(one: Round) -> tuple[int, str]:
        return schedulers.index(one.scheduler), one.pods

    schedulers = list(dict.fromkeys(one.scheduler for one in rounds))
    middle = []
    for _, alike in groupby(sorted(rounds, key=group), group):
        ordered = sorted(alike, key=lambda one: one.per_second)
        middle.append(ordered[(len(ordered) - 1) // 2])
    return middle


def ratio(rounds: Sequence[Round], one: Round) -> float:
    """Return a round's rate over the median of the first scheduler with the same pods."""
    plain = next(each for each in medians(rounds) if each.pods == one.pods)
    return one.per_second / plain.per_second if plain.per_second else 0.0


def shortcomings(rounds: Sequence[Round], wanted: dict[str, int]) -> list[str]:
    """Return what is not as it must be: pods not placed, GPUs given twice, too slow."""
    found = [
        f"{one.scheduler}, {one.pods}: {one.bound} bound, {one.twice} wrong GPUs"
        for one in rounds
        if one.bound != wanted[one.pods] or one.twice
    ]
    return found + [
        f"{one.scheduler}, {one.pods}: {ratio(rounds, one):.2f} of plain, goal {GOAL}"
        for one in medians(rounds)
        if one.scheduler == COMPARED and ratio(rounds, one) < GOAL
    ]


def document(rounds: Sequence[Round], missed: Sequence[str]) -> dict[str, object]:
    """Return all as JSON values."""
    return {
        "rounds": [{**asdict(one), "ratio": round(ratio(rounds, one), 3)} for one in rounds],
        "missed": list(missed),
    }


def table(rounds: Sequence[Round]) -> Iterator[str]:
    """Yield the lines that a person reads."""
    line = "{:<22} {:<22} {:>7} {:>7} {:>13} {:>8}" + " {:>17}" * len(VERBS)
    heads = [f"{verb} p50/p99" for verb in VERBS]
    yield line.format("SCHEDULER", "PODS", "BOUND", "PODS/S", "RANGE", "OF PLAIN", *heads)
    middle = medians(rounds)
    for one in middle:
        latencies = [one.latencies.get(verb) for verb in VERBS]
        shown = [f"{each.p50:.1f}/{each.p99:.1f} ms" if each else "-" for each in latencies]
        rates = (f"{one.per_second:.1f}", _range(rounds, one), f"{ratio(rounds, one):.2f}")
        yield line.format(one.scheduler, one.pods, one.bound, *rates, *shown)
    yield ""
    yield "Processor time for one pod, in ms, between the first binding and the last:"
    parts = sorted({part for one in middle for part in one.processor_ms})
    line = "{:<22} {:<22}" + " {:>10}" * len(parts)
    yield line.format("", "", *(part.removeprefix("kube-")[:10] for part in parts))
    for one in middle:
        spent = [f"{one.processor_ms.get(part, 0):.2f}" for part in parts]
        yield line.format(one.scheduler, one.pods, *spent)


def _range(rounds: Sequence[Round], one: Round) -> str:
    alike = (one.scheduler, one.pods)
    rates = [each.per_second for each in rounds if (each.scheduler, each.pods) == alike]
    return f"{min(rates):.1f}-{max(rates):.1f}"

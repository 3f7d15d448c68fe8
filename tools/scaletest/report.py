"""The figures of all rounds side by side. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from scaletest.rounds import Round

GOAL = 0.6
COMPARED = "gputopo"
"""One scheduler and one extender: the plain one is alone, too."""
VERBS = ("filter", "prioritize", "bind")


def ratio(rounds: Sequence[Round], one: Round) -> float:
    """Return a round's rate over that of the first scheduler with the same pods."""
    plain = next(each for each in rounds if each.pods == one.pods)
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
        for one in rounds
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
    line = "{:<22} {:<22} {:>7} {:>7} {:>8}" + " {:>17}" * len(VERBS)
    heads = [f"{verb} p50/p99" for verb in VERBS]
    yield line.format("SCHEDULER", "PODS", "BOUND", "PODS/S", "OF PLAIN", *heads)
    for one in rounds:
        latencies = [one.latencies.get(verb) for verb in VERBS]
        shown = [f"{each.p50:.1f}/{each.p99:.1f} ms" if each else "-" for each in latencies]
        rates = (f"{one.per_second:.1f}", f"{ratio(rounds, one):.2f}")
        yield line.format(one.scheduler, one.pods, one.bound, *rates, *shown)
    yield ""
    yield "Processor time for one pod, in ms, between the first binding and the last:"
    parts = sorted({part for one in rounds for part in one.processor_ms})
    line = "{:<22} {:<22}" + " {:>10}" * len(parts)
    yield line.format("", "", *(part.removeprefix("kube-")[:10] for part in parts))
    for one in rounds:
        spent = [f"{one.processor_ms.get(part, 0):.2f}" for part in parts]
        yield line.format(one.scheduler, one.pods, *spent)

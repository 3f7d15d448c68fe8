"""The figures of all rounds: for each scheduler those of its median round. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from math import inf
from statistics import median

from scaletest.rounds import Round
from scaletest.schedulers import OUR_TITLE, PLAIN_TITLE

GOAL = 0.6
VERBS = ("filter", "prioritize", "bind")


def medians(rounds: Sequence[Round]) -> list[Round]:
    """Return the round of the median rate for each scheduler and set of pods."""
    titles = list(dict.fromkeys((one.scheduler, one.pods) for one in rounds))
    return [_middle(_of(rounds, *title)) for title in titles]


def ratio(rounds: Sequence[Round], scheduler: str, pods: str) -> float:
    """Return the median over the turns of a scheduler's rate over that of the plain one.

    Each turn is compared with the plain scheduler's before or after it, for the machine's speed
    changes; one that has none with the plain scheduler's median.
    """
    plain = _of(rounds, PLAIN_TITLE, pods)
    rate_in = {one.turn: one.per_second for one in plain}
    middle = _middle(plain).per_second
    ours = _of(rounds, scheduler, pods)
    return median(one.per_second / (rate_in.get(one.turn, middle) or inf) for one in ours)


def shortcomings(rounds: Sequence[Round], wanted: dict[str, int]) -> list[str]:
    """Return the missed goals: pods not placed, GPUs given twice, a rate that is too low."""
    found = [
        f"{one.scheduler}, {one.pods}: {one.bound} bound, {one.twice} wrong GPUs"
        for one in rounds
        if one.bound != wanted[one.pods] or one.twice
    ]
    # One scheduler and one extender: the plain one is alone, too.
    ratios = {pods: ratio(rounds, OUR_TITLE, pods) for pods in wanted}
    return found + [
        f"{OUR_TITLE}, {pods}: {reached:.2f} of plain, goal {GOAL}"
        for pods, reached in ratios.items()
        if reached < GOAL
    ]


def document(rounds: Sequence[Round], missed: Sequence[str]) -> dict[str, object]:
    """Return the report as JSON values."""
    return {
        "rounds": [asdict(one) for one in rounds],
        "ratios": [
            {
                "scheduler": one.scheduler,
                "pods": one.pods,
                "ratio": round(ratio(rounds, one.scheduler, one.pods), 3),
            }
            for one in medians(rounds)
        ],
        "missed": list(missed),
    }


def table(rounds: Sequence[Round]) -> Iterator[str]:
    """Yield the lines of the table."""
    line = "{:<22} {:<22} {:>7} {:>7} {:>13} {:>8} {:>7} {:>7}" + " {:>17}" * len(VERBS)
    heads = ["PODS/S", "RANGE", "OF PLAIN", "NODES", "PARTLY", *(f"{it} p50/p99" for it in VERBS)]
    yield line.format("SCHEDULER", "PODS", "BOUND", *heads)
    middle = medians(rounds)
    for one in middle:
        latencies = [one.latencies.get(verb) for verb in VERBS]
        shown = [f"{each.p50:.1f}/{each.p99:.1f} ms" if each else "-" for each in latencies]
        reached = ratio(rounds, one.scheduler, one.pods)
        rates = (f"{one.per_second:.1f}", _range(rounds, one), f"{reached:.2f}")
        packed = (one.nodes, one.partly)
        yield line.format(one.scheduler, one.pods, one.bound, *rates, *packed, *shown)
    yield ""
    yield "Processor time for one pod, in ms, between the first binding and the last:"
    parts = sorted({part for one in middle for part in one.processor_ms})
    line = "{:<22} {:<22}" + " {:>10}" * len(parts)
    yield line.format("", "", *(part.removeprefix("kube-")[:10] for part in parts))
    for one in middle:
        spent = [f"{one.processor_ms.get(part, 0):.2f}" for part in parts]
        yield line.format(one.scheduler, one.pods, *spent)


def _of(rounds: Sequence[Round], scheduler: str, pods: str) -> list[Round]:
    return [one for one in rounds if (one.scheduler, one.pods) == (scheduler, pods)]


def _middle(alike: Sequence[Round]) -> Round:
    ordered = sorted(alike, key=lambda one: one.per_second)
    return ordered[(len(ordered) - 1) // 2]


def _range(rounds: Sequence[Round], one: Round) -> str:
    rates = [each.per_second for each in _of(rounds, one.scheduler, one.pods)]
    return f"{min(rates):.1f}-{max(rates):.1f}"

"""How many runs and seconds the slowdown on slow links takes to be known."""

import time
from dataclasses import dataclass, field

from gputopo.api.measuring import MeasuringRequest
from gputopo.api.profile import LinkFact
from learntest import laws, profiles
from learntest.bench import Bench
from learntest.experiment import Options
from learntest.manifests import Run

_LAWS = {"bound-by-links": 60.0, "mixed": 20.0, "bound-by-gpus": 2.0}
_ROUNDS = 8
_RUN_SECONDS = 200.0
_FOLD_SECONDS = 40.0


@dataclass(slots=True)
class Learnt:
    """What is known of one law.

    Attributes:
        percent: the truth.
        runs: so far.
        decided: number of runs after which the class was right and the percentage near the truth.
    """

    percent: float
    runs: int = 0
    decided: int | None = None
    facts: list[str] = field(default_factory=list)

    def add(self, fact: LinkFact | None) -> None:
        """Add the fact that is known after one more run."""
        self.runs += 1
        self.facts.append(describe(fact))
        right = fact is not None and profiles.is_right(fact, self.percent)
        self.decided = (self.decided or self.runs) if right else None

    def is_wrong(self, fact: LinkFact | None) -> bool:
        """Whether the class is known and wrong."""
        known = fact is not None and fact.sensitivity != "Unknown"
        return known and fact is not None and fact.sensitivity != profiles.kind_of(self.percent)


def carry_out(bench: Bench, options: Options) -> None:
    """Run three jobs side by side, again and again, on good and bad links in turn."""
    node = bench.node_with({"NVLink1", "NVLink2"}.issubset)
    learnt = {profile: Learnt(percent) for profile, percent in _LAWS.items()}
    began = time.monotonic()
    for number in range(options.rounds or _ROUNDS):
        _round(bench, node, number, options.seconds or _RUN_SECONDS)
        for profile, known in learnt.items():
            fact = profiles.link_fact(bench.status_of(profile))
            known.add(fact)
            bench.report(
                f"{profile} ({known.percent:g} %) after {known.runs} runs: {describe(fact)}"
            )
            if known.is_wrong(fact):
                bench.finding("wrong classes", f"{profile} after {known.runs} runs: {fact}")
        if all(known.decided for known in learnt.values()):
            break
    bench.seen["seconds"] = round(time.monotonic() - began)
    _judge(bench, learnt)


def describe(fact: LinkFact | None) -> str:
    """Return a fact in one line."""
    if fact is None:
        return "not enough data"
    interval = f"{fact.percent} % ({fact.low_percent}..{fact.high_percent})"
    return f"{interval} {fact.sensitivity}, {fact.samples} samples"


def _round(bench: Bench, node: str, number: int, seconds: float) -> None:
    """Run one job of each law for some seconds, on bad links in every second round."""
    policy = "Weakest" if number % 2 else None
    runs = [
        Run(
            f"{profile}-{number}",
            laws.link_law(bench.topologies[node], percent, seed=1000 * number + index),
            node,
            policy=policy,
            measuring=MeasuringRequest(profile=profile),
        )
        for index, (profile, percent) in enumerate(_LAWS.items())
    ]
    bench.start(*runs)
    time.sleep(seconds)
    bench.end(run.name for run in runs)
    time.sleep(_FOLD_SECONDS)  # agent and operator write at most twice a minute


def _judge(bench: Bench, learnt: dict[str, Learnt]) -> None:
    for profile, known in learnt.items():
        name = f"{profile}, {known.percent:g} % slower on the worst links"
        bench.seen[name] = f"right after {known.decided} runs; " + "; ".join(known.facts)
        bench.seen[f"{profile}, seconds of its samples"] = sum(
            sample.seconds for sample in bench.status_of(profile).samples
        )
        if known.decided is None:
            bench.finding("not learnt", f"{name}: {known.facts[-1]} after {known.runs} runs")

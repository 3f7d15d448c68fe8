"""Where jobs that slow each other down go under Preserve and under Utility, and how fast they are.

Three workloads learn in varying company how much they slow each other down. Then one job of each
starts in every order, under both policies.
"""

import random
from collections.abc import Sequence

from gputopo.api.profile import GPUProfileStatus
from learntest import arrivals, comparison, figure6
from learntest.arrivals import Arrivals
from learntest.bench import Bench
from learntest.comparison import Comparison
from learntest.experiment import Options
from learntest.sidebyside import SideBySide
from showcase import install
from showcase.kubectl import wait_for

WORKLOADS = tuple(figure6.JOBS)
LOUD = ("noisy-a", "noisy-b")
POLICIES = ("Preserve", "Utility")

_SAMPLE_SECONDS, _SHORT_SAMPLE_SECONDS = 130.0, 50.0
_FOLD_SECONDS = 90.0
_MOST_PASSES = 3
_ORDERS = 6
_POINTS = 5.0
"""Tolerance of a measured slowdown in percentage points: other programs use the machine too."""

_NEW = "new-"
"""First part of the names of GPUProfiles without samples."""


def carry_out(bench: Bench, options: Options) -> None:
    """Learn, then compare the policies in ``rounds`` orders; 0 stands for learning only."""
    rng = random.Random(options.seed)  # noqa: S311 - repeatable on purpose
    node = options.node or bench.node_with({"NVLink1", "NVLink2"}.issubset)
    stage = SideBySide(bench, node, figure6.percents())
    if options.profiles and options.profiles.exists():
        stage.read(options.profiles)
    _learn(bench, stage, options, rng)
    _judge_facts(bench, stage)
    orders = _ORDERS if options.rounds is None else options.rounds
    if orders:
        _decide(bench, stage, list(arrivals.orders(WORKLOADS, rng, orders)))


def _learn(bench: Bench, stage: SideBySide, options: Options, rng: random.Random) -> None:
    """Run the workloads in varying company until each pair is known."""
    short = install.SHORT_SAMPLES in bench.installed.values
    seconds = options.seconds or (_SHORT_SAMPLE_SECONDS if short else _SAMPLE_SECONDS)
    rounds = passes = 0
    while passes < _MOST_PASSES and comparison.missing(_known(stage), WORKLOADS):
        for arriving in arrivals.mixed(WORKLOADS, rng):
            stage.train(arriving, seconds)
            rounds += 1
            bench.report(f"round {rounds}: {_samples(stage)} samples")
            if options.profiles:
                stage.write(options.profiles, WORKLOADS)
        passes += 1
        _await_facts(bench, stage)
    bench.seen["rounds of learning"] = rounds
    if options.profiles:
        stage.write(options.profiles, WORKLOADS)


def _await_facts(bench: Bench, stage: SideBySide) -> None:
    """Wait until each pair is known, or until the last samples have reached the GPUProfiles."""
    try:
        wait_for(
            "each pair is known",
            lambda: not comparison.missing(_known(stage), WORKLOADS),
            timeout_s=_FOLD_SECONDS,
            interval_s=3,
        )
    except TimeoutError as error:
        bench.report(str(error))


def _samples(stage: SideBySide) -> dict[str, int]:
    return {name: len(status.samples) for name, status in _known(stage).items()}


def _known(stage: SideBySide) -> dict[str, GPUProfileStatus]:
    return stage.known(WORKLOADS)


def _judge_facts(bench: Bench, stage: SideBySide) -> None:
    known = _known(stage)
    rows = comparison.fact_rows(known, stage.percents)
    bench.seen["facts"] = rows
    bench.seen["samples"] = _samples(stage)
    for pair in comparison.missing(known, WORKLOADS):
        bench.finding("not learnt", pair)
    for pair in comparison.outside(rows):
        bench.finding("truth outside the interval", pair)


def _decide(bench: Bench, stage: SideBySide, orders: Sequence[Arrivals]) -> None:
    """Run one job of each workload in each order, under each policy."""
    alone = {each: stage.alone(each) for each in WORKLOADS}
    bench.seen["ms of a step alone"] = {
        name: round(1000 * seconds, 1) for name, seconds in alone.items()
    }
    bench.report(f"alone: {bench.seen['ms of a step alone']}")
    compared = Comparison(alone, stage.percents)
    for number, arriving in enumerate(orders):
        for policy in POLICIES:
            one = stage.decided(arriving, policy, plain=bool(number % 2))
            compared.add(one)
            bench.report(str(compared.rows()[-1]))
            for workload, shown in one.shown.items():
                bench.journal.note(f"{workload}: {shown}")
    _judge(bench, compared)
    _unknown(bench, stage, alone, "new workloads", plain=False)
    stage.forget()
    _unknown(bench, stage, alone, "no facts", plain=True)


def _judge(bench: Bench, compared: Comparison) -> None:
    bench.seen["rounds"] = compared.rows()
    bench.seen["decisions of Utility"] = compared.decisions()
    bench.seen["policies"] = compared.summary()
    bench.seen["time of a step under Utility / Preserve"] = compared.ratios("Utility", "Preserve")
    if number := compared.together("Utility", *LOUD):
        bench.finding("noisy jobs on one socket", f"in {number} rounds under Utility")
    for what, points in compared.deviations():
        if abs(points) > _POINTS:
            bench.finding("slowdown differs from the law", f"{what}: {points:+.1f} points")


def _unknown(
    bench: Bench, stage: SideBySide, alone: dict[str, float], name: str, *, plain: bool
) -> None:
    """Run jobs with new GPUProfiles under Utility, so that their slowdowns are not known."""
    control = Comparison(alone, stage.percents)
    control.add(stage.decided(WORKLOADS, "Utility", plain=plain, profiles=_NEW))
    bench.seen[f"{name}, rounds"] = control.rows()
    bench.seen[f"{name}, decisions of Utility"] = control.decisions()

"""A phase warms up, gives samples, and never mixes two environments or processes."""

import math
from collections.abc import Iterable
from itertools import islice

import pytest

from gputopo.errors import InvalidInputError
from gputopo.throughput.blocks import Block
from gputopo.throughput.phases import (
    MAX_BLOCKS,
    PhaseRules,
    PhaseSample,
    PhaseTracker,
    SteadyRate,
)
from support.training import Training, blocks, until


def regular(
    begin: float, end: float, *, steps: int = 30, segment: int = 0, seconds: float = 3.0
) -> list[Block]:
    """Return blocks of 3 s without noise between two times."""
    count = int((end - begin) / seconds)
    return [
        Block(segment, begin + seconds * n, begin + seconds * (n + 1), steps, seconds)
        for n in range(count)
    ]


def feed(
    tracker: PhaseTracker[str], sequence: Iterable[Block]
) -> list[tuple[float, PhaseSample[str]]]:
    """Return the samples with the time of the block that completed them."""
    found = ((block.ended, tracker.add(block)) for block in sequence)
    return [(at, sample) for at, sample in found if sample]


def sample(environment: str, rate: float, seconds: float) -> PhaseSample[str]:
    return PhaseSample(environment, SteadyRate(rate, 1, seconds))


def test_three_samples_of_60_s_follow_the_warm_up_and_then_one_each_600_s() -> None:
    confirmed = 12  # the first block that ends at least 10 s later
    assert feed(PhaseTracker("alone"), regular(100, 1540)) == [
        (190 + confirmed, sample("alone", 10, 60)),
        (250 + confirmed, sample("alone", 10, 60)),
        (310 + confirmed, sample("alone", 10, 60)),
        (910 + confirmed, sample("alone", 10, 600)),
        (1510 + confirmed, sample("alone", 10, 600)),
    ]


def test_change_of_the_environment_ends_the_phase_and_its_blocks_stay_apart() -> None:
    tracker = PhaseTracker("alone")
    assert len(feed(tracker, regular(0, 300))) == 3
    assert tracker.enter("alone", 300) is None
    assert tracker.enter("beside b", 301) == sample("alone", 10, 81)
    straddling = Block(0, 300, 303, 30, 3.0)
    assert feed(tracker, [straddling, *regular(303, 470, steps=15)]) == [
        (303 + 30 + 60 + 12, sample("beside b", 5, 60)),
        (303 + 30 + 120 + 12, sample("beside b", 5, 60)),
    ]


def test_short_part_before_a_change_is_dropped() -> None:
    tracker = PhaseTracker("alone")
    assert feed(tracker, regular(0, 87)) == []
    assert tracker.enter("beside b", 87) is None


@pytest.mark.parametrize(("noticed", "seconds"), [(160, 60), (159, None)])
def test_last_10_s_before_a_change_do_not_count(noticed: float, seconds: float | None) -> None:
    tracker = PhaseTracker("alone")
    sequence = [*regular(0, 150), *regular(150, 159, steps=3)]
    assert len(feed(tracker, sequence)) == 1  # at 90 s
    expected = sample("alone", 10, seconds) if seconds else None
    assert tracker.enter("beside b", noticed) == expected


@pytest.mark.parametrize("change", range(60, 150, 3))
def test_change_that_is_noticed_10_s_late_is_in_no_sample(change: int) -> None:
    tracker = PhaseTracker("alone")
    noticed = change + 10
    found = [each for _, each in feed(tracker, regular(0, change))]
    found += [each for _, each in feed(tracker, regular(change, noticed, steps=29))]
    found += filter(None, [tracker.enter("beside b", noticed)])
    assert all(each.rate.steps_per_second == pytest.approx(10) for each in found)
    assert bool(found) == (change >= 90)


def test_another_process_warms_up_again() -> None:
    sequence = [*regular(0, 150), *regular(200, 303, segment=1, steps=15)]
    assert feed(PhaseTracker("alone"), sequence) == [
        (102, sample("alone", 10, 60)),
        (203, sample("alone", 10, 60)),
        (302, sample("alone", 5, 60)),
    ]


def test_end_of_the_container_gives_the_last_sample_once() -> None:
    tracker = PhaseTracker("alone")
    feed(tracker, regular(0, 300))
    assert tracker.finish(310) == sample("alone", 10, 90)
    assert tracker.finish(310) is None


def test_phase_of_a_new_process_that_began_before_the_change_is_not_sampled() -> None:
    tracker = PhaseTracker("alone")
    feed(tracker, regular(0, 60))
    tracker.enter("beside b", 62)
    assert feed(tracker, regular(60, 63, segment=1)) == []
    assert feed(tracker, regular(63, 165, segment=1)) == [(165, sample("beside b", 10, 60))]


def test_noise_above_the_limit_gives_no_sample_until_more_blocks_narrow_it() -> None:
    noisy = list(islice(blocks(Training(1, 0.3).messages(seed=3)), 200))
    [(wide_at, _), *_] = feed(PhaseTracker("alone"), noisy)
    narrow = PhaseRules(max_ci_permille=40)
    [(narrow_at, found), *_] = feed(PhaseTracker("alone", narrow), noisy)
    assert narrow_at > wide_at
    assert found.rate.ci_permille <= 40
    assert feed(PhaseTracker("alone", PhaseRules(max_ci_permille=0)), noisy) == []
    tracker = PhaseTracker("alone", PhaseRules(max_ci_permille=0))
    feed(tracker, noisy)
    assert tracker.finish(math.inf) is None


def test_window_whose_interval_is_too_wide_is_evaluated_again_with_twice_the_blocks() -> None:
    tracker = PhaseTracker("alone", PhaseRules(warm_up_seconds=0))
    alternating = [Block(0, 3.0 * n, 3.0 * n + 3, 30, 2.0 if n % 2 else 4.0) for n in range(1, 100)]
    [(at, _), *_] = feed(tracker, alternating)
    assert at == alternating[2 * 20 - 1].ended + 12


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.15, 0.3])
@pytest.mark.parametrize("warm_up", [0.5, 2.0])
def test_slow_start_biases_the_first_sample_by_at_most_one_percent(
    noise: float, warm_up: float
) -> None:
    errors = []
    for seed in range(60):
        training = Training(10, noise, warm_up=warm_up)
        [(_, found), *_] = feed(PhaseTracker("alone"), blocks(until(400, training.messages(seed))))
        errors.append(found.rate.steps_per_second / 10 - 1)
    assert abs(sum(errors) / len(errors)) < 0.012


@pytest.mark.parametrize("every", [14, 20, 30, 60, 300])
def test_pauses_of_3_s_do_not_change_the_rate(every: float) -> None:
    training = Training(10, 0.05, pause_every=every)
    for seed in range(20):
        [(_, found), *_] = feed(PhaseTracker("alone"), blocks(until(600, training.messages(seed))))
        assert found.rate.steps_per_second == pytest.approx(10, rel=0.01)


def test_pauses_in_each_block_are_part_of_the_rate() -> None:
    training = Training(10, 0.05, pause_every=3, pause_seconds=1)
    [(_, found), *_] = feed(PhaseTracker("alone"), blocks(until(400, training.messages(1))))
    assert found.rate.steps_per_second == pytest.approx(10 * 2 / 3, rel=0.05)


def test_pauses_in_every_third_block_give_no_sample() -> None:
    irregular = [Block(0, 3.0 * n, 3.0 * n + 3, 30, 6.0 if n % 3 == 0 else 3.0) for n in range(400)]
    assert feed(PhaseTracker("alone"), irregular) == []


def test_stored_blocks_are_bounded_and_the_newest_are_kept() -> None:
    tracker = PhaseTracker("alone", PhaseRules(resample_seconds=1e6))
    feed(tracker, regular(0, 90))
    feed(tracker, regular(90, 9_000, steps=15))
    found = tracker.finish(10_000)
    assert found == sample("alone", 5, 3.0 * MAX_BLOCKS)


@pytest.mark.parametrize("value", [-1, math.nan])
def test_invalid_rule_is_rejected_with_its_name(value: float) -> None:
    with pytest.raises(InvalidInputError, match=f"guard_seconds: {value}; must be at least 0"):
        PhaseRules(guard_seconds=value)

"""The meter makes blocks of honest counts, and drops restarts, jumps, stalls and other senders."""

from collections.abc import Iterable
from typing import get_args

import pytest

from gputopo.api.profile import MeasurementState
from gputopo.throughput.blocks import Block
from gputopo.throughput.message import StepMessage
from gputopo.throughput.meter import CurrentRate, DropReason, RateState, StepMeter
from support.training import Training, received, until

START = 1000.0


def feed(
    meter: StepMeter, counts: Iterable[tuple[int, float]], *, run: str = "a", late: float = 0.0
) -> list[Block]:
    """Add counts of a sender whose clock was 0 when the agent's was 1000."""
    found = [meter.add(StepMessage(run, n, at), START + at + late) for n, at in counts]
    return [block for block in found if block]


def steady(begin: int, end: int, per_second: int = 10) -> list[tuple[int, float]]:
    """Return one count a second."""
    return [(per_second * at, float(at)) for at in range(begin, end + 1)]


def state(meter: StepMeter, at: float) -> RateState:
    return meter.current(START + at).state


def test_block_ends_with_the_first_count_after_three_seconds() -> None:
    meter = StepMeter()
    counts = [(10, 1.0), (25, 2.5), (39, 3.9), (42, 4.2), (80, 8.0)]
    assert feed(meter, counts) == [
        Block(0, 1001.0, 1004.2, 32, 3.2),
        Block(0, 1004.2, 1008.0, 38, 3.8),
    ]


def test_count_without_a_new_step_neither_ends_a_block_nor_counts_as_progress() -> None:
    meter = StepMeter()
    assert feed(meter, [(1, 0.0), (1, 3.0), (1, 39.0), (2, 40.0)]) == [
        Block(0, 1000.0, 1040.0, 1, 40.0)
    ]
    assert not meter.dropped


def test_new_rate_has_no_block_that_began_before() -> None:
    meter = StepMeter()
    feed(meter, steady(0, 60, per_second=10))
    assert meter.current(START + 60).steps_per_second == pytest.approx(10)
    meter.begin_rate(START + 61)
    assert meter.current(START + 61) == CurrentRate(RateState.WARM_UP)
    faster = [(600 + 20 * (at - 60), float(at)) for at in range(61, 121)]
    blocks = feed(meter, faster)
    assert blocks[0] == Block(0, START + 60, START + 63, 60, 3.0)  # samples have their own rules
    rate = meter.current(START + 120)
    assert rate.state is RateState.STEADY
    assert rate.steps_per_second == pytest.approx(20)


def test_repeated_message_changes_nothing() -> None:
    meter = StepMeter()
    twice = [count for count in steady(0, 9) for _ in range(2)]
    assert feed(meter, twice) == feed(StepMeter(), steady(0, 9))


@pytest.mark.parametrize(
    ("run", "steps", "seconds"), [("b", 60, 6.0), ("a", 49, 6.0), ("a", 60, 4.5), ("b", 1, 6.0)]
)
def test_new_run_and_smaller_steps_or_seconds_are_a_restart(
    run: str, steps: int, seconds: float
) -> None:
    meter = StepMeter()
    feed(meter, steady(0, 5))
    assert meter.add(StepMessage(run, steps, seconds), START + 6) is None
    assert meter.add(StepMessage(run, steps + 40, seconds + 4), START + 10) == Block(
        1, 1006.0, 1010.0, 40, 4.0
    )
    assert meter.dropped == {DropReason.RESTART: 1}


@pytest.mark.parametrize("jump", [-5.1, 5.1, 1e6])
def test_interval_with_a_clock_jump_is_dropped(jump: float) -> None:
    meter = StepMeter()
    feed(meter, [(0, 6.0), (10, 7.0)])
    assert feed(meter, [(2000, 207.0 + jump)], late=-jump) == []
    assert feed(meter, [(2040, 211.0 + jump)], late=-jump) == [Block(1, 1207.0, 1211.0, 40, 4.0)]
    assert meter.dropped == {DropReason.CLOCK_JUMP: 1}


def test_agent_that_polls_five_seconds_late_drops_nothing() -> None:
    meter = StepMeter()
    feed(meter, steady(0, 3))
    assert feed(meter, steady(4, 9), late=5.0)
    assert not meter.dropped


def test_sender_whose_clock_runs_at_half_the_speed_never_gets_a_long_segment() -> None:
    meter = StepMeter()
    found = [meter.add(StepMessage("a", 10 * n, n / 2), START + n) for n in range(600)]
    segments = [block.segment for block in found if block]
    assert meter.dropped[DropReason.CLOCK_JUMP] > 50
    assert max(segments.count(each) for each in segments) <= 2


def test_stall_is_reported_and_dropped() -> None:
    meter = StepMeter()
    feed(meter, steady(0, 31))
    assert state(meter, 31 + 60) is RateState.STEADY
    assert meter.current(START + 31 + 61) == CurrentRate(RateState.STALLED)
    assert feed(meter, [(311, 151.0)]) == []
    assert meter.dropped == {DropReason.STALL: 1}
    assert meter.current(START + 151) == CurrentRate(RateState.WARM_UP)
    assert feed(meter, [(341, 154.0)]) == [Block(0, 1151.0, 1154.0, 30, 3.0)]


def test_job_with_steps_of_40_s_is_stalled_after_400_s() -> None:
    meter = StepMeter()
    feed(meter, [(n, 40.0 * n) for n in range(12)])
    assert state(meter, 440 + 400) is RateState.STEADY
    assert state(meter, 440 + 401) is RateState.STALLED


def test_first_step_may_take_ten_minutes() -> None:
    meter = StepMeter()
    feed(meter, [(0, 0.0)])
    assert state(meter, 600) is RateState.WARM_UP
    assert state(meter, 601) is RateState.STALLED
    assert feed(meter, [(1, 590.0)]) == [Block(0, 1000.0, 1590.0, 1, 590.0)]


def test_steps_that_become_a_hundred_times_slower_are_measured_again() -> None:
    meter = StepMeter()
    feed(meter, steady(0, 60))
    assert len(feed(meter, [(600 + n, 60 + 90.0 * n) for n in range(1, 6)])) == 4
    assert meter.dropped == {DropReason.STALL: 1}


def test_more_than_a_million_steps_per_second_are_dropped() -> None:
    meter = StepMeter()
    assert feed(meter, [(0, 0.0), (4_000_001, 4.0), (4_000_041, 8.0)]) == [
        Block(0, 1004.0, 1008.0, 40, 4.0)
    ]
    assert meter.dropped == {DropReason.IMPLAUSIBLE: 1}


@pytest.mark.parametrize("ranks", [2, 8])
def test_ranks_that_all_send_are_several_senders(ranks: int) -> None:
    meter = StepMeter()
    for step in range(4):
        for rank in range(ranks):
            feed(meter, [(10 * step, float(step))], run=f"rank-{rank}", late=0.1 * rank)
    assert meter.current(START + 4) == CurrentRate(RateState.SEVERAL_SENDERS)


def test_second_sender_that_is_slow_is_found() -> None:
    meter = StepMeter()
    found = []
    for minute in range(5):
        found += feed(meter, [(minute, 60.0 * minute)], run="slow")
        found += feed(meter, steady(60 * minute + 1, 60 * minute + 59), run="fast")
    assert state(meter, 300) is RateState.SEVERAL_SENDERS
    assert max(block.ended for block in found) < START + 120
    assert meter.dropped[DropReason.SEVERAL_SENDERS] > 20


def test_several_senders_clear_after_five_minutes_with_one_sender() -> None:
    meter = StepMeter()
    for n in range(3):
        feed(meter, [(n, float(n))], run="a")
        feed(meter, [(n, float(n))], run="b")
    feed(meter, steady(3, 302))
    assert state(meter, 302) is RateState.SEVERAL_SENDERS
    assert state(meter, 303) is RateState.WARM_UP
    assert feed(meter, steady(303, 340))
    assert state(meter, 340) is RateState.STEADY


@pytest.mark.parametrize("behind", [1, 400])
def test_ranks_with_different_counts_in_one_log_are_several_senders(behind: int) -> None:
    meter = StepMeter()
    for step in range(500, 504):
        feed(meter, [(step, step / 2), (step - behind, step / 2 + 0.01)])
    assert state(meter, 252) is RateState.SEVERAL_SENDERS
    feed(meter, [(1000 + at, float(at)) for at in range(253, 552)])
    assert state(meter, 551) is RateState.SEVERAL_SENDERS
    assert state(meter, 552) is RateState.WARM_UP


def test_ranks_with_different_counts_and_slow_steps_are_no_several_senders_by_chance() -> None:
    meter = StepMeter()
    for step in range(500, 510):
        feed(meter, [(step, step * 160.0), (step - 1, step * 160.0 + 1)])
    assert state(meter, 509 * 160.0 + 2) is RateState.WARM_UP


@pytest.mark.parametrize("late", [6.0, -6.0])
def test_changes_of_the_clock_of_one_sender_are_no_several_senders(late: float) -> None:
    meter = StepMeter()
    for turn in range(6):
        begin = 20 * turn
        feed(meter, steady(begin, begin + 9), late=late * (turn % 2))
    assert meter.dropped[DropReason.CLOCK_JUMP] >= 3
    assert state(meter, 110) is not RateState.SEVERAL_SENDERS


def test_counter_that_starts_again_is_one_sender() -> None:
    meter = StepMeter()
    for restart in range(20):  # from a checkpoint
        feed(meter, [(5 * restart + at, 10.0 * restart + at) for at in range(9)])
    feed(meter, [(at, 200.0 + at) for at in range(9)])  # from the start
    assert state(meter, 209) is RateState.WARM_UP
    assert meter.dropped == {DropReason.RESTART: 20}


def test_program_that_crashes_and_restarts_is_one_sender() -> None:
    meter = StepMeter()
    for restart in range(50):
        feed(meter, steady(10 * restart, 10 * restart + 9), run=f"run-{restart}")
    assert state(meter, 500) is RateState.WARM_UP
    assert meter.dropped == {DropReason.RESTART: 49}


def test_current_rate_gets_an_interval_after_ten_blocks() -> None:
    meter = StepMeter()
    assert meter.current(START) == CurrentRate(RateState.NO_DATA)
    feed(meter, steady(0, 2))
    assert meter.current(START + 2) == CurrentRate(RateState.WARM_UP)
    feed(meter, steady(3, 29))
    assert meter.current(START + 29) == CurrentRate(RateState.WARM_UP, 10.0)
    feed(meter, steady(30, 30))
    assert meter.current(START + 30) == CurrentRate(RateState.STEADY, 10.0, 1)


def test_job_that_becomes_slower_warms_up_again() -> None:
    meter = StepMeter()
    for message in until(100, Training(10, 0.05).messages(seed=1)):
        meter.add(message, received(message))
    assert state(meter, 100) is RateState.STEADY
    feed(meter, [(1000 + 5 * n, 101.0 + n) for n in range(30)])
    assert state(meter, 130) is RateState.WARM_UP


def test_states_of_the_meter_are_those_of_the_api() -> None:
    assert get_args(MeasurementState) == tuple(RateState)


@pytest.mark.parametrize("per_second", [0.025, 10_000])
def test_very_slow_and_very_fast_jobs_have_a_rate(per_second: float) -> None:
    meter = StepMeter()
    interval = max(1.0, 1 / per_second)
    feed(meter, [(round(per_second * interval * n), interval * n) for n in range(50)])
    assert meter.current(START + 49 * interval).steps_per_second == pytest.approx(per_second)


@pytest.mark.parametrize("seed", range(5))
def test_steady_job_does_not_warm_up_again_by_chance(seed: int) -> None:
    meter, states = StepMeter(), []
    for message in until(1800, Training(10, 0.05).messages(seed)):
        meter.add(message, received(message))
        states.append(state(meter, message.seconds))
    assert set(states[states.index(RateState.STEADY) :]) == {RateState.STEADY}

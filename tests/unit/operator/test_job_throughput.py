"""The throughput in the status of a GPUJob: what it shows, and how often it changes."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputopo.api.profile import Measurement, MeasurementState
from gputopo.api.v1alpha1 import JobThroughput
from gputopo_kube.measurements import parse_measured
from gputopo_operator.decision.throughput import rate_text, shown_rate
from support.builders.gpujobs import GPUS, exited
from support.operator.cluster_states import Situation


def measurement(rate: float | None = 12.4, ci_permille: int = 24, **fields: Any) -> Measurement:
    """Return a measurement of the pod ``train-1``, with this rate in steps per second."""
    return Measurement(
        namespace="default",
        pod="train-1",
        pod_uid=fields.pop("pod_uid", "uid-train-1"),
        container="main",
        gpus=3,
        source=fields.pop("source", "SDK"),
        state=fields.pop("state", "NoData" if rate is None else "Steady"),
        micro_steps_per_second=None if rate is None else round(rate * 1e6),
        ci_permille=None if rate is None else ci_permille,
    )


def running() -> Situation:
    """Return a GPUJob whose pod runs on its GPUs."""
    situation = Situation()
    situation.reconcile()
    situation.pod(node="n1", gpus=GPUS, phase="Running")
    situation.reconcile()
    return situation


def measured(situation: Situation, *found: Measurement) -> JobThroughput | None:
    """Return the throughput in the status after a reconciliation with these measurements."""
    situation.measured = {each.pod_uid: each for each in found}
    situation.reconcile()
    return situation.status.throughput


def test_status_shows_the_rate_of_the_current_pod_with_its_interval() -> None:
    situation = running()
    assert situation.status.throughput is None
    assert measured(situation, measurement(99.0, pod_uid="uid-other"), measurement()) == (
        JobThroughput(
            state="Steady",
            source="SDK",
            micro_steps_per_second=12_400_000,
            ci_permille=24,
            steps_per_second="12.4 ±0.3",
        )
    )


@pytest.mark.parametrize("state", ["NoData", "WarmUp", "Stalled", "SeveralSenders"])
def test_state_without_a_rate_is_shown_beside_the_last_rate(state: MeasurementState) -> None:
    situation = running()
    first = measured(situation, measurement(None, state=state))
    assert first == JobThroughput(state=state, source="SDK")
    measured(situation, measurement())
    after = measured(situation, measurement(None, state=state))
    assert after is not None
    assert (after.state, after.steps_per_second) == (state, f"12.4 ±0.3 ({state})")
    assert after.micro_steps_per_second == 12_400_000


def test_last_rate_stays_without_a_measurement_and_after_the_end() -> None:
    situation = running()
    shown = measured(situation, measurement())
    assert measured(situation) == shown
    situation.pod(node="n1", gpus=GPUS, **exited(0)).job_ended("Complete", "CompletionsReached")
    assert measured(situation) == shown
    situation.pods = []
    assert measured(situation) == shown


def test_rate_of_a_former_pod_is_not_shown() -> None:
    situation = running()
    measured(situation, measurement())
    situation.pod(node="n1", gpus=GPUS, **exited(1))
    situation.pod("train-2", node="n1", gpus=GPUS, created="2026-01-01T02:00:00Z")
    assert measured(situation, measurement()) is None
    later = measured(situation, measurement(7.0, pod_uid="uid-train-2"))
    assert later is not None
    assert later.steps_per_second == "7.0 ±0.2"


@pytest.mark.parametrize(
    ("found", "is_shown"),
    [
        (measurement(12.0, 33), False),
        (measurement(12.5, 24), False),
        (measurement(13.0, 31), True),
        (measurement(11.0, 33), True),
        (measurement(13.0, 62), False),
        (measurement(12.55, 1), True),
        (measurement(12.0, 17), False),
        (measurement(12.0, 16), True),
        (measurement(12.0, 33, source="Log"), True),
        (measurement(None, state="Stalled"), True),
    ],
    ids=[
        "the same",
        "4 %",
        "8 % without overlap",
        "-8 % without overlap",
        "8 % with overlap",
        "4.6 % and a much smaller interval",
        "an interval a little smaller",
        "half the interval",
        "another source",
        "another state",
    ],
)
def test_status_changes_only_with_a_clear_difference(found: Measurement, *, is_shown: bool) -> None:
    situation = running()
    before = measured(situation, measurement(12.0, 33))
    assert (measured(situation, found) != before) is is_shown


def test_narrow_interval_is_not_replaced_by_a_narrower_one() -> None:
    situation = running()
    before = measured(situation, measurement(12.0, 20))
    assert measured(situation, measurement(12.0, 1)) == before


def test_steady_job_of_a_day_causes_few_writes() -> None:
    """With a new rate every 30 s, of 2 to 10 % noise, under 1 % of the updates are written."""
    for noise in (0.02, 0.1):
        randomness, situation, writes = random.Random(1), running(), 0  # noqa: S311
        for number in range(2_880):
            # The interval shrinks while the agent collects blocks: 2 noise / sqrt(blocks).
            half = 2 * noise / min(number + 2, 30) ** 0.5
            rate = 12.0 * (1 + randomness.gauss(0, half / 2))
            situation.measured = {"uid-train-1": measurement(rate, round(1000 * half))}
            if (plan := situation.plan()).status is not None:
                situation.write(plan)
                writes += 1
        assert 1 <= writes <= 28, noise


def test_measurement_without_a_rate_in_a_steady_state_keeps_the_last_rate() -> None:
    situation = running()
    odd = measurement(None, state="Steady")
    assert measured(situation, odd) == JobThroughput(state="Steady", source="SDK")
    assert shown_rate(situation.status) is None
    shown = measured(situation, measurement())
    assert measured(situation, odd) == shown


@pytest.mark.parametrize(
    ("found", "rate"),
    [
        (None, None),
        (measurement(), 12.4),
        (measurement(None, state="WarmUp"), None),
        (measurement(None, state="Stalled"), None),
    ],
)
def test_metric_has_the_rate_of_a_steady_running_job_only(
    found: Measurement | None, rate: float | None
) -> None:
    situation = running()
    measured(situation, *([found] if found else []))
    assert shown_rate(situation.status) == rate
    situation.pod(node="n1", gpus=GPUS, **exited(0)).job_ended("Complete", "CompletionsReached")
    situation.reconcile()
    assert shown_rate(situation.status) is None


@pytest.mark.parametrize(
    ("rate", "ci_permille", "text"),
    [
        (12_432_000, 24, "12.4 ±0.3"),
        (12_400_000, 0, "12.40 ±0.00"),
        (12_000_000, 900, "12 ±11"),
        (1_234_000_000, 24, "1234 ±30"),
        (10_000, 3, "0.0100 ±0.0000"),
        (4_200, 100, "0.0042 ±0.0004"),
        (0, 0, "0 ±0"),
        (2**63 - 1, 2**31 - 1, "9.2e+12 ±2e+19"),
    ],
)
def test_interval_decides_the_decimals_of_a_rate(rate: int, ci_permille: int, text: str) -> None:
    assert rate_text(rate, ci_permille) == text


@given(
    rate=st.integers(0, 2**63 - 1) | st.integers(0, 10**12),
    ci_permille=st.integers(0, 2**31 - 1) | st.integers(0, 1000),
)
def test_text_of_any_rate_and_state_fits_its_field(rate: int, ci_permille: int) -> None:
    text = f"{rate_text(rate, ci_permille)} (SeveralSenders)"
    assert JobThroughput(state="Steady", source="SDK", steps_per_second=text)


def test_measurement_of_a_newer_agent_is_skipped() -> None:
    known = measurement().to_json()
    second = {**known, "container": "other", "microStepsPerSecond": 1}
    topology = {"status": {"measurements": [{**known, "state": "Idle"}, known, second]}}
    assert parse_measured(topology) == {"uid-train-1": measurement()}
    assert parse_measured({"status": {}}) == {}

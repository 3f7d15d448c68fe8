"""A GPU is free when the processes of its last container are gone, not when the pod object is."""

import pytest

from faulttest import delete_node, force_delete
from faulttest.scenario import Options, Outcome
from longruns import LONG
from scenarios import CarryOut

pytestmark = pytest.mark.e2e

START_LIMIT_SECONDS = 30.0
"""Longer than the limit of ``tools/faults``, for a machine that runs other tests meanwhile."""


def _options(rounds: int) -> Options:
    return Options(rounds=rounds, start_limit_seconds=START_LIMIT_SECONDS)


def _assert_started_in_time(outcome: Outcome) -> None:
    assert outcome.findings == {}
    assert outcome.seen["second pods that ran"] == outcome.seen["rounds"]
    latest = outcome.seen["longest start after the last process's end"]
    assert isinstance(latest, float)
    assert 0 <= latest <= START_LIMIT_SECONDS


def test_a_pod_waits_for_the_processes_of_a_pod_that_was_deleted_by_force(
    carry_out: CarryOut,
) -> None:
    rounds = len(force_delete.VARIANTS)
    outcome = carry_out(force_delete.carry_out, _options(rounds))
    _assert_started_in_time(outcome)
    assert outcome.seen["rounds"] == rounds
    lingered = outcome.seen["longest life of a process of a deleted pod"]
    assert isinstance(lingered, float)
    assert lingered > 5


@LONG
def test_a_pod_waits_for_the_processes_of_a_pod_whose_node_was_deleted(
    carry_out: CarryOut,
) -> None:
    _assert_started_in_time(carry_out(delete_node.carry_out, _options(rounds=1)))

"""A status with impossible values is read without them, and the first of them is reported."""

from typing import Any

import pytest

from gputopo.api.ensemble import GPUEnsembleStatus
from gputopo.api.model import ApiModel
from gputopo.api.readable import readable_status
from gputopo.api.v1alpha1 import GPUJobStatus

COMPLETE = {
    "type": "Complete",
    "status": "True",
    "reason": "Done",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


@pytest.mark.parametrize("status", [None, {}, {"phase": "Running", "conditions": [COMPLETE]}])
def test_valid_status_is_read_unchanged(status: dict[str, Any] | None) -> None:
    found, error = readable_status(GPUJobStatus, status)
    assert (found, error) == (GPUJobStatus.model_validate(status or {}), "")


@pytest.mark.parametrize("time", ["2026-99-99T99:99:99Z", "0000-01-01T00:00:00Z", "today"])
def test_impossible_time_is_unknown_and_the_rest_is_kept(time: str) -> None:
    queue = {"waitingSince": time, "ranSeconds": 7}
    found, error = readable_status(GPUJobStatus, {"conditions": [COMPLETE], "queue": queue})
    assert [each.type for each in found.conditions] == ["Complete"]
    assert found.queue is not None
    assert (found.queue.waiting_since, found.queue.ran_seconds) == (None, 7)
    assert error.startswith(f"status.queue.waitingSince: '{time}': ")
    assert queue["waitingSince"] == time, "the input must not change"


def test_list_item_without_a_required_value_is_left_out() -> None:
    bad = {"name": "a", "phase": "Flying", "startingSince": "2026-13-01T00:00:00Z"}
    good = {"name": "b", "phase": "Waiting"}
    found, error = readable_status(GPUEnsembleStatus, {"members": [bad, good], "plan": {"time": 1}})
    assert [each.name for each in found.members] == ["b"]
    assert found.plan is None
    assert error


class Status(ApiModel):
    count: int | list[int] = 0
    phase: str = ""


def test_value_of_several_types_is_left_out() -> None:
    found, error = readable_status(Status, {"count": "many", "phase": "Running"})
    assert found == Status(phase="Running")
    assert error.startswith("status.count")

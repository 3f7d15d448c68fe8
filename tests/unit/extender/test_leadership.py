"""Whether the kube-scheduler of this pod leads, as its metric shows it."""

from typing import Any

import pytest

from gputopo_extender.handover.leadership import Leadership, leading_pod
from gputopo_extender.state.ledger import Ledger
from gputopo_extender.verbs.metrics import Metrics


def lease(identity: str | None = "own_5a7e", renewed: str = "10:00", seconds: int = 10) -> Any:
    spec = {"holderIdentity": identity, "renewTime": renewed, "leaseDurationSeconds": seconds}
    return {"spec": spec}


@pytest.mark.parametrize("found", [None, {}, {"spec": {}}, lease(None), lease("taken-by-other")])
def test_lease_without_the_identity_of_a_scheduler_has_no_leader(found: Any) -> None:
    assert leading_pod(found) == ""
    leadership = Leadership("own")
    leadership.record(found, 5)
    assert leadership.is_held(5) is None


def test_leader_leads_until_it_has_not_renewed_its_lease_for_its_duration() -> None:
    leadership = Leadership("own")
    assert leadership.is_held(0) is None, "not read yet"
    leadership.record(lease(), 5)
    leadership.record(lease(), 12)
    assert leadership.is_held(14.9)
    assert not leadership.is_held(15)
    leadership.record(lease(renewed="10:08"), 16)
    assert leadership.is_held(25)


def test_lease_of_another_scheduler_or_without_a_duration_is_not_held() -> None:
    leadership = Leadership("own")
    leadership.record(lease("other_5a7e"), 0)
    assert leadership.is_held(1) is False
    assert leadership.is_held(10) is None, "the other one has not renewed it"
    leadership.record({"spec": {"holderIdentity": "own_5a7e"}}, 1)
    assert leadership.is_held(1) is None


def test_metric_is_served_once_there_is_a_scheduler() -> None:
    metrics, leads = Metrics(Ledger(), []), list[bool | None]([True])
    assert metrics.registry.get_sample_value("gputopo_scheduler_leader") is None
    metrics.watch_leader(lambda: leads[0])
    assert metrics.registry.get_sample_value("gputopo_scheduler_leader") == 1
    for value in (False, None):
        leads[0] = value
        assert metrics.registry.get_sample_value("gputopo_scheduler_leader") == 0
        known = metrics.registry.get_sample_value("gputopo_scheduler_leader_known")
        assert known == (value is not None)

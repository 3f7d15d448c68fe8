"""One part of the cluster fails at a time: the short forms of the scenarios of ``tools/faults``."""

import pytest

from faulttest import api_loss, checkpoint, list_flood, nvml_hang, other_plugin, patched_pod, quota
from faulttest import stale_watch as stale
from faulttest.scenario import Options
from longruns import LONG
from scenarios import CarryOut

pytestmark = pytest.mark.e2e


def test_all_gpus_are_unhealthy_while_nvml_does_not_respond(carry_out: CarryOut) -> None:
    outcome = carry_out(nvml_hang.carry_out, Options(seconds=20))
    assert outcome.findings == {}
    assert outcome.seen["/livez failed"] is True


def test_an_agent_without_the_api_server_offers_no_free_gpus(carry_out: CarryOut) -> None:
    outcome = carry_out(api_loss.carry_out, Options(seconds=50))
    assert outcome.findings == {}
    assert outcome.seen["pods that ran before and still run"] == 6


@LONG
def test_no_pod_fails_or_preempts_others_while_the_extender_is_late(carry_out: CarryOut) -> None:
    outcome = carry_out(stale.carry_out, Options(rounds=8))
    assert outcome.findings == {}
    assert outcome.seen["rounds"] == 8


def test_no_pod_fails_while_kubelet_lacks_records_of_running_pods(carry_out: CarryOut) -> None:
    outcome = carry_out(checkpoint.carry_out, Options(seconds=10))
    assert outcome.findings == {}


def test_no_pod_fails_while_kubelet_limits_pod_resources_lists(carry_out: CarryOut) -> None:
    outcome = carry_out(list_flood.carry_out, Options(rounds=1))
    assert outcome.findings == {}
    assert outcome.seen["pods that ran"] == 8


def test_a_pod_that_is_patched_all_the_time_is_bound(carry_out: CarryOut) -> None:
    assert carry_out(patched_pod.carry_out, Options(rounds=8)).findings == {}


def test_a_node_offers_no_gpus_beside_another_plugin_or_driver(carry_out: CarryOut) -> None:
    assert carry_out(other_plugin.carry_out, Options()).findings == {}


def test_a_job_whose_profile_exceeds_a_quota_reports_that(carry_out: CarryOut) -> None:
    assert carry_out(quota.carry_out, Options()).findings == {}

"""The operator compares measured speeds of pods that share a GPU, and ends what does not pay."""

from collections.abc import Callable

import pytest

from gputopo.api.names import (
    SHARING_IF_SLOW_ANNOTATION,
    SHARING_MAX_SLOWDOWN_ANNOTATION,
)
from gputopo_kube.errors import UnavailableError
from gputopo_kube.sync import SyncApi
from gputopo_operator.controller.job_api import JobApi
from gputopo_operator.controller.sharing_api import SharingApi
from gputopo_operator.controller.sharing_judge import CHECK_SECONDS, SharingJudge
from gputopo_operator.metrics import OperatorMetrics
from gputopo_operator.settings import OperatorSettings
from support.api.faults import Fault
from support.api.server import ApiServer
from support.builders.objects import Document
from support.operator.nodes import listed_nodes, stored_nodes
from support.operator.sharing import GPU, SharedGpuOfNode, profile_of

MOVE = {SHARING_IF_SLOW_ANNOTATION: "Move"}
JUDGE_SECONDS = 60.0


class JudgedNode(SharedGpuOfNode):
    """The shared GPU, and the operator that judges it."""

    def __init__(self, api: ApiServer, connection: SyncApi) -> None:
        super().__init__(api)
        self.now = 100.0
        self.metrics = OperatorMetrics()
        settings = OperatorSettings(sharing_judge_seconds=JUDGE_SECONDS)
        objects = JobApi(connection)
        self.nodes = listed_nodes(objects)
        self.judge = SharingJudge(
            SharingApi(connection),
            objects,
            self.nodes,
            self.metrics,
            settings,
            lambda: self.now,
        )

    def wait(self) -> float | None:
        """Judge twice: now and after the time for which a sharing must not pay."""
        self.judge.advance("n1")
        self.now += JUDGE_SECONDS
        return self.judge.advance("n1")

    def ended(self, result: str) -> float | None:
        name = "gputopo_operator_ended_sharings_total"
        return self.metrics.registry.get_sample_value(name, {"result": result})


@pytest.fixture
def node(api: ApiServer, connection: SyncApi) -> JudgedNode:
    return JudgedNode(api, connection)


def test_last_pod_is_evicted_if_the_sum_of_speeds_is_below_one(node: JudgedNode) -> None:
    node.add("first", 4)
    node.add("last", 3, MOVE)
    assert node.judge.advance("n1") == CHECK_SECONDS
    node.now += JUDGE_SECONDS - 1
    node.judge.advance("n1")
    assert node.pods == ["first", "last"], "the stated time is not over"
    node.now += 1
    node.judge.advance("n1")
    assert node.pods == ["first"]
    ((name, reason, note),) = node.events
    assert (name, reason) == ("last", "MovedFromSharedGPU")
    assert f"sharing {GPU.uuid} with default/first does not pay" in note
    assert "0.70" in note
    assert (node.ended("moved"), node.ended("reported")) == (1, 0)


def test_pod_whose_newest_rate_is_good_is_not_evicted(node: JudgedNode) -> None:
    node.add("first", 4)
    node.add("last", 3, MOVE)
    # The connection of the operator's watch is lost.
    node.nodes.reports = stored_nodes(node.api.all("gputopologies")).reports
    node.rates = {"first": 9, "last": 9}
    node.publish()
    node.wait()
    assert node.pods == ["first", "last"]
    node.api.delete("gputopologies", "n1")
    node.judge.advance("n1")
    assert node.pods == ["first", "last"]
    node.rates = {"first": 4, "last": 3}
    node.publish()
    node.judge.advance("n1")
    assert node.pods == ["first"]


def test_pod_that_does_not_allow_it_is_reported_once(node: JudgedNode) -> None:
    node.add("first", 4, MOVE)
    node.add("last", 3)
    for _ in range(3):
        node.wait()
    assert node.pods == ["first", "last"]
    ((name, reason, note),) = node.events
    assert (name, reason) == ("last", "SharingDoesNotPay")
    assert note.endswith("because it does not say gputopo.io/sharing-if-slow: Move")
    assert node.ended("reported") == 1


def test_pod_above_its_own_limit_ends_a_sharing_that_pays_otherwise(node: JudgedNode) -> None:
    node.add("first", 6, {SHARING_MAX_SLOWDOWN_ANNOTATION: "50"})
    node.add("last", 9, MOVE)
    node.wait()
    assert node.pods == ["first"]
    assert "default/first takes 67 % longer, at most 50 %" in node.events[0][2]


def test_sharing_that_pays_stays(node: JudgedNode) -> None:
    node.add("first", 7)
    node.add("last", 8, MOVE)
    assert node.wait() == CHECK_SECONDS
    assert (node.pods, node.events) == (["first", "last"], [])


def test_time_begins_again_after_a_check_with_gain(node: JudgedNode) -> None:
    node.add("first", 6)
    node.add("last", 3, MOVE)
    node.judge.advance("n1")
    node.rates = {"first": 9, "last": 9}
    node.publish()
    node.wait()
    node.rates["last"] = 3
    node.publish()
    node.judge.advance("n1")
    node.now += JUDGE_SECONDS - 1
    node.judge.advance("n1")
    assert node.pods == ["first", "last"]


@pytest.mark.parametrize(
    ("rate", "solo"),
    [pytest.param(None, 10, id="rate-unknown"), pytest.param(3, None, id="no-profile")],
)
def test_unknown_speeds_end_nothing(node: JudgedNode, rate: int | None, solo: int | None) -> None:
    node.add("first", 4)
    node.add("last", rate, MOVE, solo=solo)
    node.wait()
    assert (node.pods, node.events) == (["first", "last"], [])


def test_rates_alone_on_another_gpu_model_do_not_count(node: JudgedNode) -> None:
    node.add("first", 4)
    node.add("last", 3, MOVE)
    profile = profile_of("last", 10)
    profile["status"]["facts"]["gpuModel"] = "another"
    node.api.put("gpuprofiles", profile)
    node.wait()
    assert node.pods == ["first", "last"]


def test_profile_without_facts_or_that_was_deleted_ends_nothing(node: JudgedNode) -> None:
    node.add("first", 4)
    node.add("last", 3, MOVE)
    node.api.delete("gpuprofiles", "first")
    node.api.put("gpuprofiles", profile_of("last", 10) | {"status": {}})
    node.wait()
    assert node.pods == ["first", "last"]


@pytest.mark.parametrize(
    ("status", "message"),
    [(403, "no right"), (429, "Cannot evict pod as it would violate the budget of the pod")],
)
def test_eviction_that_is_rejected_is_reported_and_tried_again(
    node: JudgedNode, status: int, message: str
) -> None:
    node.add("first", 4)
    node.add("last", 3, MOVE)
    node.api.faults.append(Fault("POST", "eviction", status, message, times=None))
    node.wait()
    node.wait()
    assert node.pods == ["first", "last"]
    ((_, reason, note),) = node.events
    assert reason == "SharingDoesNotPay"
    text = "the pod stays, because its eviction was rejected, trying again: API server: "
    assert note.endswith(f"{text}{status}: {message}")
    node.api.faults.clear()
    node.judge.advance("n1")
    assert node.pods == ["first"], "tried again at the next check"


def test_pod_that_was_deleted_meanwhile_counts_as_moved(node: JudgedNode) -> None:
    node.add("first", 4)
    node.add("last", 3, MOVE)
    node.api.faults.append(Fault("POST", "eviction", 404, "not found"))
    node.wait()
    assert node.events[0][1] == "MovedFromSharedGPU"


def test_api_server_that_does_not_respond_is_tried_again_later(node: JudgedNode) -> None:
    node.add("first", 4)
    node.add("last", 3, MOVE)
    node.api.faults.append(Fault("POST", "eviction", 503))
    with pytest.raises(UnavailableError):
        node.wait()
    node.judge.advance("n1")
    assert node.pods == ["first"]


def change_last(node: JudgedNode, change: Callable[[Document], None]) -> None:
    node.api.change("pods", "last", change)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            lambda pod: pod["metadata"].update(deletionTimestamp="2026-01-01T00:01:00Z"),
            id="deleting",
        ),
        pytest.param(lambda pod: pod["status"].update(phase="Succeeded"), id="ended"),
        pytest.param(
            lambda pod: pod["metadata"]["annotations"].update(
                {SHARING_MAX_SLOWDOWN_ANNOTATION: "much"}
            ),
            id="annotation-changed-to-a-wrong-value",
        ),
        pytest.param(lambda pod: pod["metadata"].update(uid=""), id="not-a-pod"),
    ],
)
def test_gpu_whose_pods_are_not_all_known_is_not_judged(
    node: JudgedNode, change: Callable[[Document], None]
) -> None:
    node.add("first", 4)
    node.add("last", 3, MOVE)
    change_last(node, change)
    assert node.wait() is None
    assert (node.pods, node.events) == (["first", "last"], [])


def test_node_without_sharing_pods_or_topology_is_forgotten(node: JudgedNode) -> None:
    node.add("first", 4)
    assert node.judge.advance("n1") is None, "one pod shares with none"
    assert node.judge.advance("unknown") is None
    node.api.delete("pods", "first")
    assert node.judge.advance("n1") is None


def test_nothing_is_kept_of_pods_that_no_longer_share_a_gpu(node: JudgedNode) -> None:
    node.add("first", 4)
    node.add("last", 3)
    node.wait()
    assert node.judge._reported["n1"]
    node.add("third", 3)
    node.judge.advance("n1")
    assert not node.judge._reported["n1"], "another set of pods"
    node.wait()
    node.rates = {"first": 4}
    node.publish()
    assert node.judge.advance("n1") is None
    assert not node.judge._reported
    assert not node.judge._bad_since

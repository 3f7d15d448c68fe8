"""A started job whose pod cannot be created gives its GPUs back, and is tried again later."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest

from gputopo.queueing.model import QueueOrder, QueueRules
from gputopo.runtime.times import timestamp
from gputopo_kube.document import ObjectKey
from gputopo_kube.sync import SyncApi
from gputopo_operator.controller.job_api import JobApi
from gputopo_operator.controller.job_queue_api import JobQueueApi
from gputopo_operator.controller.job_queue_starter import JobQueueStarter
from gputopo_operator.controller.node_store import NodeStore
from gputopo_operator.controller.pod_creation import MOST_READ, READ_SECONDS
from gputopo_operator.controller.reconciler import Reconciler
from gputopo_operator.metrics import OperatorMetrics
from gputopo_operator.model.jobs import PodDefaults
from support.api.faults import Fault, Hook
from support.api.server import ApiServer
from support.builders.gpujobs import Document, job_pod
from support.operator.nodes import stored_nodes
from support.operator.queue import QueuedCluster, node, plain_node

BEGIN = datetime.fromisoformat("2026-01-01T01:00:00Z")
QUOTA = 'Error creating: pods "blocked-x7x2p" is forbidden: exceeded quota: none'
GPU = "gputopo.io/gpu"
CONTROLLER = "batch.kubernetes.io/controller-uid"


@dataclass
class Cluster:
    """A node with 2 GPUs, a queue, and the Job controller as far as a test plays it."""

    api: ApiServer
    starter: JobQueueStarter
    reconciler: Reconciler
    metrics: OperatorMetrics
    seconds: list[float] = field(default_factory=lambda: [0.0])

    @property
    def now(self) -> str:
        return self.at(self.seconds[0])

    @staticmethod
    def at(seconds: float) -> str:
        return timestamp(BEGIN + timedelta(seconds=seconds))

    def job(self, name: str, gpus: int = 2, created: float = -60) -> None:
        made = QueuedCluster()
        made.job(name, gpus, created=self.at(created))
        self.api.put("gpujobs", made.jobs[name])
        self.api.put("jobs", made.children[name])

    def advance(self, seconds: float = 0.0) -> float | None:
        """Let time pass; then the Job controller, the queue and the reconciler work once."""
        self.seconds[0] += seconds
        self.see_starts()
        wait = self.starter.advance("queue")
        self.see_starts()
        for job in self.api.all("gpujobs"):
            self.reconciler.reconcile(ObjectKey.of(job))
        return wait

    def see_starts(self) -> None:
        for child in self.api.all("jobs"):
            status, suspended = child.get("status") or {}, child["spec"]["suspend"]
            was = any(each["status"] == "True" for each in status.get("conditions") or ())
            if suspended != was or (not suspended and "startTime" not in status):
                self.set_started(child["metadata"]["name"], suspended=suspended)

    def set_started(self, name: str, *, suspended: bool) -> None:
        condition = {
            "type": "Suspended",
            "status": "True" if suspended else "False",
            "lastTransitionTime": self.now,
        }

        def change(child: Document) -> None:
            status = child.setdefault("status", {})
            status["conditions"] = [condition]
            if not suspended:
                status["startTime"] = self.now

        self.api.change("jobs", name, change)

    def fail(
        self, name: str, at: float | None = None, message: str = QUOTA, **fields: object
    ) -> None:
        """Report, as the Job controller does, that the pod of a Job could not be created."""
        child = self.api.get("jobs", name)
        assert child is not None
        time = self.at(self.seconds[0] if at is None else at)
        event = {
            "metadata": {"name": f"{name}.{len(self.api.all('events'))}", "namespace": "default"},
            "involvedObject": {"kind": "Job", "name": name, "uid": child["metadata"]["uid"]},
            "reason": "FailedCreate",
            "message": message,
            "source": {"component": "job-controller"},
            "firstTimestamp": time,
            "lastTimestamp": time,
        }
        self.api.put("events", {**event, **fields})

    def run_pod(self, name: str, at: float, *, ended: bool = False) -> None:
        child = self.api.get("jobs", name)
        assert child is not None
        phase, gpus = "Failed" if ended else "Running", ("GPU-n1-0", "GPU-n1-1")
        pod = job_pod(child, f"{name}-{at}", node="n1", phase=phase, gpus=gpus)
        pod["metadata"]["creationTimestamp"] = self.at(at)
        pod["spec"]["containers"][0]["resources"] = {"limits": {GPU: "2"}}
        self.api.put("pods", pod)

    def started(self, name: str) -> bool:
        child = self.api.get("jobs", name)
        assert child is not None
        return not child["spec"]["suspend"]

    def status(self, name: str) -> Document:
        job = self.api.get("gpujobs", name)
        assert job is not None
        status: Document = job["status"]
        return status

    def condition(self, name: str, type_: str) -> tuple[str, str, str]:
        found = next(each for each in self.status(name)["conditions"] if each["type"] == type_)
        return found["status"], found["reason"], found["message"]

    def reasons(self, name: str) -> list[str]:
        events = self.api.all("events")
        return [each["reason"] for each in events if each.get("regarding", {}).get("name") == name]


@pytest.fixture
def cluster(api: ApiServer, connection: SyncApi, job_api: JobApi) -> Cluster:
    nodes = stored_nodes([node("n1", 2)], [plain_node("n1")])
    metrics, seconds = OperatorMetrics(), [0.0]

    def now() -> str:
        return Cluster.at(seconds[0])

    rules = QueueRules(QueueOrder.FIFO, 3600)
    lists = JobQueueApi(connection, (), "gputopo")
    starter = JobQueueStarter(lists, job_api, nodes, metrics, rules, GPU, now)
    reconciler = Reconciler(job_api, nodes, PodDefaults(), metrics, now, queued=True)
    return Cluster(api, starter, reconciler, metrics, seconds)


def block(cluster: Cluster) -> None:
    """Start a job of 2 GPUs whose pod a quota forbids, and let another job wait behind it."""
    cluster.job("blocked", created=-120)
    cluster.job("other")
    cluster.advance()
    assert (cluster.started("blocked"), cluster.started("other")) == (True, False)
    cluster.fail("blocked", 1)


def test_job_whose_pod_a_quota_forbids_gives_its_gpus_to_the_next(cluster: Cluster) -> None:
    block(cluster)
    cluster.advance(59)
    assert cluster.started("blocked"), "it has a minute"
    wait = cluster.advance(2)
    assert (cluster.started("blocked"), cluster.started("other")) == (False, True)
    assert wait is not None
    assert wait <= 60
    queue = cluster.status("blocked")["queue"]
    assert queue["podError"] == QUOTA
    assert (queue["failedStarts"], queue["notBefore"]) == (1, cluster.at(61 + 60))
    assert queue["waitingSince"] == cluster.now
    assert QUOTA in queue["reason"]
    status, reason, message = cluster.condition("blocked", "Suspended")
    assert (status, reason) == ("True", "PodNotCreated")
    assert QUOTA in message
    assert cluster.status("blocked")["phase"] == "Queued"
    assert cluster.reasons("blocked").count("PodNotCreated") == 1
    count = "gputopo_operator_failed_starts_total"
    assert cluster.metrics.registry.get_sample_value(count) == 1


def test_job_keeps_its_gpus_while_the_controller_manager_is_down(cluster: Cluster) -> None:
    cluster.job("blocked", created=-120)
    cluster.job("other")
    cluster.advance()
    for _ in range(20):
        cluster.advance(60)
    assert (cluster.started("blocked"), cluster.started("other")) == (True, False)


def test_start_that_the_controller_manager_has_not_seen_is_kept(cluster: Cluster) -> None:
    block(cluster)
    cluster.advance(61)
    cluster.api.delete("jobs", "other")
    cluster.api.delete("gpujobs", "other")
    cluster.see_starts = lambda: None  # type: ignore[method-assign]
    cluster.fail("blocked", 90)
    cluster.advance(100)
    assert cluster.started("blocked")
    cluster.advance(1000)
    assert cluster.started("blocked"), "the event is one of the earlier start"


@pytest.mark.parametrize(
    "event",
    [
        {"source": {"component": "replicaset-controller"}},
        {"reason": "SuccessfulCreate"},
        {"firstTimestamp": "soon", "lastTimestamp": None},
        {"involvedObject": {"kind": "Job", "name": "blocked", "uid": "another"}},
    ],
)
def test_other_events_do_not_count(cluster: Cluster, event: Document) -> None:
    block(cluster)
    for each in cluster.api.all("events"):
        cluster.api.delete("events", each["metadata"]["name"])
    cluster.fail("blocked", 1, **event)
    cluster.advance(120)
    assert cluster.started("blocked")


def test_minute_begins_with_the_first_failure(cluster: Cluster) -> None:
    """The controller manager comes back after ten minutes, and a webhook comes back after it."""
    cluster.job("blocked", created=-120)
    cluster.advance()
    cluster.advance(600)
    cluster.fail("blocked", 590)
    cluster.advance(10)
    assert cluster.started("blocked")
    cluster.advance(60)
    assert not cluster.started("blocked")


def test_failure_before_the_newest_pod_does_not_count(cluster: Cluster) -> None:
    """The pod was created after all, and has failed: the Job controller waits before the next."""
    block(cluster)
    cluster.run_pod("blocked", 5, ended=True)
    cluster.advance(600)
    assert cluster.started("blocked")
    cluster.fail("blocked", 600)
    cluster.advance(10)
    assert cluster.started("blocked")
    cluster.advance(60)
    assert not cluster.started("blocked"), "a failure after the end of its pod counts"


def test_job_with_a_pod_is_left_alone(cluster: Cluster) -> None:
    block(cluster)
    cluster.run_pod("blocked", 5)
    cluster.advance(600)
    assert cluster.started("blocked")
    assert cluster.api.count("GET", "/events") == 0, "only jobs without a pod need their events"


def test_job_that_starts_no_pods_gives_its_gpus_back(cluster: Cluster) -> None:
    cluster.job("blocked")
    cluster.advance()
    cluster.api.change("jobs", "blocked", lambda job: job["spec"].update(parallelism=0))
    cluster.advance(61)
    assert not cluster.started("blocked")
    assert "parallelism" in cluster.status("blocked")["queue"]["podError"]


def test_retries_take_less_and_less_time(cluster: Cluster) -> None:
    block(cluster)
    finish(cluster, "other")
    started = 0
    delays = list[float]()
    for _ in range(2 * 3600 // 30):
        cluster.advance(30)
        queue = cluster.status("blocked").get("queue", {})
        if cluster.started("blocked"):
            started += 30
            cluster.fail("blocked")
        elif queue["failedStarts"] > len(delays):
            wait = datetime.fromisoformat(queue["notBefore"]) - datetime.fromisoformat(cluster.now)
            delays.append(wait.total_seconds())
    assert delays[:7] == [60, 120, 240, 480, 960, 1800, 1800]
    assert started <= 120 * (len(delays) + 1), "a minute each, seen every 30 seconds"


def finish(cluster: Cluster, name: str) -> None:
    cluster.api.delete("jobs", name)
    cluster.api.delete("gpujobs", name)


def test_younger_job_comes_first_after_a_failed_start(cluster: Cluster) -> None:
    block(cluster)
    cluster.advance(61)
    cluster.job("young", created=100)
    cluster.advance(60)
    assert not cluster.started("blocked")
    finish(cluster, "other")
    cluster.advance(1)
    assert (cluster.started("young"), cluster.started("blocked")) == (True, False)
    assert cluster.status("blocked")["queue"]["position"] == 1


def test_pod_that_is_created_ends_the_failures(cluster: Cluster) -> None:
    block(cluster)
    cluster.advance(61)
    finish(cluster, "other")
    cluster.advance(61)
    assert cluster.started("blocked")
    cluster.run_pod("blocked", 125)
    cluster.advance(10)
    assert cluster.status("blocked")["queue"].keys() == {"waitedSeconds"}
    assert cluster.condition("blocked", "Suspended")[1] == "Admitted"


def test_users_suspension_does_not_shorten_the_wait(cluster: Cluster) -> None:
    block(cluster)
    finish(cluster, "other")
    cluster.advance(61)
    for suspend in (True, False):
        cluster.api.change("gpujobs", "blocked", lambda job: job["spec"].update(suspend=suspend))  # noqa: B023
        cluster.advance(1)
    assert not cluster.started("blocked")
    assert cluster.status("blocked")["queue"]["failedStarts"] == 1


def test_operator_killed_before_the_suspension_counts_the_start_once(cluster: Cluster) -> None:
    block(cluster)
    cluster.api.faults.append(Fault("PATCH", "/jobs/blocked", 409))
    cluster.advance(61)
    assert cluster.started("blocked")
    before = cluster.status("blocked")["queue"]
    cluster.advance(1)
    assert not cluster.started("blocked")
    assert cluster.status("blocked")["queue"]["notBefore"] == before["notBefore"]
    assert cluster.status("blocked")["queue"]["failedStarts"] == 1


def test_owner_who_changes_the_job_all_the_time_keeps_no_gpus(cluster: Cluster) -> None:
    block(cluster)

    def change() -> None:
        cluster.api.change("jobs", "blocked", lambda job: job["metadata"].update(labels={}))

    cluster.api.hooks.append(Hook("PATCH", "/jobs/blocked", change))
    cluster.advance(61)
    assert not cluster.started("blocked")


def test_rejected_suspension_does_not_stop_the_queue(cluster: Cluster) -> None:
    block(cluster)
    cluster.api.faults.append(Fault("PATCH", "/jobs/blocked", 403, times=None))
    cluster.job("one", 2)
    cluster.advance(61)
    assert cluster.started("blocked")
    assert cluster.status("one")["queue"]["position"] == 1


def test_operator_that_may_not_read_events_goes_on(cluster: Cluster) -> None:
    block(cluster)
    cluster.api.faults.append(Fault("GET", "/events", 403, times=None))
    cluster.job("one", 2)
    cluster.advance(61)
    assert cluster.started("blocked")
    assert cluster.status("one")["queue"]["position"] == 1


@pytest.mark.parametrize("path", ["/events", "/pods.*controller-uid"])
@pytest.mark.parametrize("status", [404, 429, 504])
def test_failed_read_about_one_job_does_not_stop_the_queue(
    cluster: Cluster, path: str, status: int
) -> None:
    block(cluster)
    cluster.api.faults.append(Fault("GET", path, status, times=None))
    cluster.job("one", 2)
    cluster.seconds[0] = 61
    cluster.starter.advance("queue")
    assert cluster.started("blocked")
    assert cluster.status("one")["queue"]["position"] == 1


def test_pass_ends_its_reads_with_the_first_that_fails(cluster: Cluster) -> None:
    for name in ("one", "two"):
        cluster.job(name, 1)
        child_started(cluster, name)
    cluster.seconds[0] = 100
    cluster.api.faults.append(Fault("GET", "/events", 504, times=None))
    cluster.starter.advance("queue")
    assert cluster.api.count("GET", "/events") == 1, "each may take as long as the time limit"
    cluster.starter.advance("queue")
    assert cluster.api.count("GET", "/events") == 2, "next, the other job"


def test_earlier_failure_does_not_count_after_the_pod_was_deleted(cluster: Cluster) -> None:
    """A preempted pod is gone until the Job controller creates the next one."""
    block(cluster)
    cluster.run_pod("blocked", 5)
    cluster.advance(300)
    assert cluster.condition("blocked", "Placed")[0] == "True"
    for pod in cluster.api.all("pods"):
        cluster.api.delete("pods", pod["metadata"]["name"])
    for seconds in (1, 30, 300):
        cluster.advance(seconds)
        assert cluster.started("blocked")
    cluster.fail("blocked")
    cluster.advance(1)
    assert cluster.started("blocked")
    cluster.advance(60)
    assert not cluster.started("blocked"), "a failure without a pod counts"


@pytest.mark.parametrize(
    ("labels", "ended", "uid", "kept"),
    [
        ({"gputopo.io/job": "blocked"}, False, None, False),
        ({}, False, None, False),
        ({}, True, None, True),
        ({}, False, "another", True),
    ],
)
def test_pod_without_gpus_keeps_no_gpus_for_its_job(
    cluster: Cluster, *, labels: Document, ended: bool, uid: str | None, kept: bool
) -> None:
    cluster.job("blocked")
    cluster.advance()
    child = cluster.api.get("jobs", "blocked")
    assert child is not None
    pod = job_pod(child, "cheap", node="n1", phase="Failed" if ended else "Running")
    pod["metadata"]["creationTimestamp"] = cluster.at(1)
    pod["metadata"]["labels"] = {**labels, CONTROLLER: child["metadata"]["uid"]}
    pod["spec"]["schedulerName"] = "default-scheduler"
    pod["spec"]["containers"][0].pop("resources", None)
    if uid is not None:
        pod["metadata"]["ownerReferences"][0]["uid"] = uid
    cluster.api.put("pods", pod)
    cluster.advance(60)
    assert cluster.started("blocked"), "it may have a minute"
    cluster.advance(20)
    assert cluster.started("blocked") is kept
    if not kept:
        assert "no GPUs" in cluster.status("blocked")["queue"]["podError"]


def test_running_pod_of_an_unknown_format_keeps_its_gpus(cluster: Cluster) -> None:
    cluster.job("blocked")
    cluster.advance()
    cluster.run_pod("blocked", 1)
    name = cluster.api.all("pods")[0]["metadata"]["name"]

    def change(pod: Document) -> None:
        uid = pod["metadata"]["ownerReferences"][0]["uid"]
        pod["metadata"].setdefault("labels", {})[CONTROLLER] = uid
        pod["status"]["conditions"] = "newer"

    cluster.api.change("pods", name, change)
    cluster.seconds[0] += 300
    cluster.starter.advance("queue")
    assert cluster.started("blocked")


@pytest.mark.parametrize("spec", [{"managedBy": "example.com/none"}, {"manualSelector": True}])
def test_job_that_the_operator_has_not_created_keeps_no_gpus(
    cluster: Cluster, spec: Document
) -> None:
    cluster.job("blocked", created=-120)
    cluster.api.change("jobs", "blocked", lambda job: job["spec"].update(suspend=False, **spec))
    cluster.job("other")
    cluster.starter.advance("queue")
    assert cluster.started("other")


def test_only_some_events_are_read_in_one_pass(cluster: Cluster) -> None:
    number = MOST_READ + 5
    for index in range(number):
        cluster.job(f"job-{index}", 1)
        child_started(cluster, f"job-{index}")
    cluster.seconds[0] = 100

    def reads() -> int:
        cluster.starter.advance("queue")
        return cluster.api.count("GET", "/events")

    assert reads() == MOST_READ
    assert reads() == number, "next, those that were not read"
    assert reads() == number, "all were read"
    cluster.seconds[0] += READ_SECONDS
    assert reads() == number + MOST_READ


def child_started(cluster: Cluster, name: str) -> None:
    cluster.api.change("jobs", name, lambda job: job["spec"].update(suspend=False))
    cluster.set_started(name, suspended=False)


def test_job_outside_the_queue_shows_the_error(cluster: Cluster, job_api: JobApi) -> None:
    plain = Reconciler(job_api, NodeStore(), PodDefaults(), cluster.metrics, lambda: cluster.now)
    cluster.job("plain")
    child_started(cluster, "plain")
    key = ObjectKey("default", "plain")
    assert plain.reconcile(key) == 70, "the first failure is a minute old"
    cluster.fail("plain", 1)
    assert cluster.condition("plain", "Placed")[1] == "NoPod"
    cluster.seconds[0] = 61
    assert plain.reconcile(key) == 9
    assert cluster.condition("plain", "Placed")[:2] == ("False", "PodNotCreated")
    assert QUOTA in cluster.condition("plain", "Placed")[2]
    cluster.seconds[0] = 75
    assert plain.reconcile(key) == 60
    cluster.run_pod("plain", 80)
    plain.reconcile(key)
    assert cluster.condition("plain", "Placed")[1] != "PodNotCreated"


def test_tenant_of_new_jobs_without_pods_holds_the_gpus_of_one_job(cluster: Cluster) -> None:
    """Each job fails for the first time: it is deleted, and another one created."""
    for number in range(2):
        cluster.job(f"first-{number}", gpus=1)
    cluster.advance()
    for number in range(2):
        cluster.fail(f"first-{number}", 1)
    for number in range(9):
        cluster.job(f"new-{number}", gpus=1, created=-50)
    cluster.advance(62)
    started = [name for number in range(9) if cluster.started(name := f"new-{number}")]
    assert started == ["new-0"]
    assert "start one after the other" in cluster.status("new-1")["queue"]["reason"]
    cluster.run_pod("new-0", 63)
    cluster.advance(1)
    assert cluster.status("new-1")["queue"]["reason"] == "waiting for a free GPU", "its turn"
    assert "one after the other" not in cluster.status("new-2")["queue"]["reason"], "no turn began"

"""A tenant with the role edit in its own namespace attacks its neighbours, and nothing changes.

A request of an attack may be accepted, or rejected with a message that names the field. Each test
checks that one of both happened, so that a test whose attack does nothing fails.

The tests run in the order of this file: those at the end need a minute or more after the start of
the attack, which the fixtures begin before.
"""

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import pytest

import workloads
from charts import QUEUE_AND_PAGE
from gputopo.api.measuring import MeasuringRequest
from gputopo.api.names import (
    ENSEMBLE_LABEL,
    JOB_LABEL,
    PROFILE_ANNOTATION,
    PROFILING_STATE_ANNOTATION,
    SHARING_MEMORY_ANNOTATION,
)
from hostiletest import attacks, manifests
from hostiletest.attacks import ChangingProfile, Race
from hostiletest.tenant import Replies, Tenant, tenant_in
from learning import Learning, learning_in
from learntest import laws
from learntest.manifests import Run
from localcluster.access import NodeAccess, PodProcess
from longruns import LONG
from resizetest import amounts
from sandbox import Sandbox
from showcase import install
from showcase.install import Installed
from showcase.kubectl import Kubectl, Object, wait_for
from soaktest.client import Client

pytestmark = [pytest.mark.e2e, QUEUE_AND_PAGE]

TRIES = 200 if "GPUTOPO_LONG" in os.environ else 12
TRIES_AT_ONCE = 12 if TRIES == 12 else 24
FLOOR_MILLI_CPU = 100
GPUS_OF_NODE = 8
CUT_SECONDS = 15
"""The operator sizes pods at every change, and at least every few seconds."""

HELD_SECONDS = 110
"""A job without a pod holds its GPUs for one minute."""

SHORT = ("fifo", "zero")
"""Replacements of files that every run tries."""

CHECKS = 4
"""Replacements that were in place for so many seconds outlast a check of the component."""

START_SECONDS = 45
SAMPLES_AFTER_SECONDS = 40
"""A sample that ends so long after the start of the attack has begun after it."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A hostile tenant, one whose quota forbids pods, and their neighbours.

    Attributes:
        victims: the namespace of the neighbours.
        changing: the attack on measurements.
        began: wall clock time of its start.
    """

    admin: Client
    installed: Installed
    hostile: Tenant
    without_pods: Tenant
    victims: Learning
    changing: ChangingProfile
    began: float

    @property
    def box(self) -> Sandbox:
        """The namespace of the neighbours."""
        return self.victims.box


@pytest.fixture(scope="module")
def admin(kubectl: Kubectl) -> Iterator[Client]:
    with Client(kubectl.kubeconfig) as client:
        yield client


@pytest.fixture(scope="module")
def stage(admin: Client, chart: Installed, dgx1: str, pcie: str) -> Iterator[Stage]:
    with (
        learning_in(chart, "victims") as victims,
        tenant_in(admin, "gputopo-hostile") as hostile,
        tenant_in(admin, "gputopo-hostile-quota", most_pods=0) as without_pods,
    ):
        measured = Run(
            "measured", laws.plain_law(1), dgx1, 1, measuring=MeasuringRequest(profile="measured")
        )
        victims.box.create(_sized_job(victims.box, pcie))
        victims.start(measured)
        victims.box.wait_running(2)
        made = manifests.measured_pod("changing", chart.workload_image, dgx1)
        hostile.client.create(hostile.pods, made)
        wait_for("the attacker's pod runs", partial(_runs, hostile, "changing"))
        changing = ChangingProfile(hostile, "changing", every_seconds=5)
        changing.start()
        try:
            yield Stage(admin, chart, hostile, without_pods, victims, changing, time.time())
        finally:
            changing.stop()


@dataclass(frozen=True, slots=True)
class Held:
    """GPUs that jobs without pods hold on two nodes.

    Attributes:
        since: wall clock time of the first of the neighbours' jobs.
        jobs: number of jobs that hold GPUs.
    """

    since: float
    jobs: int


@pytest.fixture(scope="module")
def held(stage: Stage, dgx1: str, pcie: str) -> Held:
    """Jobs and an ensemble whose pods a quota forbids, and then those of the neighbours."""
    image, box, tenant = stage.installed.trainer_image, stage.box, stage.without_pods
    attacks.hold_queue(tenant, image, GPUS_OF_NODE, node=pcie)
    attacks.hold_ensemble(tenant, image, GPUS_OF_NODE, node=dgx1)
    wait_for("the quota forbids a pod", lambda: attacks.forbidden(tenant) > 0)
    ensemble = f"{tenant.custom('gpuensembles')}/held"
    wait_for("the ensemble starts", lambda: "Starting" in _phases(tenant.client.get(ensemble)))
    since = time.time()
    box.create(
        workloads.gpu_job("queued", 1, image=box.image, node=pcie),
        manifests.ensemble("models", image, 1, dgx1),
    )
    return Held(since, GPUS_OF_NODE)


def _phases(ensemble: Object) -> list[str]:
    return [each["phase"] for each in ensemble.get("status", {}).get("members", [])]


def _sized_job(box: Sandbox, node: str) -> Object:
    floor = {"cpu": f"{FLOOR_MILLI_CPU}m", "memory": "64Mi"}
    resources = {"mode": "Proportional", "min": floor}
    return workloads.gpu_job("sized", 2, image=box.image, node=node, resources=resources)


def _runs(tenant: Tenant, pod: str) -> bool:
    return workloads.phase(tenant.pod(pod)) == "Running"


def _limit(box: Sandbox) -> int:
    (pod,) = box.kubectl.list("pods", box.namespace, selector=f"{JOB_LABEL}=sized")
    return amounts.read(pod).limits.milli_cpu


def _constant_limit(box: Sandbox) -> int:
    """Return the limit of the sized pod once it is above the floor and has not changed for 5 s."""
    limits: list[int] = []

    def is_constant() -> bool:
        limits.append(_limit(box))
        return min(limits[-5:]) > FLOOR_MILLI_CPU and len(limits) > 4 and len({*limits[-5:]}) == 1

    wait_for("the sized pod has its share", is_constant, interval_s=1)
    return limits[-1]


def _seconds_to_run(box: Sandbox, pod: Object, timeout_s: float = START_SECONDS) -> float:
    began = time.monotonic()
    box.create(pod)
    box.wait_running(1, only=pod["metadata"]["name"], timeout_s=timeout_s)
    return time.monotonic() - began


def test_forged_record_of_a_measurement_takes_no_cpus_of_another_tenant(
    stage: Stage, pcie: str
) -> None:
    box, hostile, replies = stage.box, stage.hostile, Replies()
    made = manifests.sized_pod("forging", stage.installed.workload_image, pcie)
    hostile.client.create(hostile.pods, made)
    wait_for("the attacker's pod runs", partial(_runs, hostile, "forging"))
    before = _constant_limit(box)
    began, seen = time.monotonic(), {before}
    while time.monotonic() < began + CUT_SECONDS:
        attacks.forge_profiling_state(hostile, "forging", replies)
        seen.add(_limit(box))
        if min(seen) < before:
            print(f"cut after {time.monotonic() - began:.1f} s")
            break
    print(f"limits in effect (thousandths of a CPU): {sorted(seen)}; {replies}")
    assert replies.is_attempted(PROFILING_STATE_ANNOTATION)
    assert seen == {before}


def _sharing(name: str, stage: Stage, node: str) -> Object:
    return manifests.sharing_pod(name, stage.installed.trainer_image, node, "")


def _restarts(stage: Stage) -> dict[str, int]:
    selector = "app.kubernetes.io/component=mps"
    pods = stage.box.kubectl.list("pods", install.NAMESPACE, selector=selector)
    return {
        f"{pod['metadata']['name']} {pod['metadata']['uid']}": amounts.read(pod).restarts
        for pod in pods
    }


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize(
    "kind",
    [kind if kind in SHORT else pytest.param(kind, marks=LONG) for kind in manifests.HELD_FILES],
)
def test_file_that_a_container_replaces_stops_sharing_on_no_other_gpu(
    stage: Stage, nvswitch: str, nodes: NodeAccess, kind: str
) -> None:
    box, hostile, image = stage.box, stage.hostile, stage.installed.trainer_image
    before = _restarts(stage)
    whole = workloads.gpu_pod(f"before-{kind}", 1, image=box.image, node=nvswitch)
    usual = _seconds_to_run(box, whole)
    hostile.client.create(hostile.pods, manifests.sharing_pod(kind, image, nvswitch, "hold", kind))

    def outcome() -> str:
        log = hostile.log(kind)
        return log if log.count(f"held {kind}") >= CHECKS or "rejected" in log else ""

    print(wait_for("the file is replaced, or that is rejected", outcome).splitlines()[-1])
    try:
        shared = _seconds_to_run(box, _sharing(f"shared-{kind}", stage, nvswitch))
        whole = workloads.gpu_pod(f"whole-{kind}", 1, image=box.image, node=nvswitch)
        took = _seconds_to_run(box, whole)
        print(f"a sharing pod ran after {shared:.1f} s, one with a whole GPU after {took:.1f} s")
        print(f"before the attack: {usual:.1f} s")
        assert took < 2 * usual + 6
        assert _restarts(stage) == before
    finally:
        names = [f"before-{kind}", f"shared-{kind}", f"whole-{kind}"]
        box.kubectl.run("delete", "pod", "-n", box.namespace, "--ignore-not-found", *names)
        hostile.client.delete(f"{hostile.pods}/{kind}", gracePeriodSeconds="0")
    wait_for(
        "MPS has ended on the GPU",
        lambda: nodes.run(nvswitch, "ls", "/run/gputopo-mps/gpus").strip() == "",
        timeout_s=60,
    )
    again = _seconds_to_run(box, _sharing(f"again-{kind}", stage, nvswitch))
    print(f"after the attack, a sharing pod ran after {again:.1f} s")
    box.kubectl.run("delete", "pod", "-n", box.namespace, f"again-{kind}")
    assert _restarts(stage) == before


@pytest.mark.usefixtures("held")
def test_process_that_pretends_to_be_the_daemon_stays_in_the_cgroup_of_its_pod(
    stage: Stage, nvswitch: str, nodes: NodeAccess
) -> None:
    hostile, image = stage.hostile, stage.installed.trainer_image
    hostile.client.create(hostile.pods, manifests.sharing_pod("forge", image, nvswitch, "forge"))
    wait_for("the attacker's pod runs", partial(_runs, hostile, "forge"))
    uid = hostile.pod("forge")["metadata"]["uid"]
    seen: dict[int, PodProcess] = {}
    moved: dict[str, str] = {}

    def finished() -> str:
        seen.update({each.pid: each for each in nodes.processes() if each.pod_uid == uid})
        for process in seen.values():
            text, command = process.read("cgroup"), process.read("cmdline")
            if text and "kubepods" not in text and "nvidia" in command:
                moved[command.replace("\0", " ")[:60]] = text
        log = hostile.log("forge")
        return log if moved or '"lasting"' in log or log.count('"written"') >= 4 else ""

    log = wait_for("the attack has ended", finished, timeout_s=120, interval_s=0.05)
    events = [json.loads(line) for line in log.splitlines()]
    print("\n".join(log.splitlines()[-12:]))
    print(moved)
    hostile.client.delete(f"{hostile.pods}/forge", gracePeriodSeconds="0")
    assert any(event.get("forged") for event in events), "no process looked like the daemon"
    written = any(event.get("written", 0) > CHECKS for event in events)
    assert moved or written or any("rejected" in event for event in events)
    assert moved == {}
    opened = [event["device"] for event in events if "device" in event]
    assert set(opened) <= {"Operation not permitted"}


@pytest.mark.usefixtures("held")
def test_memory_changed_after_the_binding_makes_kubelet_reject_no_pod(
    stage: Stage, nvswitch: str, pcie: str
) -> None:
    image, found = stage.installed.workload_image, Race()
    nodes = [nvswitch] if TRIES <= TRIES_AT_ONCE else [nvswitch, pcie]
    while found.bound < TRIES:
        attacks.race(stage.hostile, image, nodes, attacks.race_names(TRIES_AT_ONCE), found)
        if found.won and found.bound < TRIES:
            _forget_pauses(stage)
    print(found, *sorted(found.messages)[:3], sep="\n")
    box = stage.box
    took = _seconds_to_run(box, workloads.gpu_pod("beside", 1, image=box.image, node=nvswitch))
    print(f"a pod of another tenant ran after {took:.1f} s")
    box.delete_pods(["beside"])
    assert found.replies.is_attempted(SHARING_MEMORY_ANNOTATION)
    assert found.won == 0


def _forget_pauses(stage: Stage) -> None:
    """Replace the extenders, which pause a node whose kubelet has rejected a pod."""
    selector = "app.kubernetes.io/component=scheduler"
    where = ("-n", install.NAMESPACE)
    stage.box.kubectl.run("delete", "pod", *where, "-l", selector, "--force", "--wait=false")
    time.sleep(1)
    stage.box.kubectl.run(
        *("rollout", "status", "deployment", *where, "-l", selector, "--timeout=60s")
    )


def _waited_seconds(held: Held, box: Sandbox, what: str, label: str, value: str) -> float:
    """Wait until the pod with a label has started, and return the seconds since the attack."""

    def started() -> str:
        pods = box.kubectl.list("pods", box.namespace, selector=f"{label}={value}")
        return next((str(pod["status"].get("startTime", "")) for pod in pods), "")

    left = held.since + HELD_SECONDS - time.time()
    found = wait_for(what, started, timeout_s=max(0.0, left))
    seconds = datetime.fromisoformat(found).timestamp() - held.since
    print(f"{what}: {seconds:.0f} s after the attack")
    return seconds


def test_jobs_whose_pods_a_quota_forbids_hold_no_gpus_in_the_queue(
    stage: Stage, held: Held
) -> None:
    box, tenant = stage.box, stage.without_pods
    jobs = tenant.client.get(f"/apis/batch/v1/namespaces/{tenant.namespace}/jobs")["items"]
    print(f"{len(jobs)} Jobs exist; {attacks.forbidden(tenant)} pods were forbidden")
    assert len(jobs) >= held.jobs
    try:
        took = _waited_seconds(held, box, "the job of another tenant runs", JOB_LABEL, "queued")
    except TimeoutError:
        print(box.kubectl.get("gpujob", "queued", box.namespace)["status"])
        raise
    assert took < HELD_SECONDS


def test_ensemble_whose_pods_a_quota_forbids_holds_no_gpus(stage: Stage, held: Held) -> None:
    box, tenant = stage.box, stage.without_pods
    planned = tenant.client.get(f"{tenant.custom('gpuensembles')}/held")["status"]
    print([(each["name"], each["phase"], each.get("gpus")) for each in planned["members"]])
    what = "the ensemble of another tenant runs"
    try:
        took = _waited_seconds(held, box, what, ENSEMBLE_LABEL, "models")
    except TimeoutError:
        print(box.kubectl.get("gpuensemble", "models", box.namespace)["status"])
        raise
    assert took < HELD_SECONDS


def test_changes_of_a_profile_end_no_sample_of_another_tenant(stage: Stage) -> None:
    def samples() -> list[str]:
        found = stage.victims.status_of("measured").samples
        earliest = time.strftime(
            "%Y-%m-%dT%H:%M:%SZ", time.gmtime(stage.began + SAMPLES_AFTER_SECONDS)
        )
        return [each.time for each in found if each.time >= earliest]

    left = stage.began + 180 - time.time()
    try:
        print(wait_for("a sample", samples, timeout_s=max(1.0, left)))
    finally:
        print(f"{time.time() - stage.began:.0f} s of attack; {stage.changing.replies}")
    assert stage.changing.replies.is_attempted(PROFILE_ANNOTATION)

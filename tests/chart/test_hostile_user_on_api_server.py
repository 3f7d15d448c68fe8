"""Nothing of another user changes while a user writes the worst values into every field.

The operator, kube-scheduler and the extender run with the rights of the chart on a real API server.
``GPUTOPO_HOSTILE_TABLE`` names a file that gets the table of the page on security.
"""

import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gputopo.api.fields import FIELDS, Place, Until, Writer
from gputopo.api.names import (
    API_VERSION,
    PROFILE_ANNOTATION,
    PROFILING_ANNOTATION,
    PROFILING_STATE_ANNOTATION,
    RESOURCE,
    RESOURCES_ANNOTATION,
    RESOURCES_MODE_ANNOTATION,
    TUNED_LABEL,
)
from gputopo.api.profiling import ProfilingState
from gputopo.api.quantity import parse_thousandths
from gputopo.api.tuning import TunedRecord
from gputopo.tuning.waits import RESIZE_INTERVAL_SECONDS
from support.builders.gpujobs import gpu_job
from support.control_plane import api_server, hostile_user
from support.control_plane.api_server import JOBS, ONE_GPU, PODS, PROFILES, TOPOLOGIES, ApiServer
from support.control_plane.components import running_operator
from support.control_plane.hostile_user import OWN_PODS, HostileUser, Write
from support.control_plane.measured_pods import (
    NODE,
    limit_of,
    take_samples,
    uid_of,
    wait_for_limit,
)
from support.control_plane.scheduler_pairs import (
    put_nodes,
    running_pairs,
    wait_until,
)
from support.helm_chart import CHART, Helm
from support.profiling.cluster import ANNOTATIONS, PROFILE, measured_container

PLACED, SIZED = "node-1", "node-2"
ALL = dict.fromkeys(range(500, 8500, 500), 10.0)
LABEL = {TUNED_LABEL: "true"}
FEW = 300


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


@pytest.fixture(scope="module")
def cluster(kubernetes_binaries: Path, helm: Helm, folder: Path) -> Iterator[ApiServer]:
    """An API server with three nodes, the chart and its components."""
    with ExitStack() as stack:
        server = stack.enter_context(api_server.running(kubernetes_binaries, folder))
        helm.install(server.kubeconfig, {"operator": {"queue": {"order": "FIFO"}}})
        api_server.wait_for_policies(server)
        put_nodes(server, 3)
        stack.enter_context(running_operator(server, folder, 2.0, queue_order="FIFO"))
        pairs = running_pairs(server, helm, kubernetes_binaries, folder, count=1, lease_seconds=30)
        stack.enter_context(pairs)
        yield server


def put_on(
    server: ApiServer,
    path: str,
    name: str,
    node: str,
    *,
    resources: Mapping[str, Any] = ONE_GPU,
    **metadata: Any,
) -> str:
    """Create a pod for a node, and wait for its Binding; no kubelet starts it. Return its UID."""
    body = hostile_user.waiting_pod(name)
    body["metadata"] |= metadata
    body["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
    body["spec"]["containers"][0]["resources"] = resources
    made = server.create(path, body)
    assert made.accepted, made.message
    wait_until(lambda: "nodeName" in server.get(f"{path}/{name}").body["spec"], seconds=60)
    return str(made.body["metadata"]["uid"])


def start(server: ApiServer, path: str, name: str) -> None:
    """Report as kubelet that a pod runs with the amounts in its spec."""
    resources = server.get(f"{path}/{name}").body["spec"]["containers"][0]["resources"]
    status = {"name": "main", "image": "", "imageID": "", "ready": True, "restartCount": 0}
    status |= {"resources": resources, "allocatedResources": resources["requests"]}
    patch = {"status": {"phase": "Running", "containerStatuses": [status]}}
    response = server.merge(f"{path}/{name}/status", patch)
    assert response.accepted, response.message


def annotations(server: ApiServer, name: str) -> dict[str, str]:
    found: dict[str, str] = server.get(f"{PODS}/{name}").body["metadata"].get("annotations", {})
    return found


def position(server: ApiServer, name: str) -> int:
    status = server.get(f"{JOBS}/{name}").body.get("status", {})
    return int(status.get("queue", {}).get("position", 0))


def is_queued(server: ApiServer, name: str) -> bool:
    return position(server, name) > 0


def is_done(server: ApiServer, name: str) -> bool:
    text = annotations(server, name).get(PROFILING_STATE_ANNOTATION)
    state = None if text is None else ProfilingState.model_validate_json(text)
    return state is not None and state.restored and state.result == "Done"


@pytest.fixture(scope="module")
def users(cluster: ApiServer) -> HostileUser:
    """Pods and GPUJobs of two users, each in a state that the other one could want to change."""
    user = hostile_user.prepare(cluster)
    assert cluster.create(OWN_PODS, hostile_user.waiting_pod("waiting"), user).accepted
    put_on(cluster, OWN_PODS, "bound", PLACED)
    requested = {PROFILE_ANNOTATION: "own", PROFILING_ANNOTATION: "CPUs"}
    requested |= {RESOURCES_MODE_ANNOTATION: "Auto"}
    small = amounts(cpu="1m", memory="64Mi")
    uid = put_on(
        cluster, OWN_PODS, "running", SIZED, resources=small, annotations=requested, labels=LABEL
    )
    start(cluster, OWN_PODS, "running")
    for name, node in (("placed", PLACED), ("near", SIZED)):
        put_on(cluster, PODS, name, node)
    put_sized_pod(cluster, "sized", SIZED)
    put_measured_pod(cluster)
    for number in (1, 2):
        name = f"large-{number}"
        assert cluster.create(JOBS, gpu_job(name, gpusPerReplica=8)).accepted
        wait_until(partial(is_queued, cluster, name), seconds=60)
    pods = {"waiting": "waiting", "bound": "bound", "running": "running", "uid": uid}
    return HostileUser(
        cluster, annotations(cluster, "sized") | annotations(cluster, "placed"), pods
    )


def amounts(**limits: str) -> dict[str, Any]:
    return {"requests": limits, "limits": limits}


def put_sized_pod(server: ApiServer, name: str, node: str) -> None:
    """Create a pod of the other user, and wait until the operator has sized it."""
    resources = amounts(cpu="2", memory="4Gi", **{RESOURCE: "2"})
    request = {RESOURCES_MODE_ANNOTATION: "Proportional"}
    put_on(server, PODS, name, node, resources=resources, annotations=request, labels=LABEL)
    start(server, PODS, name)
    wait_until(lambda: limit_of(server, name) != "2", seconds=20)
    start(server, PODS, name)
    wait_until(lambda: record_of(server, name).done, seconds=120)


def put_measured_pod(server: ApiServer) -> None:
    """Create a pod of the other user, and wait until the operator measures it."""
    profile = {"apiVersion": API_VERSION, "kind": "GPUProfile", "metadata": {"name": PROFILE}}
    assert server.create(PROFILES, {**profile, "spec": {}}).accepted
    resources = measured_container()["resources"]
    put_on(server, PODS, "measured", NODE, resources=resources, annotations=ANNOTATIONS)
    start(server, PODS, "measured")
    take_samples(server, "measured", {4000: 10.0})
    wait_for_limit(server, "measured", "8")


def record_of(server: ApiServer, name: str) -> TunedRecord:
    return TunedRecord.model_validate_json(annotations(server, name)[RESOURCES_ANNOTATION])


def size_of(server: ApiServer, name: str) -> int:
    """Return the CPU limit of a pod in thousandths."""
    return parse_thousandths(limit_of(server, name)) or 0


def state_of_others(server: ApiServer) -> dict[str, Any]:
    """Return what the other user has: placements, sizes, records, facts and its queue."""
    pods = {each["metadata"]["name"]: each for each in server.get(PODS).body["items"]}
    del pods["measured"]  # its measurement goes on
    pods.pop("later", None)
    jobs = {each["metadata"]["name"]: each for each in server.get(JOBS).body["items"]}
    return {
        "sizes": {name: pod["spec"]["containers"][0]["resources"] for name, pod in pods.items()},
        "pods": {
            name: (pod["spec"], pod["metadata"].get("annotations"), pod["metadata"].get("labels"))
            for name, pod in pods.items()
        },
        "queue": {
            name: (job["status"]["queue"]["position"], job["status"]["queue"]["waitingSince"])
            for name, job in jobs.items()
        },
        "profiles": [each["spec"] for each in server.get(PROFILES).body["items"]],
        "nodes": [each["spec"] for each in server.get(TOPOLOGIES).body["items"]],
    }


@pytest.fixture(scope="module")
def attacked(users: HostileUser) -> tuple[dict[str, Any], list[Write]]:
    """The state of the other user before the attack, and all writes of the attack."""
    before = state_of_others(users.server)
    # The operator could take CPUs from the sized pod.
    assert size_of(users.server, "sized") > record_of(users.server, "sized").floor.milli_cpu
    writes = list(users.attack())
    if file := os.environ.get("GPUTOPO_HOSTILE_TABLE"):
        Path(file).write_text(hostile_user.outcome_table(writes))
    return before, writes


def attack_until_next_resize(users: HostileUser) -> list[Write]:
    """Repeat the worst write until the operator may resize the sized pod again; return the writes.

    Then let the operator decide about the node of this pod.
    """
    server, writes = users.server, list[Write]()
    resized = datetime.fromisoformat(record_of(server, "sized").since)
    allowed = resized + timedelta(seconds=RESIZE_INTERVAL_SECONDS + 2)

    def is_allowed() -> bool:
        writes.extend(users.forge_measurement())
        time.sleep(1)
        return datetime.now(UTC) > allowed

    wait_until(is_allowed, seconds=RESIZE_INTERVAL_SECONDS)
    for value in ("once", None):
        touched = {"metadata": {"labels": {"touched": value}}}
        assert server.merge(f"{PODS}/sized", touched).accepted
    return writes


def test_nothing_of_another_user_changes(
    users: HostileUser, attacked: tuple[dict[str, Any], list[Write]]
) -> None:
    server, (before, writes) = users.server, attacked
    assert len(writes) > FEW
    writes.extend(attack_until_next_resize(users))
    # The parts work on after the attack: so they have seen all of it when these are done.
    put_sized_pod(server, "later", PLACED)
    take_samples(server, "measured", ALL)
    wait_until(lambda: is_done(server, "measured"), seconds=120)
    assert limit_of(server, "measured") == "4"
    after = state_of_others(server)
    assert after["sizes"] == before["sizes"]
    assert after == before
    (profile,) = server.get(PROFILES).body["items"]
    assert {each["podUID"] for each in profile["status"]["samples"]} == {uid_of(server, "measured")}


def test_all_free_gpus_are_offered_after_the_attack(
    users: HostileUser, attacked: tuple[dict[str, Any], list[Write]]
) -> None:
    assert attacked
    server = users.server
    pods = [each for path in (PODS, OWN_PODS) for each in server.get(path).body["items"]]
    used = sum(
        int(each["spec"]["containers"][0]["resources"]["limits"].get(RESOURCE, 0))
        for each in pods
        if each["spec"].get("nodeName") == PLACED
    )
    body = hostile_user.waiting_pod("rest")
    body["spec"]["nodeSelector"] = {"kubernetes.io/hostname": PLACED}
    body["spec"]["containers"][0]["resources"] = {"limits": {RESOURCE: str(8 - used)}}
    assert server.create(PODS, body).accepted
    wait_until(lambda: "nodeName" in server.get(f"{PODS}/rest").body["spec"], seconds=60)


def test_queue_of_others_goes_on_after_the_attack(
    users: HostileUser, attacked: tuple[dict[str, Any], list[Write]]
) -> None:
    assert attacked
    server = users.server
    assert server.create(JOBS, gpu_job("later", gpusPerReplica=8)).accepted
    wait_until(lambda: position(server, "later") == 3, seconds=60)
    assert [position(server, f"large-{number}") for number in (1, 2)] == [1, 2]


def test_fields_of_components_were_rejected_at_all_moments(
    attacked: tuple[dict[str, Any], list[Write]],
) -> None:
    _, writes = attacked
    own = {each.name for each in FIELDS if each.writer in {Writer.OPERATOR, Writer.EXTENDER}}
    of_components = [each for each in writes if each.field in own and each.value != "none"]
    assert {each.moment for each in of_components} >= {"created", "waiting", "bound", "running"}
    assert [each for each in of_components if each.accepted] == []
    statuses = [each for each in writes if each.field.endswith("/status")]
    assert statuses
    assert [each for each in statuses if each.accepted] == []


def test_requests_of_a_bound_pod_were_rejected(
    attacked: tuple[dict[str, Any], list[Write]],
) -> None:
    _, writes = attacked
    fixed = {each.name for each in FIELDS if each.until in {Until.CREATED, Until.BOUND}}
    late = [each for each in writes if each.field in fixed and each.moment in {"bound", "running"}]
    assert {each.field for each in late} == fixed
    assert [each for each in late if each.accepted and each.value != "none"] == []


def test_every_field_of_pods_was_written(
    attacked: tuple[dict[str, Any], list[Write]],
) -> None:
    _, writes = attacked
    expected = {
        each.name for each in FIELDS if each.kind == "pods" and each.place is not Place.STATUS
    }
    assert expected <= {each.field for each in writes}


def test_page_on_security_has_the_outcomes(
    attacked: tuple[dict[str, Any], list[Write]],
) -> None:
    page = (CHART.parents[1] / "docs/operate/security.md").read_text()
    (written,) = re.findall(
        r"(?s)<!-- hostile user: begin[^\n]*\n\n(.*?)\n<!-- hostile user: end", page
    )
    assert written == hostile_user.outcome_table(attacked[1])


def test_components_ran_through(attacked: tuple[dict[str, Any], list[Write]], folder: Path) -> None:
    assert attacked
    logs = {
        path: path.read_text() for path in folder.rglob("*.log") if "apiserver" not in path.name
    }
    assert {path.name for path in logs} >= {"operator.log", "extender.log", "scheduler.log"}
    for path, text in logs.items():
        assert "Traceback" not in text, path

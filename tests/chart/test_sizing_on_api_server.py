"""The operator sizes a running pod, with its account and the chart's policies on a real API server.

No kubelet runs here: the test reports in its place that a resize is in effect.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gputopo.api.names import RESOURCE, RESOURCES_ANNOTATION, RESOURCES_MODE_ANNOTATION, TUNED_LABEL
from gputopo.api.tuning import TunedRecord
from support.control_plane.api_server import PODS, ApiServer
from support.control_plane.components import running_operator
from support.control_plane.scheduler_pairs import wait_until

NODE = "node-5"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


@pytest.fixture(scope="module")
def operator(
    server_with_nodes: ApiServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("operator")
    with running_operator(server_with_nodes, folder, resync_seconds=2.0) as log:
        yield log
    text = log.read_text()
    assert "Traceback" not in text
    assert "watch failed" not in text
    assert "orbidden" not in text


def put_pod(server: ApiServer, name: str, cpu: str, gpus: int = 2) -> None:
    """Create a running pod on the node that requests its share of the CPUs."""
    amounts = {"cpu": cpu, "memory": "4Gi", RESOURCE: str(gpus)}
    resources = {"requests": amounts, "limits": amounts}
    metadata = {"name": name, "annotations": {RESOURCES_MODE_ANNOTATION: "Proportional"}}
    # Kubernetes before 1.36 has no policy that sets the label.
    metadata["labels"] = {TUNED_LABEL: "true"}
    spec = {"schedulerName": "gputopo", "terminationGracePeriodSeconds": 0}
    container = {"name": "main", "image": "busybox", "resources": resources}
    created = server.create(
        PODS, {"metadata": metadata, "spec": {**spec, "containers": [container]}}
    )
    assert created.accepted, created.message
    binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": NODE}}
    assert server.create(f"{PODS}/{name}/binding", binding).accepted
    apply(server, name)


def apply(server: ApiServer, name: str) -> None:
    """Report that the amounts in the spec of a pod are in effect."""
    resources = resources_of(server, name)
    status = {
        "name": "main",
        "image": "busybox",
        "imageID": "",
        "ready": True,
        "restartCount": 0,
        "resources": resources,
        "allocatedResources": resources["requests"],
    }
    patch = {"status": {"phase": "Running", "containerStatuses": [status]}}
    response = server.merge(f"{PODS}/{name}/status", patch)
    assert response.accepted, response.message


def resources_of(server: ApiServer, name: str) -> dict[str, Any]:
    found: dict[str, Any] = server.get(f"{PODS}/{name}").body["spec"]["containers"][0]["resources"]
    return found


def record_of(server: ApiServer, name: str) -> TunedRecord:
    annotations = server.get(f"{PODS}/{name}").body["metadata"]["annotations"]
    return TunedRecord.model_validate_json(annotations[RESOURCES_ANNOTATION])


def reasons(server: ApiServer, name: str) -> list[str]:
    events = server.get(EVENTS).body["items"]
    return [each["reason"] for each in events if each["regarding"].get("name") == name]


@pytest.mark.usefixtures("operator")
def test_running_pods_get_their_shares_in_their_qos_class(nodes: ApiServer) -> None:
    put_pod(nodes, "sized-1", "2")
    wait_until(lambda: resources_of(nodes, "sized-1")["limits"]["cpu"] == "16", seconds=120)
    assert resources_of(nodes, "sized-1")["requests"]["cpu"] == "16"
    assert nodes.get(f"{PODS}/sized-1").body["status"]["qosClass"] == "Guaranteed"
    apply(nodes, "sized-1")
    wait_until(lambda: record_of(nodes, "sized-1").done, seconds=120)
    wait_until(lambda: reasons(nodes, "sized-1") == ["Resized"], seconds=120)
    put_pod(nodes, "sized-2", "20")  # above its share: all others together get less
    put_pod(nodes, "sized-3", "2", gpus=4)
    wait_until(lambda: resources_of(nodes, "sized-3")["limits"]["cpu"] != "2", seconds=120)
    limits = [resources_of(nodes, f"sized-{number}")["limits"]["cpu"] for number in (1, 2, 3)]
    assert limits[1] == "20"
    for number in (1, 2, 3):
        assert nodes.request("DELETE", f"{PODS}/sized-{number}").accepted

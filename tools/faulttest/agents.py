"""Find, inspect and end the node agent of one node."""

import httpx2

from faulttest.bench import Bench
from localcluster import access
from showcase.install import NAMESPACE
from showcase.kubectl import wait_for
from soaktest.client import Object, RejectedError, UnavailableError

PROGRAM = "gputopo-deviceplugin"
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_SELECTOR = "app.kubernetes.io/component=deviceplugin"
_PORT = 8890
_PROBE_SECONDS = 5.0  # as kubelet's liveness probe
_READY_SECONDS = 90.0


def pod(bench: Bench, node: str) -> Object | None:
    """Return the agent's ready pod on a node; None while there is none."""
    try:
        return next((one for one in _on_node(bench, node) if _is_ready(one)), None)
    except (UnavailableError, RejectedError):
        return None


def restarts(bench: Bench, node: str) -> int:
    """Return how often the containers of the agent's pod on a node were restarted."""
    found = bench.patient(lambda: _on_node(bench, node))
    return sum(
        status["restartCount"] for one in found for status in one["status"]["containerStatuses"]
    )


def wait_ready(bench: Bench, node: str, *, other_than: str = "") -> Object:
    """Return the agent's ready pod, with another UID than the given one.

    Raises:
        TimeoutError: there is none in time.
    """

    def ready() -> Object | None:
        found = pod(bench, node)
        return found if found and found["metadata"]["uid"] != other_than else None

    return wait_for(f"the agent of {node} is ready", ready, timeout_s=_READY_SECONDS)


def address(bench: Bench, node: str) -> str:
    """Return the address of the agent's pod."""
    return str(wait_ready(bench, node)["status"]["podIP"])


def kill(bench: Bench, node: str) -> int:
    """SIGKILL the agent; return how many processes there were."""
    return access.kill(bench.machines, PROGRAM, node)


def delete(bench: Bench, node: str) -> str:
    """Delete the agent's pod; return its UID."""
    metadata = wait_ready(bench, node)["metadata"]
    bench.patient(lambda: bench.client.delete(f"{_PODS}/{metadata['name']}"))
    return str(metadata["uid"])


def is_alive(pod_address: str) -> bool:
    """Whether /livez responds with success, like for kubelet's probe."""
    try:
        response = httpx2.get(
            f"http://{pod_address}:{_PORT}/livez", timeout=_PROBE_SECONDS, trust_env=False
        )
    except httpx2.TransportError:
        return False
    return response.is_success


def _on_node(bench: Bench, node: str) -> list[Object]:
    found = bench.client.get(_PODS, labelSelector=_SELECTOR)["items"]
    return [
        one
        for one in found
        if one["spec"].get("nodeName") == node and "deletionTimestamp" not in one["metadata"]
    ]


def _is_ready(one: Object) -> bool:
    return any(
        (condition["type"], condition["status"]) == ("Ready", "True")
        for condition in one["status"].get("conditions", [])
    )

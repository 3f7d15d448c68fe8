"""A pod whose CPUs are measured, on a real API server without kubelet and agent."""

from datetime import UTC, datetime
from typing import Any

from gputopo.api.names import API_VERSION
from support.control_plane.api_server import PODS, TOPOLOGIES, ApiServer
from support.control_plane.scheduler_pairs import wait_until
from support.profiling.cluster import ANNOTATIONS, PROFILE, measured_container
from support.profiling.pods import sample

NODE = "node-0"
PROFILES = "/apis/gputopo.io/v1alpha1/namespaces/default/gpuprofiles"


def put_measured_pod(server: ApiServer, name: str, cpu: str, request: str = "") -> None:
    """Create a running pod that requests to measure CPUs, and let the agent report it."""
    kind = {"apiVersion": API_VERSION, "kind": "GPUProfile"}
    server.create(PROFILES, {**kind, "metadata": {"name": PROFILE}, "spec": {}})
    spec = {"schedulerName": "gputopo", "terminationGracePeriodSeconds": 0}
    spec["containers"] = [measured_container(cpu=cpu, request=request)]
    response = server.create(
        PODS, {"metadata": {"name": name, "annotations": ANNOTATIONS}, "spec": spec}
    )
    assert response.accepted, response.message
    target = {"kind": "Node", "name": NODE}
    binding = {"metadata": {"name": name}, "target": target}
    assert server.create(f"{PODS}/{name}/binding", binding).accepted
    running = {"status": {"phase": "Running"}}
    assert server.merge(f"{PODS}/{name}/status", running).accepted
    report(server, name, [])


def report(server: ApiServer, name: str, samples: list[dict[str, Any]]) -> None:
    """Let the agent report the pod and these samples of it."""
    measurement = {
        "namespace": "default",
        "pod": name,
        "podUID": uid_of(server, name),
        "gpus": 1,
        "container": "main",
        "source": "SDK",
        "state": "Steady",
        "profile": PROFILE,
        "profiling": ["CPUs"],
    }
    status = {"measurements": [measurement], "samples": samples}
    response = server.merge(f"{TOPOLOGIES}/{NODE}/status", {"status": status})
    assert response.accepted, response.message


def take_samples(server: ApiServer, name: str, rates: dict[int, float]) -> None:
    """Let the agent report samples of a pod: steps per second by CPU limit in thousandths."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    taken = [
        sample(limit, rate, pod_uid=uid_of(server, name), time=now).to_json()
        | {"namespace": "default", "profile": PROFILE}
        for limit, rate in rates.items()
    ]
    report(server, name, taken)


def uid_of(server: ApiServer, name: str) -> str:
    return str(server.get(f"{PODS}/{name}").body["metadata"]["uid"])


def limit_of(server: ApiServer, name: str) -> str:
    """Return the CPU limit in the spec of a pod."""
    pod = server.get(f"{PODS}/{name}").body
    return str(pod["spec"]["containers"][0]["resources"]["limits"]["cpu"])


def wait_for_limit(server: ApiServer, name: str, limit: str) -> None:
    wait_until(lambda: limit_of(server, name) == limit, seconds=120)


def measure_pod(server: ApiServer) -> None:
    """Have the operator measure one point of a pod, and restore the pod."""
    put_measured_pod(server, "measured", "4", "1")
    take_samples(server, "measured", {4000: 10.0})
    wait_for_limit(server, "measured", "8")
    known = dict.fromkeys(range(500, 8500, 500), 10.0)
    take_samples(server, "measured", known)
    wait_for_limit(server, "measured", "4")

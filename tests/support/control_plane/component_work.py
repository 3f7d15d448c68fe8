"""Work for all components on a real API server, each with the token of its own account."""

import asyncio
import re
import tempfile
import urllib.error
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from lightkube import AsyncClient, KubeConfig

from fakenvml.build import build_library
from gputopo.api.names import GPUS_ANNOTATION, RESOURCE
from gputopo.runtime.times import timestamp, utc
from gputopo_extender.fencing.pod_api import PodApi
from gputopo_kube.aiohttp_transport import aiohttp_client
from gputopo_kube.client import AsyncApi
from support.agent.world import NODE, agent_world, annotation_of
from support.builders.gpujobs import exited, gpu_job, job_pod
from support.control_plane.api_server import JOBS, PODS, TOPOLOGIES, ApiServer, service_account
from support.control_plane.scheduler_pairs import Pair, put_pod, read_url, wait_until
from support.helm_chart import CHART

NODE_COUNT = 2
EXTENDER = "gputopo-extender"
OPERATOR = "gputopo-operator"
AGENT = "gputopo-deviceplugin"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_COLLECTIONS = {
    "ServiceAccount": "/api/v1/namespaces/gputopo-system/serviceaccounts",
    "Secret": "/api/v1/namespaces/gputopo-system/secrets",
    "ClusterRole": f"{_RBAC}/clusterroles",
    "ClusterRoleBinding": f"{_RBAC}/clusterrolebindings",
}


def schedule(server: ApiServer, pair: Pair, work: Path) -> None:
    """Have kube-scheduler and extender bind, preempt, and use volumes and devices."""
    for name, value in (("low", 1), ("high", 1000)):
        body = {"metadata": {"name": name}, "value": value}
        assert server.create("/apis/scheduling.k8s.io/v1/priorityclasses", body).accepted
    for number in range(8 * NODE_COUNT):
        put_pod(server, f"low-{number}", 1, priority="low")
    wait_until(lambda: len(bound(server)) == 8 * NODE_COUNT, seconds=60)
    put_pod(server, "high", 4, priority="high")
    wait_until(lambda: "high" in bound(server), seconds=60)
    put_volume(server)
    put_device(server)
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    put_other_pod(server, "with-volume", volumes=[volume])
    put_other_pod(
        server, "with-device", resourceClaims=[{"name": "nic", "resourceClaimName": "nic"}]
    )
    wait_until(lambda: "with-device" in bound(server), seconds=60)
    data = "/api/v1/persistentvolumes/data"
    wait_until(lambda: "claimRef" in server.get(data).body["spec"], seconds=60)
    claim = "/api/v1/namespaces/default/persistentvolumeclaims/made"
    put_other_pod(
        server,
        "with-new-volume",
        volumes=[{"name": "made", "persistentVolumeClaim": {"claimName": "made"}}],
    )
    wait_until(lambda: "annotations" in server.get(claim).body["metadata"], seconds=60)
    read_metrics(server, pair, work)


def bound(server: ApiServer) -> set[str]:
    pods = server.get(PODS).body["items"]
    return {pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName")}


def put_other_pod(server: ApiServer, name: str, **spec: Any) -> None:
    """Create a pod without GPUs, which kube-scheduler binds itself."""
    containers = [{"name": "main", "image": "busybox"}]
    body = {"schedulerName": "gputopo", "containers": containers, **spec}
    response = server.create(PODS, {"metadata": {"name": name}, "spec": body})
    assert response.accepted, response.message


def put_volume(server: ApiServer) -> None:
    """Create a volume, a claim that matches it, and a claim that needs a new volume."""
    for name, provisioner in (
        ("local", "kubernetes.io/no-provisioner"),
        ("remote", "example.org/x"),
    ):
        body = {"metadata": {"name": name}, "provisioner": provisioner}
        body["volumeBindingMode"] = "WaitForFirstConsumer"
        assert server.create("/apis/storage.k8s.io/v1/storageclasses", body).accepted
    size, modes = {"storage": "1Gi"}, ["ReadWriteOnce"]
    term = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-0"]}
    spec = {
        "capacity": size,
        "accessModes": modes,
        "storageClassName": "local",
        "local": {"path": "/data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}},
    }
    volume = {"metadata": {"name": "data"}, "spec": spec}
    assert server.create("/api/v1/persistentvolumes", volume).accepted
    # No controller runs here that would set the phase.
    available = {"status": {"phase": "Available"}}
    assert server.merge("/api/v1/persistentvolumes/data/status", available).accepted
    for name, of in (("data", "local"), ("made", "remote")):
        claim = {"resources": {"requests": size}, "accessModes": modes, "storageClassName": of}
        path = "/api/v1/namespaces/default/persistentvolumeclaims"
        assert server.create(path, {"metadata": {"name": name}, "spec": claim}).accepted


def put_device(server: ApiServer) -> None:
    """Create a network card of node-0, and a claim for it."""
    api = "/apis/resource.k8s.io/v1"
    assert server.create(f"{api}/deviceclasses", {"metadata": {"name": "nic"}, "spec": {}}).accepted
    pool = {"name": "node-0", "generation": 1, "resourceSliceCount": 1}
    spec: dict[str, Any] = {"driver": "nic.example.org", "nodeName": "node-0", "pool": pool}
    spec["devices"] = [{"name": "nic-0"}]
    response = server.create(f"{api}/resourceslices", {"metadata": {"name": "nic"}, "spec": spec})
    assert response.accepted, response.message
    requests = [{"name": "nic", "exactly": {"deviceClassName": "nic"}}]
    claim = {"metadata": {"name": "nic"}, "spec": {"devices": {"requests": requests}}}
    response = server.create(f"{api}/namespaces/default/resourceclaims", claim)
    assert response.accepted, response.message


def read_metrics(server: ApiServer, pair: Pair, work: Path) -> None:
    """Request kube-scheduler's metrics: the account of the page may read them, others may not."""
    metrics = f"https://127.0.0.1:{pair.scheduler_port}/metrics"
    with pytest.raises(urllib.error.HTTPError, match="403"):
        read_url(metrics, server.kubeconfig_of(OPERATOR, work / "reader"))
    page = (CHART.parents[1] / "docs/operate/monitoring.md").read_text()
    (text,) = re.findall(r"(?ms)^```yaml\n(apiVersion: v1\nkind: ServiceAccount.*?)^```", page)
    for each in yaml.safe_load_all(text):
        response = server.create(_COLLECTIONS[each["kind"]], each)
        assert response.accepted, response.message
    access = server.kubeconfig_of("kube-scheduler-metrics", work / "metrics")
    assert "scheduler_pending_pods" in read_url(metrics, access)


def run_gpu_job(server: ApiServer) -> None:
    """Have the operator run a GPUJob whose program fails."""
    job = gpu_job(workload={"profile": "resnet50"}, limits={"backoffLimit": 0})
    assert server.create(JOBS, job).accepted
    child = "/apis/batch/v1/namespaces/default/jobs/train"
    wait_until(lambda: server.get(child).accepted, seconds=120)
    report_failed_pod(server, child)
    wait_until(lambda: placed_reason(server) == "PodNotCreated", seconds=120)
    pod = job_pod(server.get(child).body, "train-1")
    # The API server sets these.
    del pod["metadata"]["uid"], pod["metadata"]["resourceVersion"], pod["status"]
    assert server.create(PODS, pod).accepted
    put_on_gpus(server, "train-1")

    def phase() -> str:
        return str(server.get(f"{JOBS}/train").body.get("status", {}).get("phase"))

    wait_until(lambda: phase() == "Placed", seconds=120)
    assert server.merge(f"{PODS}/train-1/status", {"status": exited(1)}).accepted
    wait_until(lambda: phase() == "Failed", seconds=120)
    wait_until(lambda: server.get(child).body["spec"]["backoffLimit"] == 0, seconds=120)


def report_failed_pod(server: ApiServer, child: str) -> None:
    """Report, as the Job controller does, that it has not created the pod of a Job for an hour."""
    begin = timestamp(utc() - timedelta(hours=1))
    assert server.merge(f"{child}/status", {"status": {"startTime": begin}}).accepted
    involved = {"kind": "Job", "apiVersion": "batch/v1", "namespace": "default", "name": "train"}
    event = {
        "metadata": {"name": "train.failed", "namespace": "default"},
        "involvedObject": {**involved, "uid": server.get(child).body["metadata"]["uid"]},
        "reason": "FailedCreate",
        "message": "exceeded quota: none",
        "type": "Warning",
        "source": {"component": "job-controller"},
        "firstTimestamp": begin,
        "lastTimestamp": timestamp(utc()),
        "count": 2,
    }
    response = server.create("/api/v1/namespaces/default/events", event)
    assert response.accepted, response.message
    # The operator sees the event when it looks at the job again.
    assert server.merge(f"{child}/status", {"status": {"ready": 0}}).accepted


def placed_reason(server: ApiServer) -> str:
    """Return the reason of the condition Placed of the GPUJob."""
    status = server.get(f"{JOBS}/train").body.get("status", {})
    found = {each["type"]: each["reason"] for each in status.get("conditions", [])}
    return str(found.get("Placed"))


def put_on_gpus(server: ApiServer, name: str) -> None:
    """Bind a pod to a node with GPUs, as the extender does."""
    topology = server.get(f"{TOPOLOGIES}/node-0").body
    uid = server.get(f"{PODS}/{name}").body["metadata"]["uid"]
    containers = {"main": [gpu["uuid"] for gpu in topology["spec"]["gpus"][:3]]}
    pod = {"metadata": {"uid": uid, "name": name}, "spec": {"nodeName": "node-0"}}
    annotations = {GPUS_ANNOTATION: annotation_of(name, containers, uid=uid, node="node-0")}
    body = {
        "metadata": {**pod["metadata"], "annotations": annotations},
        "target": {"kind": "Node", "name": "node-0"},
    }
    extender = service_account(EXTENDER)
    response = server.request("POST", f"{PODS}/{name}/binding", body, user=extender)
    assert response.accepted, response.message


async def call_as_extender(access: Path) -> None:
    """Read and invalidate a pod, as the extender does after a Binding without a response."""
    async with aiohttp_client(KubeConfig.from_file(access)) as client:
        pods = PodApi(AsyncApi(client, timeout_seconds=5.0), RESOURCE)
        assert await pods.get_pod("default", "high") is not None
        assert await pods.invalidate("default", "high") is not None


async def run_agent(server: ApiServer, work: Path) -> None:
    """Have an agent publish its GPUs, reject a pod, and report a GPU that fails."""
    assert server.create("/api/v1/nodes", {"metadata": {"name": NODE}}).accepted
    spec = {"serviceAccountName": AGENT, "nodeName": NODE}
    spec["containers"] = [{"name": "agent", "image": "agent"}]  # type: ignore[assignment]
    pods = "/api/v1/namespaces/gputopo-system/pods"
    pod = server.create(pods, {"metadata": {"name": "agent"}, "spec": spec})
    assert pod.accepted, pod.message
    access = server.kubeconfig_of(AGENT, work / "agent-kubeconfig", pod.body)

    class Real:
        """The real API server, in place of the fake one of the agent's tests."""

        def client(self) -> AsyncClient:
            return AsyncClient(config=KubeConfig.from_file(access), trust_env=False)

    path = f"{TOPOLOGIES}/{NODE}/status"

    def has_status(text: str) -> bool:
        return text in str(server.get(path).body)

    # A path of a socket is short.
    with pytest.MonkeyPatch.context() as patched, tempfile.TemporaryDirectory() as folder:
        patched.setenv("FAKE_NVML_TOPOLOGY", "")
        library = build_library(work).parent
        async with agent_world(Path(folder), library) as small:
            real: Any = Real()
            world = replace(small, api=real)
            async with world.agent() as agent:
                await world.kubelet.wait_for_devices(dict.fromkeys(world.uuids, "Healthy"))
                await asyncio.to_thread(wait_until, lambda: has_status("Serving"), 30)
                world.break_gpus("fault 3 15")
                await asyncio.to_thread(wait_until, lambda: has_status("'healthy': False"), 30)
                await asyncio.to_thread(wait_until, lambda: has_event(server, "GPU"), 30)
                await agent.stop()


def has_event(server: ApiServer, of: str) -> bool:
    """Return whether an event with a reason that begins like this was created."""
    events = server.get("/api/v1/events").body["items"]
    return any(event["reason"].startswith(of) for event in events)

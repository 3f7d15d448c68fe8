"""A cluster of three nodes in use, for what-if questions and explanations of pending pods."""

from datetime import UTC, datetime, timedelta

from gputopo.catalogue import named
from gputopo.runtime.times import timestamp
from support.api.static import StaticApi
from support.builders.live import gpu_user, installed, kube_node, owned
from support.builders.objects import Document, condition, pod, topology_object

OWN = "/apis/gputopo.io/v1alpha1"
TOPOLOGIES, GPU_JOBS = f"{OWN}/gputopologies", f"{OWN}/gpujobs"
PODS, NODES = "/api/v1/pods", "/api/v1/nodes"
JOBS, DEPLOYMENTS = "/apis/batch/v1/jobs", "/apis/apps/v1/deployments"
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/gputopo-system/leases/gputopo-claims"


def live_cluster() -> StaticApi:
    """Return two servers with NVLink and one with PCIe only; one of them is cordoned.

    The pods started 59.5 minutes ago, so that their remaining time is the same for half a minute.
    """
    started = timestamp(datetime.now(UTC) - timedelta(minutes=59, seconds=30))
    nodes = {
        "n1": named("dgx1-v100", node="n1"),
        "n2": named("dgx1-v100", node="n2"),
        "n3": named("pcie-8gpu", node="n3"),
    }
    train = owned(gpu_user("train-x", "n1", 0, 4, started=started, of=nodes["n1"]), "Job", "train")
    serve = gpu_user("serve", "n1", 4, 2, of=nodes["n1"], priority=100)
    batch = gpu_user(
        "batch", "n3", 0, 5, started=started, of=nodes["n3"], activeDeadlineSeconds=7200
    )
    large, namespaced = waiting("large", 8), f"{PODS.removesuffix('/pods')}/namespaces/default/pods"
    return StaticApi(
        objects={
            f"{namespaced}/large": large,
            f"{OWN}/namespaces/default/gpujobs/finetune": queued_job(),
        },
        lists={
            namespaced: [],
            TOPOLOGIES: [topology_object(name, each) for name, each in nodes.items()],
            PODS: [train, serve, batch, large, web()],
            NODES: [kube_node("n1"), kube_node("n2", unschedulable=True), kube_node("n3")],
            GPU_JOBS: [gpu_job(), queued_job()],
            f"{OWN}/gpuprofiles": [],
            JOBS: [],
            DEPLOYMENTS: [installed("--default-policy=Preserve")],
            PRIORITY_CLASSES: [{"metadata": {"name": "high"}, "value": 1000}],
        },
    )


def gpu_job() -> Document:
    return {
        "metadata": {"namespace": "default", "name": "train", "uid": "uid-job"},
        "spec": {"gpusPerReplica": 4, "expected": {"durationSeconds": 7200}, "template": {}},
    }


def queued_job() -> Document:
    queued = condition("Suspended", "True", "Queued")
    reason = "waiting for 4 free GPUs on one node"
    template = {"spec": {"containers": [{"name": "main"}]}}
    return {
        "metadata": {"namespace": "default", "name": "finetune", "uid": "uid-finetune"},
        "spec": {"gpusPerReplica": 4, "template": template},
        "status": {"conditions": [queued], "queue": {"position": 1, "reason": reason}},
    }


def waiting(name: str, gpus: int) -> Document:
    document = pod(name, gpus)
    unschedulable = condition("PodScheduled", "False", "Unschedulable")
    text = "0/3 nodes are available: 1 node(s) were unschedulable, 2 too few free GPUs."
    document["status"]["conditions"] = [unschedulable | {"message": text}]
    return document


def web() -> Document:
    return pod("web", containers=[{"name": "web"}], node="n1", phase="Running")

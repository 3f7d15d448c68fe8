"""Work with a GPUEnsemble for the operator on a real API server without kubelets."""

from support.control_plane.api_server import JOBS, PODS, ApiServer
from support.control_plane.scheduler_pairs import wait_until
from support.operator.ensembles import ensemble, member

ENSEMBLES = "/apis/gputopo.io/v1alpha1/namespaces/default/gpuensembles"


def run_ensemble(server: ApiServer) -> None:
    """Have the operator plan an ensemble with a preprocessor, start its member and stop it."""
    _free_gpus(server)
    container = {"name": "main", "image": "busybox"}
    preprocessing = {
        "throughput": [{"cores": 1, "itemsPerSecond": 200}],
        "template": {"spec": {"containers": [container]}},
    }
    body = ensemble(member("a", {1: 100}, steps=1000), preprocessing=preprocessing)
    body["metadata"] = {"name": "search", "namespace": "default"}
    response = server.create(ENSEMBLES, body)
    assert response.accepted, response.message
    started = f"{JOBS}/search-a"
    wait_until(lambda: server.get(started).accepted, seconds=120)
    assert server.get("/api/v1/namespaces/default/services/search-preprocessor").accepted
    assert server.merge(f"{ENSEMBLES}/search", {"spec": {"suspend": True}}).accepted
    wait_until(lambda: not server.get(started).accepted, seconds=120)


def _free_gpus(server: ApiServer) -> None:
    """Delete the pods of low priority, so that the nodes have free GPUs."""
    names = [pod["metadata"]["name"] for pod in server.get(PODS).body["items"]]
    for name in names:
        if name.startswith("low-"):
            assert server.delete(f"{PODS}/{name}").accepted

"""Causes of the alerts about nodes, agents and GPUs; each ends with its block."""

import copy
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from faulttest import nvml, pods
from gputopo.api.names import GPUS_ANNOTATION
from localcluster import access
from localcluster.packets import dropped
from localcluster.stuck import stuck
from monitortest.site import PODS, TOPOLOGIES, Site, without_rule
from showcase.kubectl import wait_for
from soaktest.client import Object, RejectedError

_AGENT: Final = "gputopo-deviceplugin"
_LOST_GPU: Final = "fault 3 15"
_OTHER_RESOURCE: Final = "nvidia.com/gpu.shared"
_BINDINGS: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
_NO_NODE: Final = "gputopo-monitoring"
"""Name of a GPUTopology without a node."""


@contextmanager
def agent_missing(site: Site) -> Iterator[None]:
    """Kill the agent while kubelet, which would restart it, is stopped."""
    site.machines.set_kubelet(site.node, on=False)
    try:
        access.kill(site.machines, _AGENT, site.node)
        yield
    finally:
        site.machines.set_kubelet(site.node, on=True)


@contextmanager
def agent_not_ready(site: Site) -> Iterator[None]:
    """Let another allocator offer the GPUs of the node."""
    path = f"/api/v1/nodes/{site.node}/status"
    with site.patched(path, _extended("4"), _extended(None)):
        yield


@contextmanager
def agent_disconnected(site: Site) -> Iterator[None]:
    """Drop all packets between the agent and the API server."""
    with dropped(site.machines, site.node, site.agent()["status"]["podIP"]):
        yield


@contextmanager
def agent_without_rights(site: Site) -> Iterator[None]:
    """Remove the agents' right to write GPUTopologies, and start a pod, whose GPUs change one."""
    with without_rule(site, _AGENT, "gputopologies/status"):
        site.start(pods.pod("unpublished", 1, site.image, site.node))
        yield


@contextmanager
def node_unusable(site: Site) -> Iterator[None]:
    """Create a GPUTopology without the link between two of its GPUs."""
    spec = copy.deepcopy(site.get(f"{TOPOLOGIES}/{site.node}")["spec"])
    spec["links"].pop()
    kind = {"apiVersion": "gputopo.io/v1alpha1", "kind": "GPUTopology"}
    site.client.create(TOPOLOGIES, {**kind, "metadata": {"name": _NO_NODE}, "spec": spec})
    try:
        yield
    finally:
        site.client.delete(f"{TOPOLOGIES}/{_NO_NODE}")


@contextmanager
def gpu_unhealthy(site: Site) -> Iterator[None]:
    """Let NVML lose one GPU."""
    with nvml.changed(site.machines, site.node, _LOST_GPU):
        yield


@contextmanager
def gpu_shared(site: Site) -> Iterator[None]:
    """Write the GPU of one running pod into the annotation of another."""
    first, second = _two_pods(site)
    _forge(site, "a", {**_annotation(first), "containers": _annotation(second)["containers"]})
    yield


@contextmanager
def gpus_of_deleted_pods(site: Site) -> Iterator[None]:
    """Delete a pod by force while its process cannot be killed."""
    pod = site.start(pods.stubborn("stuck", 2, site.image, site.node))
    with stuck(site.machines, pod["metadata"]["uid"]):
        site.client.delete(f"{PODS}/stuck", gracePeriodSeconds="0")
        yield


@contextmanager
def allocations_rejected(site: Site) -> Iterator[None]:
    """Create a pod that names its node, so that no scheduler chooses its GPUs."""
    pod = pods.pod("unplaced", 1, site.image)
    pod["spec"]["nodeName"] = site.node
    _without_policy(site, "gputopo-scheduler-name", lambda: site.create(pod))
    yield


def _extended(amount: str | None) -> Object:
    return {
        "status": {"capacity": {_OTHER_RESOURCE: amount}, "allocatable": {_OTHER_RESOURCE: amount}}
    }


def _two_pods(site: Site) -> tuple[Object, Object]:
    first, second = (site.start(pods.pod(name, 1, site.image, site.node)) for name in "ab")
    return first, second


def _annotation(pod: Object) -> Object:
    found: Object = json.loads(pod["metadata"]["annotations"][GPUS_ANNOTATION])
    return found


def _forge(site: Site, pod: str, annotation: Object) -> None:
    """Write an annotation that only the extender may write."""
    change = {"metadata": {"annotations": {GPUS_ANNOTATION: json.dumps(annotation)}}}
    _without_policy(site, "gputopo-pod-fields", lambda: site.client.patch(f"{PODS}/{pod}", change))


def _without_policy(site: Site, policy: str, write: Callable[[], object]) -> None:
    """Do what an admission policy forbids; the policy has no binding meanwhile."""
    kept = site.get(f"{_BINDINGS}/{policy}")
    kept["metadata"] = {
        name: kept["metadata"][name]
        for name in ("name", "labels", "annotations")
        if name in kept["metadata"]
    }

    def written() -> bool:
        try:
            write()
        except RejectedError:  # the API server still knows the binding
            return False
        return True

    site.client.delete(f"{_BINDINGS}/{policy}")
    try:
        wait_for(f"a write that {policy} forbids", written)
    finally:
        site.client.create(_BINDINGS, kept)

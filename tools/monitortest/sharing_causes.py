"""Causes of the alerts about GPUs that pods share; each ends with its block."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from faulttest import pods
from gputopo.api.names import RESOURCE
from gputopo.api.shares import share_resource
from monitortest.site import Site
from sharetest.pods import CLIENT
from showcase.install import NAMESPACE as SYSTEM
from showcase.kubectl import wait_for
from soaktest.client import Object

MPS: Final = f"/apis/apps/v1/namespaces/{SYSTEM}/daemonsets/gputopo-mps"

_PROGRAM: Final = "/run/nvidia/driver/bin/nvidia-cuda-mps-control"
_REMOVED: Final = f"{_PROGRAM}.removed"
_DAEMON: Final = "/run/gputopo-mps/gpus/*/pipe/nvidia-cuda-mps-control.pid"
_NO_NODE: Final = "no-such-node"


def sharing_pod(name: str, image: str, node: str) -> Object:
    """Return a pod with a share of a GPU, which works on the GPU until it is deleted."""
    made = pods.pod(name, 1, image, node)
    (container,) = made["spec"]["containers"]
    container["command"] = ["python3", "-u", CLIENT, "--memory", "256M"]
    container["resources"] = {"limits": {share_resource(RESOURCE): "1"}}
    return made


@contextmanager
def mps_missing(site: Site) -> Iterator[None]:
    """Remove the component that runs MPS from all nodes."""
    template = {"spec": {"nodeSelector": {"kubernetes.io/hostname": _NO_NODE}}}
    before = {"spec": {"nodeSelector": {"kubernetes.io/hostname": None}}}
    with site.patched(MPS, {"spec": {"template": template}}, {"spec": {"template": before}}):
        yield


@contextmanager
def mps_failed(site: Site) -> Iterator[None]:
    """Kill the MPS daemon of a GPU that a pod uses, while the control program is missing."""
    site.start(sharing_pod("client", site.installed.trainer_image, site.node))
    wait_for("the pod works on the GPU", lambda: "ready" in site.log("client"))
    site.inside("mv", _PROGRAM, _REMOVED)
    try:
        site.inside("sh", "-c", f"kill -KILL $(cat {_DAEMON})")
        yield
    finally:
        site.inside("mv", _REMOVED, _PROGRAM)

"""Nodes publish the values of NVML, also when a GPU fails."""

import pytest

from faulttest import nvml
from gputopo import catalogue
from gputopo.api.names import RESOURCE
from gputopo.api.topology import from_spec
from gputopo.api.v1alpha1 import GPUTopologySpec
from localcluster.access import NodeAccess
from sandbox import Sandbox
from showcase.kubectl import Kubectl, Object, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("beside_counters")]

GPU_IS_LOST = "fault 5 15"
"""NVML returns error 15 for the GPU with index 5."""


def test_published_topologies_equal_the_catalogue(
    kubectl: Kubectl, dgx1: str, nvswitch: str, pcie: str
) -> None:
    names = {dgx1: "dgx1-v100", nvswitch: "dgx-a100", pcie: "pcie-8gpu"}
    for node, name in names.items():
        spec = GPUTopologySpec.model_validate(kubectl.get("gputopology", node)["spec"])
        assert from_spec(spec).fingerprint == catalogue.named(name).fingerprint


def _gpu(kubectl: Kubectl, node: str, uuid: str) -> Object:
    gpus = kubectl.get("gputopology", node)["status"]["gpus"]
    return next(gpu for gpu in gpus if gpu["uuid"] == uuid)


def _allocatable(kubectl: Kubectl, node: str) -> int:
    return int(kubectl.get("node", node)["status"]["allocatable"][RESOURCE])


def test_gpu_that_nvml_loses_is_unhealthy_and_the_rest_work(
    sandbox: Sandbox, pcie: str, nodes: NodeAccess
) -> None:
    kubectl = sandbox.kubectl
    lost = kubectl.get("gputopology", pcie)["spec"]["gpus"][5]["uuid"]
    with nvml.changed(nodes, pcie, GPU_IS_LOST):
        wait_for("the lost GPU is unhealthy", lambda: not _gpu(kubectl, pcie, lost)["healthy"])
        wait_for("kubelet counts 7 GPUs", lambda: _allocatable(kubectl, pcie) == 7)
        placement = sandbox.run_job("rest", 7, node=pcie)
        assert lost not in placement["intended"]
    wait_for("the GPU is healthy again", lambda: _gpu(kubectl, pcie, lost)["healthy"])
    wait_for("kubelet counts 8 GPUs", lambda: _allocatable(kubectl, pcie) == 8)

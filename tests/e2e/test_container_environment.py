"""No environment of a container gives it other GPUs than its own, by device nodes and by CDI."""

import json
from typing import Any

import pytest

import workloads
from charts import Chart
from gputopo.api.names import RESOURCE
from sandbox import Sandbox
from showcase.kubectl import Object, wait_for

pytestmark = pytest.mark.e2e

CDI = pytest.mark.chart(devicePlugin={"deviceInjection": "CDI"})
OVERRIDES = {"NVIDIA_VISIBLE_DEVICES": "all", "CUDA_VISIBLE_DEVICES": "0"}
ENV = [{"name": name, "value": value} for name, value in OVERRIDES.items()]


@pytest.fixture(scope="module", params=["DeviceNodes", pytest.param("CDI", marks=CDI)])
def injection(chart_values: Chart, request: pytest.FixtureRequest) -> str:
    """How the agents inject GPUs."""
    if request.param == "CDI":
        chart_values.use(CDI.kwargs)
    return str(request.param)


def container(name: str, gpus: int, image: str, **fields: Any) -> Object:
    spec = workloads.pod_spec(image, node=None, command=workloads.SLEEP, gpus=gpus)
    return {**spec["containers"][0], "name": name, **fields}


def pod(name: str, *containers: Object) -> Object:
    manifest = workloads.gpu_pod(name, 1, image="")
    manifest["spec"]["containers"] = list(containers)
    return manifest


def gpu_nodes_of(sandbox: Sandbox, name: str) -> list[str]:
    """Return the device nodes of GPUs in a pod's container."""
    listed = sandbox.kubectl.execute(name, sandbox.namespace, "sh", "-c", "ls -d /dev/nvidia[0-9]*")
    return sorted(listed.split())


def environment_of(sandbox: Sandbox, name: str) -> dict[str, str]:
    printed = sandbox.kubectl.execute(name, sandbox.namespace, "env")
    return dict(line.split("=", 1) for line in printed.splitlines() if "=" in line)


def test_containers_get_their_gpus_in_rank_order(sandbox: Sandbox, injection: str) -> None:
    two = [container("first", 2, sandbox.image), container("second", 1, sandbox.image)]
    sandbox.create(pod("three", container("main", 3, sandbox.image)), pod("two", *two))
    sandbox.wait_running(2)
    found = sandbox.assert_sources_agree()
    sizes = {(one.pod, one.container): len(one.visible) for one in found}
    assert sizes == {("three", "main"): 3, ("two", "first"): 2, ("two", "second"): 1}
    uuids = environment_of(sandbox, "three")["CUDA_VISIBLE_DEVICES"]
    seen = environment_of(sandbox, "three")["NVIDIA_VISIBLE_DEVICES"]
    assert seen == {"DeviceNodes": uuids, "CDI": "void"}[injection]


def test_env_from_a_config_map_adds_no_gpu(sandbox: Sandbox, injection: str) -> None:
    metadata = {"name": "overrides"}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": OVERRIDES}
    sandbox.create(config)
    source = [{"configMapRef": {"name": "overrides"}}]
    sandbox.create(pod("main", container("main", 2, sandbox.image, envFrom=source)))
    sandbox.wait_running(1)
    environment = environment_of(sandbox, "main")
    assert environment["CUDA_VISIBLE_DEVICES"] == "0", "kubelet puts it after the agent's"
    # The CDI spec of the node has the last word, as with `nvidia-ctk cdi generate`.
    seen = environment["NVIDIA_VISIBLE_DEVICES"]
    assert seen == {"DeviceNodes": "all", "CDI": "void"}[injection]
    gpus = sandbox.kubectl.get("gputopology", node_of(sandbox, "main"))["spec"]["gpus"]
    minors = {gpu["uuid"]: gpu["minor"] for gpu in gpus}
    own = sorted(f"/dev/nvidia{minors[uuid]}" for uuid in sandbox.gpus_of("main"))
    assert gpu_nodes_of(sandbox, "main") == own


def node_of(sandbox: Sandbox, name: str) -> str:
    return str(sandbox.kubectl.get("pod", name, sandbox.namespace)["spec"]["nodeName"])


@pytest.mark.parametrize("variable", OVERRIDES)
def test_a_pod_whose_spec_sets_visible_devices_is_rejected(sandbox: Sandbox, variable: str) -> None:
    env = [{"name": variable, "value": OVERRIDES[variable]}]
    manifest = sandbox.placed(pod("main", container("main", 1, sandbox.image, env=env)))
    message = sandbox.kubectl.rejection_message("create", "-f", "-", stdin=json.dumps(manifest))
    assert f"spec.containers[main].env[{variable}]: remove this variable" in message
    assert RESOURCE in message


def test_a_gpujob_whose_template_sets_visible_devices_says_so_in_its_status(
    sandbox: Sandbox,
) -> None:
    job = workloads.gpu_job("override", 1, image=sandbox.image)
    job["spec"]["template"]["spec"]["containers"][0]["env"] = ENV
    sandbox.create(job)

    def rejected() -> str | None:
        status = sandbox.kubectl.get("gpujob", "override", sandbox.namespace).get("status", {})
        for condition in status.get("conditions", []):
            if (condition["type"], condition["reason"]) == ("Accepted", "SpecRefused"):
                return str(condition["message"])
        return None

    message = wait_for("the GPUJob is rejected", rejected)
    assert "spec.template.spec.containers[0].env[NVIDIA_VISIBLE_DEVICES]: 'all'" in message

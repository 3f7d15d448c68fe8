"""The admission policies for pods that share GPUs, on a real API server."""

import itertools
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from support.control_plane import api_server
from support.control_plane.api_server import PODS, START_SECONDS, ApiResponse, ApiServer, User
from support.features import MUTATING_POLICIES, why_skipped
from support.helm_chart import Helm

ALICE = User("alice", ("system:masters",))
ONE_SHARE = {"limits": {"gputopo.io/gpu-share": "1"}}
SLEEP = {"preStop": {"sleep": {"seconds": 2}}}
_number = itertools.count()


@pytest.fixture(scope="module")
def sharing(
    kubernetes_binaries: Path, helm: Helm, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApiServer]:
    """An API server with a chart that shares GPUs."""
    folder = tmp_path_factory.mktemp("sharing")
    with api_server.running(kubernetes_binaries, folder) as server:
        helm.install(server.kubeconfig, {"sharing": {"enabled": True}})
        api_server.wait_for_policies(server)
        wait_until_rejected(server, env=["CUDA_MPS_PIPE_DIRECTORY"])
        yield server


@pytest.fixture(scope="module")
def mutating(sharing: ApiServer) -> ApiServer:
    """The server while it delays the end of sharing pods."""
    if not sharing.serves(MUTATING_POLICIES):
        version = sharing.get("/version").body["gitVersion"]
        pytest.skip(why_skipped(version, MUTATING_POLICIES, served=False))
    deadline = time.monotonic() + START_SECONDS
    while created(sharing, main())[0].get("lifecycle") != SLEEP:
        assert time.monotonic() < deadline, "the policy changes no pod"
        time.sleep(0.1)
    return sharing


def main(**fields: Any) -> dict[str, Any]:
    return {"name": "main", "image": "busybox", "resources": ONE_SHARE, **fields}


def request(
    server: ApiServer,
    *containers: dict[str, Any],
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> ApiResponse:
    """Create a pod without storing it."""
    metadata = {"name": f"share-{next(_number)}", "annotations": annotations or {}}
    body = {
        "metadata": metadata,
        "spec": {"schedulerName": "gputopo", "containers": list(containers), **spec},
    }
    return server.request("POST", f"{PODS}?dryRun=All", body, user=ALICE)


def created(
    server: ApiServer, *containers: dict[str, Any], **annotations: str
) -> list[dict[str, Any]]:
    """Return the containers of a pod as they are stored."""
    named = {f"gputopo.io/{name.replace('_', '-')}": it for name, it in annotations.items()}
    response = request(server, *containers, annotations=named)
    assert response.accepted, response.message
    found: list[dict[str, Any]] = response.body["spec"]["containers"]
    return found


def with_env(names: Sequence[str], value: str = "x", **fields: Any) -> dict[str, Any]:
    return main(env=[{"name": name, "value": value} for name in names], **fields)


def wait_until_rejected(server: ApiServer, env: Sequence[str]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while request(server, with_env(env)).accepted:
        assert time.monotonic() < deadline, "the policy is not in force"
        time.sleep(0.1)


@pytest.mark.parametrize(
    "name",
    [
        "CUDA_MPS_PIPE_DIRECTORY",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
        "NVIDIA_VISIBLE_DEVICES",
        "CUDA_VISIBLE_DEVICES",
    ],
)
def test_variables_of_mps_and_gpus_are_rejected(sharing: ApiServer, name: str) -> None:
    response = request(sharing, with_env([name]))
    assert not response.accepted
    assert f"spec.containers[main].env[{name}]: remove this variable" in response.message


def test_containers_without_shares_may_set_variables_of_mps(sharing: ApiServer) -> None:
    whole = {"limits": {"gputopo.io/gpu": "1"}}
    assert request(sharing, with_env(["CUDA_MPS_LOG_DIRECTORY"], resources=whole)).accepted
    beside = {**with_env(["CUDA_MPS_LOG_DIRECTORY"]), "name": "other", "resources": {}}
    assert request(sharing, main(), beside).accepted
    assert request(sharing, main(), {**with_env(["OTHER"]), "name": "other"}).accepted


def test_a_container_with_a_share_has_no_shared_memory_of_its_own(sharing: ApiServer) -> None:
    mounted = [{"name": "memory", "mountPath": "/dev/shm"}]  # noqa: S108 - in the container
    volumes = [{"name": "memory", "emptyDir": {"medium": "Memory"}}]
    response = request(sharing, main(volumeMounts=mounted), volumes=volumes)
    assert not response.accepted
    assert "mounts a volume at /dev/shm; remove the mount" in response.message
    elsewhere = [{"name": "memory", "mountPath": "/cache"}]
    assert request(sharing, main(volumeMounts=elsewhere), volumes=volumes).accepted
    other = {"name": "other", "image": "busybox", "volumeMounts": mounted}
    assert request(sharing, main(), other, volumes=volumes).accepted


def test_only_gputopo_schedules_pods_that_request_shares(sharing: ApiServer) -> None:
    response = request(sharing, main(), schedulerName="default-scheduler")
    assert not response.accepted
    assert "schedulerName" in response.message


def test_the_end_of_a_sharing_container_is_delayed(mutating: ApiServer) -> None:
    plain = {"name": "plain", "image": "busybox"}
    found = {each["name"]: each for each in created(mutating, main(), plain)}
    assert found["main"]["lifecycle"] == SLEEP
    assert "lifecycle" not in found["plain"]
    assert found["main"]["resources"]["limits"] == ONE_SHARE["limits"]


def test_a_hook_of_the_user_stays(mutating: ApiServer) -> None:
    own = {"preStop": {"exec": {"command": ["save"]}}}
    [found] = created(mutating, main(lifecycle=own))
    assert found["lifecycle"] == own


def test_a_hook_after_the_start_is_kept_beside_the_delay(mutating: ApiServer) -> None:
    own = {"postStart": {"exec": {"command": ["warm-up"]}}}
    [found] = created(mutating, main(lifecycle=own))
    assert found["lifecycle"] == {**own, **SLEEP}


def test_a_program_that_ends_itself_gets_no_hook(mutating: ApiServer) -> None:
    [found] = created(mutating, main(), sharing_termination="Program")
    assert "lifecycle" not in found
    [found] = created(mutating, main(), sharing_termination="Client")
    assert found["lifecycle"] == SLEEP


@pytest.mark.parametrize("seconds", [0, 1])
def test_pods_without_time_for_the_hook_are_accepted_without_it(
    mutating: ApiServer, seconds: int
) -> None:
    response = request(mutating, main(), terminationGracePeriodSeconds=seconds)
    assert response.accepted, response.message
    assert "lifecycle" not in response.body["spec"]["containers"][0]
    response = request(mutating, main(), terminationGracePeriodSeconds=2)
    assert response.body["spec"]["containers"][0]["lifecycle"] == SLEEP


def test_pods_with_whole_gpus_get_no_hook(mutating: ApiServer) -> None:
    [found] = created(mutating, main(resources={"limits": {"gputopo.io/gpu": "1"}}))
    assert "lifecycle" not in found

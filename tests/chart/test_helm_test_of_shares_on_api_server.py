"""The account of ``helm test`` may create two pods that share a GPU, and no other pods."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gputopo.api.names import RESOURCE, SCHEDULER_NAME
from gputopo_operator.installtest import shares
from support.control_plane import api_server
from support.control_plane.api_server import ApiServer, User, service_account
from support.control_plane.hooks import create_hooks, delete_hooks
from support.control_plane.scheduler_pairs import wait_until
from support.helm_chart import Helm, Object, find

NAMESPACE = "gputopo-system"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
PROFILES = f"/apis/gputopo.io/v1alpha1/namespaces/{NAMESPACE}/gpuprofiles"
TESTER = service_account("gputopo-test")
ALICE = User("alice", ("system:masters",))
VALUES = {"sharing": {"enabled": True}}


@pytest.fixture(scope="module")
def image(helm: Helm) -> str:
    """The image that the chart gives to the test."""
    (main,) = find(helm.render(VALUES, hooks=True), "Pod", "gputopo-test")["spec"]["containers"]
    found = {word.partition("=")[0]: word.partition("=")[2] for word in main["args"]}
    assert found["--sharing"] == "Together"
    return str(found["--image"])


@pytest.fixture(scope="module")
def tested(
    kubernetes_binaries: Path, helm: Helm, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApiServer]:
    """An API server with a chart that shares GPUs, and the account of the test."""
    folder = tmp_path_factory.mktemp("sharing-test")
    with api_server.running(kubernetes_binaries, folder) as server:
        helm.install(server.kubeconfig, VALUES)
        api_server.wait_for_policies(server)
        hooks = helm.render(VALUES, hooks=True)
        create_hooks(server, hooks)
        containers = [{"name": "a", "image": "b"}]
        other = {"metadata": {"name": "other"}, "spec": {"containers": containers}}

        def is_limited() -> bool:
            response = server.create(PODS, other, user=TESTER)
            if response.accepted:
                server.delete(f"{PODS}/other")
            return "dryRun" in response.message

        wait_until(is_limited, seconds=60)
        yield server
        delete_hooks(server, hooks)


def share_pod(image: str) -> Object:
    return shares.pod(shares.PODS[0], "n1", RESOURCE, SCHEDULER_NAME, image)


def test_both_pods_and_their_profile_can_be_created_read_and_deleted(
    tested: ApiServer, image: str
) -> None:
    created = tested.create(PROFILES, shares.profile(NAMESPACE), user=TESTER)
    assert created.accepted, created.message
    for name in shares.PODS:
        pod = shares.pod(name, "n1", RESOURCE, SCHEDULER_NAME, image)
        response = tested.create(PODS, pod, user=TESTER)
        assert response.accepted, response.message
        assert tested.get(f"{PODS}/{name}", user=TESTER).accepted
        assert tested.request("DELETE", f"{PODS}/{name}", user=TESTER).accepted
    assert tested.request("DELETE", f"{PROFILES}/{shares.PROFILE}", user=TESTER).accepted


@pytest.mark.parametrize(
    ("spec", "main"),
    [
        ({"hostPID": True}, {}),
        ({"hostNetwork": True}, {}),
        ({"serviceAccountName": "gputopo-scheduler"}, {}),
        ({"automountServiceAccountToken": True}, {}),
        ({"volumes": [{"name": "a", "hostPath": {"path": "/"}}]}, {}),
        ({"initContainers": [{"name": "a", "image": "b"}]}, {}),
        ({}, {"image": "busybox"}),
        ({}, {"env": [{"name": "A", "value": "b"}]}),
        ({}, {"securityContext": {"privileged": True}}),
        ({}, {"securityContext": {}}),
    ],
    ids=lambda each: ",".join(each) if isinstance(each, dict) else None,
)
def test_pod_that_could_do_more_is_rejected(
    tested: ApiServer, image: str, spec: dict[str, Any], main: dict[str, Any]
) -> None:
    pod = copy.deepcopy(share_pod(image))
    pod["spec"].update(spec)
    pod["spec"]["containers"][0].update(main)
    response = tested.create(PODS, pod, user=TESTER)
    assert response.status in {403, 422}, response.message
    assert "only with dryRun=All" in response.message


def test_no_other_pod_can_be_created_or_read(tested: ApiServer, image: str) -> None:
    pod = share_pod(image)
    pod["metadata"]["name"] = "another"
    response = tested.create(PODS, pod, user=TESTER)
    assert "only with dryRun=All" in response.message
    assert tested.create(PODS, pod, user=ALICE).accepted
    assert tested.get(f"{PODS}/another", user=TESTER).status == 403
    assert tested.request("DELETE", f"{PODS}/another", user=TESTER).status == 403
    tested.delete(f"{PODS}/another")

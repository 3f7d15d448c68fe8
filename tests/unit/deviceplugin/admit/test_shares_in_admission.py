"""Identification and verification of containers with shares of GPUs."""

from collections.abc import Mapping, Sequence

import pytest

from gputopo.api.names import RESOURCE
from gputopo.api.shares import share_id
from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.admit.admission import NO_SHARING
from gputopo_deviceplugin.admit.identify import (
    AdmissionRejection,
    AdmissionResult,
    ContainerAllocation,
    PreferenceRequest,
    identify,
)
from gputopo_deviceplugin.admit.usage import GpuUser, PodState
from gputopo_deviceplugin.admit.verify import excluded_by, intended_users, verify
from gputopo_deviceplugin.apiserver.node_api import parse_node_pod
from gputopo_deviceplugin.kubelet.pod_resources import ListedPod
from gputopo_kube.document import ObjectKey
from gputopo_kube.pods import PodView
from support.agent.world import annotation_of, pod_document
from support.builders.shares import share_container, sharing_pod

GPUS = [GpuUuid(f"GPU-{index}") for index in range(2)]
SHARES = [share_id(gpu, number) for gpu in GPUS for number in range(2)]
A0, A1, B0, B1 = SHARES


def sharing(name: str, share: GpuUuid) -> PodView:
    return parse_node_pod(sharing_pod(name, share=share), RESOURCE)


def whole(name: str, gpu: GpuUuid) -> PodView:
    annotation = annotation_of(name, {"main": [gpu]})
    return parse_node_pod(pod_document(name, {"main": 1}, annotation=annotation), RESOURCE)


def identified(
    devices: Sequence[GpuUuid], pods: Sequence[PodView], **used: GpuUuid
) -> AdmissionResult:
    """Identify the pod of a request for one of these devices; ``used`` is by name of the pod."""
    listed = [
        ListedPod(each.key, {"main": frozenset(filter(None, [used.get(each.key.name)]))})
        for each in pods
    ]
    request = PreferenceRequest(frozenset(devices), frozenset(), 1)
    return identify(request, listed, {each.key: each for each in pods}, node="n1", rejected=())


def reason(found: AdmissionResult) -> str:
    assert isinstance(found, AdmissionRejection)
    return found.reason


def test_kind_of_the_devices_identifies_the_pod() -> None:
    pods = [sharing("share", A1), whole("whole", GPUS[1])]
    found = identified(SHARES, pods)
    assert found == ContainerAllocation(pods[0], "main", (A1,))
    assert identified(GPUS, pods) == ContainerAllocation(pods[1], "main", (GPUS[1],))


def test_two_pods_that_wait_for_a_share_are_not_identified() -> None:
    found = identified(SHARES, [sharing("a", A0), sharing("b", A1)])
    assert "several pods wait for 1 shares, and kubelet does not name" in reason(found)
    found = identified(SHARES, [whole("a", GPUS[0])])
    assert reason(found) == (
        "no pod of this node waits for 1 shares in its next container (waiting: default/a for 1)"
    )


@pytest.mark.parametrize(
    ("used", "waiting", "expected"),
    [
        (A0, sharing("b", A1), None),
        (A0, sharing("b", A0), "GPU-0::0 is used by pod default/a"),
        (A0, whole("b", GPUS[0]), "GPU-0::0 is used by pod default/a"),
        (GPUS[0], sharing("b", A1), "GPU-0 is used by pod default/a"),
        (GPUS[1], sharing("b", A1), None),
    ],
)
def test_device_that_kubelet_lists_excludes_others(
    used: GpuUuid, waiting: PodView, expected: str | None
) -> None:
    first = sharing("a", used) if "::" in used else whole("a", used)
    devices = SHARES if waiting.shares else GPUS
    found = identified(devices, [first, waiting], a=used)
    if expected is None:
        assert isinstance(found, ContainerAllocation)
    else:
        assert reason(found) == f"pod default/b: {expected}"


def test_annotation_with_the_wrong_kind_of_device_is_rejected() -> None:
    found = identified(SHARES, [sharing("a", GPUS[0])])
    assert reason(found) == "pod default/a: GPU-0 is not available on this node now"


def checked(
    pod: PodView,
    device: GpuUuid,
    *others: PodView,
    users: Mapping[GpuUuid, GpuUser] | None = None,
    fault: str | None = None,
) -> AdmissionResult:
    health = dict.fromkeys([*GPUS, *SHARES]) | {device: fault}
    expected = ContainerAllocation(pod, "main", (device,))
    return verify([device], expected, [pod, *others], node="n1", users=users or {}, health=health)


def test_intended_devices_exclude_others() -> None:
    share, other, gpu = sharing("a", A0), sharing("b", A1), whole("c", GPUS[0])
    assert isinstance(checked(share, A0, other), ContainerAllocation)
    assert reason(checked(share, A0, gpu)) == "pod default/a: GPU-0 is used by pod default/c"
    assert reason(checked(gpu, GPUS[0], other)) == (
        "pod default/c: GPU-0::1 is used by pod default/b"
    )
    assert isinstance(checked(gpu, GPUS[0], sharing("d", B0)), ContainerAllocation)


def test_process_of_a_deleted_pod_excludes_others() -> None:
    user = GpuUser(ObjectKey("default", "old"), "main", "uid-old", PodState.DELETED)
    found = checked(whole("a", GPUS[0]), GPUS[0], users={A1: user})
    assert reason(found) == (
        "pod default/a: GPU-0::1 is in use by a process of deleted pod default/old"
    )
    assert isinstance(checked(sharing("b", A0), A0, users={A1: user}), ContainerAllocation)
    found = checked(sharing("b", A1), A1, users={A1: user})
    assert "process of deleted pod default/old" in reason(found)


def test_share_that_is_not_offered_or_not_healthy_is_rejected() -> None:
    gone = share_id(GPUS[0], 7)
    expected = ContainerAllocation(sharing("a", gone), "main", (gone,))
    found = verify([gone], expected, [], node="n1", users={}, health=dict.fromkeys(SHARES))
    assert reason(found) == "pod default/a: this node has no GPU-0::7"
    found = checked(sharing("a", A0), A0, fault="MPS is in state Fault")
    assert reason(found) == "pod default/a: GPU-0::0 is unhealthy: MPS is in state Fault"


def test_excluded_devices_and_their_intended_users() -> None:
    assert excluded_by([A0]) == {A0, GPUS[0]}
    assert excluded_by([]) == frozenset()
    assert {GPUS[0], A0, A1, share_id(GPUS[0], 47)} <= excluded_by([GPUS[0]])
    pods = [sharing("a", A0), sharing("b", A1), whole("c", GPUS[1])]
    assert intended_users([GPUS[0]], "uid-b", pods, "n1").keys() == {A0}
    assert intended_users([A1], None, pods, "n1").keys() == {A1}


async def test_agent_without_shares_rejects_them_and_serves_whole_gpus() -> None:
    gpu = ContainerAllocation(whole("a", GPUS[0]), "main", (GPUS[0],))
    assert await NO_SHARING.prepare(gpu) is gpu
    share = ContainerAllocation(sharing("b", A0), "main", (A0,))
    assert reason(await NO_SHARING.prepare(share)) == (
        "pod default/b: this node offers no shares of GPUs"
    )


def test_container_with_both_resources_gets_no_share() -> None:
    document = sharing_pod("both", share=A0, containers=[share_container(gpus=1)])
    found = identified(SHARES, [parse_node_pod(document, RESOURCE)])
    assert "no pod of this node waits for 1 shares" in reason(found)

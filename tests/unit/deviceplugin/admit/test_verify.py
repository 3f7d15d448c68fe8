import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from gputopo.api.names import GPUS_ANNOTATION
from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.admit.identify import (
    AdmissionRejection,
    ContainerAllocation,
    PreferenceRequest,
)
from gputopo_deviceplugin.admit.response import cdi_response, device_node_response
from gputopo_deviceplugin.admit.usage import GpuUser, PodState
from gputopo_deviceplugin.admit.verify import preferred_gpus, verify
from gputopo_deviceplugin.gpus.health import Health
from gputopo_kube.document import ObjectKey
from gputopo_kube.gpu_containers import ContainerKind, GpuContainer
from gputopo_kube.pods import PodView
from support.builders.topologies import node

TOPOLOGY = node(0, 1, 2, 3)
ALL = [gpu.uuid for gpu in TOPOLOGY.gpus]
HEALTHY: Health = dict.fromkeys(ALL)


def pod(name: str, *indices: int, uid: str | None = None) -> PodView:
    uid = uid or f"uid-{name}"
    placed = {"main": [ALL[index] for index in indices]}
    annotation = {"uid": uid, "node": "n1", "generation": 1, "containers": placed}
    return PodView(
        uid=uid,
        key=ObjectKey("default", name),
        node="n1",
        containers=(GpuContainer("main", len(indices)),),
        annotations={GPUS_ANNOTATION: json.dumps(annotation)},
    )


def identified(record: PodView, *indices: int) -> ContainerAllocation:
    return ContainerAllocation(record, "main", tuple(ALL[index] for index in indices))


def check(
    taken: Sequence[int],
    expected: ContainerAllocation | AdmissionRejection | None,
    *pods: PodView,
    users: Mapping[GpuUuid, GpuUser] | None = None,
    health: Health = HEALTHY,
) -> ContainerAllocation | AdmissionRejection:
    gpus = [ALL[index] for index in taken]
    return verify(gpus, expected, pods, node="n1", users=users or {}, health=health)


def reason(outcome: ContainerAllocation | AdmissionRejection) -> str:
    assert isinstance(outcome, AdmissionRejection)
    return outcome.reason


def test_the_preference_is_the_chosen_gpus() -> None:
    request = PreferenceRequest(frozenset(ALL), frozenset(), 2)
    assert preferred_gpus(request, identified(pod("a", 3, 1), 3, 1)) == (ALL[3], ALL[1])


def test_a_rejection_is_returned_at_once_unless_kubelet_has_taken_gpus_already() -> None:
    rejection = AdmissionRejection("no")
    assert preferred_gpus(PreferenceRequest(frozenset(ALL), frozenset(), 2), rejection) == rejection
    taken = PreferenceRequest(frozenset(ALL), frozenset([ALL[2]]), 3)
    assert preferred_gpus(taken, rejection) == (ALL[2], ALL[0], ALL[1])


def test_the_order_in_which_kubelet_names_gpus_does_not_matter() -> None:
    expected = identified(pod("a", 3, 1), 3, 1)
    assert check([1, 3], expected) == expected


def test_other_gpus_than_the_intended_ones_are_rejected() -> None:
    message = reason(check([0, 1], identified(pod("a", 3, 1), 3, 1)))
    assert message == (
        f"pod default/a: kubelet took {ALL[0]} {ALL[1]}, but container main should have "
        f"{ALL[1]} {ALL[3]}"
    )


def test_a_rejected_pod_stays_rejected() -> None:
    assert reason(check([0], AdmissionRejection("the reason"), pod("a", 0))) == "the reason"


def test_unhealthy_unknown_and_used_gpus_are_rejected() -> None:
    a = identified(pod("a", 0), 0)
    faulty = {**HEALTHY, ALL[0]: "XID 79"}
    assert reason(check([0], a, health=faulty)) == f"pod default/a: {ALL[0]} is unhealthy: XID 79"
    assert reason(check([0], a, health={})) == f"pod default/a: this node has no {ALL[0]}"
    other = {ALL[0]: GpuUser(ObjectKey("default", "b"), "main", "uid-b")}
    assert reason(check([0], a, users=other)) == f"pod default/a: {ALL[0]} is used by pod default/b"


def test_a_container_may_use_its_own_gpus_but_not_those_of_a_former_pod_of_its_name() -> None:
    a = identified(pod("a", 0), 0)
    own = {ALL[0]: GpuUser(a.pod.key, "main", "uid-a")}
    assert check([0], a, users=own) == a
    former = {ALL[0]: GpuUser(a.pod.key, "main", "uid-before")}
    assert "is used by pod default/a" in reason(check([0], a, users=former))


def lender(name: str, *indices: int) -> tuple[PodView, dict[GpuUuid, GpuUser]]:
    """Return a pod whose init container uses these GPUs, and the users."""
    record = pod(name, *indices)
    init = GpuContainer("warm", len(indices), ContainerKind.INIT)
    user = GpuUser(record.key, "warm", record.uid)
    return replace(record, containers=(init, *record.containers)), {
        ALL[index]: user for index in indices
    }


def test_gpus_of_an_init_container_need_no_preference_request() -> None:
    a, used = lender("a", 3, 2)
    assert check([2, 3], None, pod("b", 0), a, users=used) == identified(a, 3, 2)


def test_other_gpus_are_rejected_without_a_preference_request() -> None:
    message = reason(check([2, 3], None, pod("a", 3, 2)))
    assert message == (
        f"kubelet called Allocate for {ALL[2]} {ALL[3]} without GetPreferredAllocation; "
        "perhaps kubelet or the agent has just restarted, or another device plugin has registered "
        "the same resource; create the pod again"
    )
    a, used = lender("a", 3, 2)
    b, others = lender("b", 0)
    both = reason(check([0, 3], None, a, b, users={**used, **others}))
    assert f"({ALL[0]} is used by pod default/b; {ALL[3]} is used by pod default/a)" in both
    assert "without GetPreferredAllocation" in reason(
        check([3], None, a, users=used)
    )  # all of them must be the same
    assert "without GetPreferredAllocation" in reason(check([], None, a, users=used))


def test_only_a_live_placed_pod_reuses_gpus() -> None:
    a, used = lender("a", 0)
    for other in (
        replace(a, phase="Failed"),
        replace(a, deleting=True),
        replace(a, uid="uid-copy"),
        replace(a, annotations={}),
        replace(a, containers=(a.containers[0],)),
        replace(a, containers=(a.containers[0], GpuContainer("main", 2))),
    ):
        assert "without GetPreferredAllocation" in reason(check([0], None, other, users=used))


def test_gpus_that_a_container_keeps_are_not_reused() -> None:
    a = pod("a", 0)
    kept = {ALL[0]: GpuUser(a.key, "main", a.uid)}
    twice = replace(a, containers=(*a.containers, GpuContainer("main", 1)))
    assert "is used by pod default/a" in reason(check([0], None, twice, users=kept))


def test_environment_and_devices_are_in_rank_order() -> None:
    gpus = {gpu.uuid: replace(gpu, minor=gpu.minor + 4) for gpu in TOPOLOGY.gpus}
    response = device_node_response((ALL[2], ALL[0]), gpus, ["nvidiactl"], Path("/host/dev"))
    both = f"{ALL[2]},{ALL[0]}"
    assert response.envs == {"CUDA_VISIBLE_DEVICES": both, "NVIDIA_VISIBLE_DEVICES": both}
    assert [(each.container_path, each.host_path) for each in response.devices] == [
        (f"/dev/{name}", f"/host/dev/{name}") for name in ("nvidia6", "nvidia4", "nvidiactl")
    ]
    assert not response.cdi_devices


def test_cdi_devices_are_in_rank_order_and_the_nvidia_hook_adds_none() -> None:
    response = cdi_response((ALL[2], ALL[0]), "nvidia.com/gpu")
    assert response.envs == {
        "CUDA_VISIBLE_DEVICES": f"{ALL[2]},{ALL[0]}",
        "NVIDIA_VISIBLE_DEVICES": "void",
    }
    names = [each.name for each in response.cdi_devices]
    assert names == [f"nvidia.com/gpu={ALL[2]}", f"nvidia.com/gpu={ALL[0]}"]
    assert not response.devices


def test_a_rejection_names_the_deleted_or_ended_pod_whose_process_uses_the_gpu() -> None:
    a = identified(pod("a", 0), 0)
    key = ObjectKey("default", "old")
    deleted = {ALL[0]: GpuUser(key, "main", "uid-old", PodState.DELETED)}
    text = f"{ALL[0]} is in use by a process of deleted pod default/old"
    assert reason(check([0], a, users=deleted)) == f"pod default/a: {text}"
    assert f"({text})" in reason(check([0], None, a.pod, users=deleted))
    ended = {ALL[0]: GpuUser(key, "main", "uid-old", PodState.ENDED)}
    assert "by a process of ended pod default/old" in reason(check([0], a, users=ended))
    annotated = pod("b", 0)
    assert text in reason(check([0], a, a.pod, annotated, users=deleted))

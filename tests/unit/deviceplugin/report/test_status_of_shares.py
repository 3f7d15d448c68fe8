"""Users of shares in the status of a GPUTopology, and the capacity beside sharing pods."""

from gputopo.api.names import GPUS_ANNOTATION, RESOURCE
from gputopo.api.shares import share_id
from gputopo.api.v1alpha1 import GPUTopologyStatus, SharingCapacity
from gputopo_deviceplugin.admit.usage import GpuUser, PodState
from gputopo_deviceplugin.apiserver.node_api import parse_node_pod
from gputopo_deviceplugin.apiserver.node_pods import PodsVersion
from gputopo_deviceplugin.gpus.hardware import NodeHardware
from gputopo_deviceplugin.gpus.state import MpsFaults
from gputopo_deviceplugin.report.node_conditions import mps_condition, ready_condition
from gputopo_deviceplugin.report.sized_capacity import sized_capacity
from gputopo_deviceplugin.report.status import NodeObservation, build_status, observed_gpus
from gputopo_kube.document import ObjectKey
from support.builders.objects import pod
from support.builders.shares import sharing_pod
from support.builders.topologies import node

TOPOLOGY = node(0, 1, 2)
FIRST, SECOND, THIRD = (gpu.uuid for gpu in TOPOLOGY.gpus)
HEALTHY = dict.fromkeys((FIRST, SECOND, THIRD))


def user(name: str, state: PodState = PodState.LIVE) -> GpuUser:
    return GpuUser(ObjectKey("ml", name), "main", f"uid-{name}", state)


def test_first_share_is_also_the_user_of_the_gpu() -> None:
    users = {share_id(FIRST, 2): user("b"), share_id(FIRST, 0): user("a", PodState.DELETED)}
    gpu, other, _ = (each.to_json() for each in observed_gpus(HEALTHY, users))
    assert gpu == {
        "uuid": FIRST,
        "healthy": True,
        "podUID": "uid-a",
        "namespace": "ml",
        "pod": "a",
        "container": "main",
        "podDeleted": True,
        "shares": [
            {
                "id": f"{FIRST}::0",
                "podUID": "uid-a",
                "namespace": "ml",
                "pod": "a",
                "container": "main",
                "podDeleted": True,
            },
            {
                "id": f"{FIRST}::2",
                "podUID": "uid-b",
                "namespace": "ml",
                "pod": "b",
                "container": "main",
            },
        ],
    }
    assert other == {"uuid": SECOND, "healthy": True}


def test_user_of_the_whole_gpu_stays_beside_shares() -> None:
    users = {FIRST: user("whole"), share_id(FIRST, 0): user("a")}
    gpu = observed_gpus(HEALTHY, users)[0]
    assert (gpu.pod, [each.pod for each in gpu.shares or ()]) == ("whole", ["a"])


def test_faults_of_mps_are_reported_beside_the_health() -> None:
    faults = MpsFaults({FIRST: "MPS is in state Fault"}, {SECOND: "processes 12 use it"})
    gpu, other, third = observed_gpus(HEALTHY, {}, faults)
    assert (gpu.healthy, gpu.sharing_fault, gpu.whole_fault) == (
        *(True, "MPS is in state Fault"),
        None,
    )
    assert (other.sharing_fault, other.whole_fault) == (None, "processes 12 use it")
    assert (third.sharing_fault, third.whole_fault) == (None, None)


def test_condition_shows_whether_the_component_responds() -> None:
    found = mps_condition(MpsFaults())
    assert (found.type, found.holds, found.reason) == ("MPSReady", True, "Responding")
    found = mps_condition(MpsFaults(outage="no response"))
    assert (found.holds, found.reason, found.message) == (False, "NotResponding", "no response")


def test_status_has_the_capacity_for_sharing() -> None:
    hardware = NodeHardware(TOPOLOGY, HEALTHY, None)
    observation = NodeObservation(
        hardware=hardware,
        ready=ready_condition(hardware, None, registered=True, watched=True),
        gpus=observed_gpus(HEALTHY, {}),
        differing=[],
        pods_version=PodsVersion(7, 7),
        processes_visible=True,
        sharing=SharingCapacity(most_pods=4),
    )
    status = build_status(observation, generation=1, before=GPUTopologyStatus(), now="t")
    assert status.to_json()["sharing"] == {"maxPodsPerGPU": 4}


def test_pods_with_shares_of_one_gpu_leave_the_others_for_sized_pods() -> None:
    unknown = sharing_pod("unknown", node="n1")
    invalid = sharing_pod("invalid", node="n1", annotations={GPUS_ANNOTATION: "{"})
    documents = [
        sharing_pod("a", share=f"{FIRST}::0"),
        sharing_pod("b", share=f"{FIRST}::1"),
        sharing_pod("c", share=f"{SECOND}::1"),
        pod("whole", 1, node="n1"),
        unknown,
        invalid,
    ]
    capacity = sized_capacity(
        {"status": {"allocatable": {"cpu": "8", "memory": "64Gi", RESOURCE: "8"}}},
        [parse_node_pod(each, RESOURCE) for each in documents],
        RESOURCE,
    )
    assert capacity is not None
    assert capacity.gpus == 5

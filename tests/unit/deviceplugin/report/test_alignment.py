"""What the agent reports so that the extender can predict kubelet."""

import json

from gputopo.api.alignment import NumaCpus
from gputopo.api.names import GPUS_ANNOTATION
from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.kubelet.numa_rule import TopologyPolicy
from gputopo_deviceplugin.kubelet.pod_resources import ListedPod
from gputopo_deviceplugin.report.alignment import bound_pods, kubelet_alignment
from gputopo_kube.aligned_containers import AlignedContainer
from gputopo_kube.document import ObjectKey
from gputopo_kube.gpu_containers import GpuContainer
from gputopo_kube.pods import PodView

STATIC = TopologyPolicy("restricted", scope="pod", exclusive_cpus=True)
CPUS_OF = {0: frozenset({0, 1}), 1: frozenset({2, 3})}
ALLOCATABLE = frozenset({1, 2, 3})


def placed(name: str, *gpus: str, cpus: int = 0, phase: str = "Running") -> PodView:
    annotation = {"uid": f"uid-{name}", "node": "n1", "generation": 1, "containers": {"main": gpus}}
    return PodView(
        uid=f"uid-{name}",
        key=ObjectKey("default", name),
        node="n1",
        phase=phase,
        containers=(GpuContainer("main", len(gpus)),),
        annotations={GPUS_ANNOTATION: json.dumps(annotation)},
        exclusive=(AlignedContainer("main", len(gpus), cpus),) if cpus else (),
    )


def listed(name: str, *gpus: str, cpus: tuple[int, ...] = ()) -> ListedPod:
    of_main = {"main": frozenset(cpus)} if cpus else {}
    uuids = frozenset(map(GpuUuid, gpus))
    return ListedPod(ObjectKey("default", name), {"main": uuids}, of_main)


def report(
    entries: list[ListedPod], *pods: PodView, policy: TopologyPolicy = STATIC
) -> tuple[list[NumaCpus] | None, list[str]]:
    found = kubelet_alignment(
        policy,
        entries,
        {pod.key: pod for pod in pods},
        cpus_of=CPUS_OF,
        allocatable=ALLOCATABLE,
    )
    assert (found.policy, found.scope) == (policy.name, policy.scope)
    return found.cpus, found.admitted


def free(cpus: list[NumaCpus] | None) -> list[tuple[int, int, int]]:
    return [(each.total, each.allocatable, each.free) for each in cpus or ()]


def test_exclusive_cpus_of_listed_containers_are_not_free() -> None:
    # A pod of another scheduler has CPU 3.
    entries = [listed("a", "GPU-1", cpus=(2,)), listed("other", cpus=(3,))]
    cpus, admitted = report(entries, placed("a", "GPU-1", cpus=1))
    assert free(cpus) == [(2, 1, 1), (2, 2, 0)]
    assert admitted == ["uid-a"]


def test_gpus_and_cpus_of_an_ended_pod_are_in_use_until_kubelet_releases_them() -> None:
    cpus, admitted = report([listed("a", "GPU-1", cpus=(2,))], placed("a", "GPU-1", phase="Failed"))
    assert free(cpus) == [(2, 1, 1), (2, 2, 1)]
    assert admitted == ["uid-a"]
    assert report([listed("a", "GPU-1")])[1] == ["default/a"], "a deleted pod"
    assert report([listed("a")])[1] == []


def test_without_the_static_cpu_manager_no_cpus_are_reported() -> None:
    cpus, admitted = report(
        [listed("a", "GPU-1")],
        placed("a", "GPU-1", cpus=1),
        policy=TopologyPolicy("best-effort"),
    )
    assert (cpus, admitted) == (None, ["uid-a"])


def test_a_pod_is_admitted_when_it_has_all_gpus_and_cpus() -> None:
    pod = placed("a", "GPU-1", "GPU-2", cpus=1)
    for entry in (
        listed("a"),
        listed("a", "GPU-1", cpus=(1,)),
        listed("a", "GPU-1", "GPU-3", cpus=(1,)),
        listed("a", "GPU-1", "GPU-2"),
    ):
        assert report([entry], pod)[1] == []
    assert report([listed("a", "GPU-2", "GPU-1", cpus=(1,))], pod)[1] == ["uid-a"]


def test_pods_without_a_valid_annotation_or_without_gpus_are_not_reported_as_admitted() -> None:
    pod = PodView(uid="u", key=ObjectKey("default", "a"), containers=(GpuContainer("main", 1),))
    assert report([listed("a", "GPU-1")], pod)[1] == []
    assert report([listed("a")], PodView(uid="u", key=pod.key))[1] == []


def test_live_pods_of_the_node_with_gpus_are_bound() -> None:
    first, ended = placed("a", "GPU-1"), placed("b", "GPU-2", phase="Succeeded")
    plain = PodView(uid="u", key=ObjectKey("default", "c"), node="n1")
    assert bound_pods([first, ended, plain], "n1") == {"uid-a"}
    assert bound_pods([first], "n2") == frozenset()

"""What the agent reports so that the extender can predict kubelet."""

import json

from gputopo.api.alignment import NumaCpus
from gputopo.api.names import GPUS_ANNOTATION
from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.admit.numa_report import KubeletCpus
from gputopo_deviceplugin.kubelet.numa_rule import TopologyPolicy
from gputopo_deviceplugin.kubelet.pod_resources import ListedPod
from gputopo_deviceplugin.report.alignment import alignment_report, bound_pods, kubelet_alignment
from gputopo_deviceplugin.report.released import ReleasedGpus
from gputopo_kube.aligned_containers import AlignedContainer
from gputopo_kube.document import ObjectKey
from gputopo_kube.gpu_containers import GpuContainer
from gputopo_kube.pods import PodView

STATIC = TopologyPolicy("restricted", scope="pod", exclusive_cpus=True)
CPUS = KubeletCpus(
    frozenset({1, 2, 3}), {0: frozenset({0, 1}), 1: frozenset({2, 3}), 2: frozenset()}
)
NO_CPUS = (0, 0, 0)
GPU_1, GPU_2 = GpuUuid("GPU-1"), GpuUuid("GPU-2")


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
        cpus=CPUS,
    )
    assert (found.policy, found.scope) == (policy.name, policy.scope)
    return found.cpus, found.admitted


def free(cpus: list[NumaCpus] | None) -> list[tuple[int, int, int]]:
    return [(each.total, each.allocatable, each.free) for each in cpus or ()]


def test_exclusive_cpus_of_listed_containers_are_not_free() -> None:
    # A pod of another scheduler has CPU 3.
    entries = [listed("a", "GPU-1", cpus=(2,)), listed("other", cpus=(3,))]
    cpus, admitted = report(entries, placed("a", "GPU-1", cpus=1))
    assert free(cpus) == [(2, 1, 1), (2, 2, 0), NO_CPUS]
    assert admitted == ["uid-a"]


def test_gpus_and_cpus_of_an_ended_pod_are_in_use_until_kubelet_releases_them() -> None:
    cpus, admitted = report([listed("a", "GPU-1", cpus=(2,))], placed("a", "GPU-1", phase="Failed"))
    assert free(cpus) == [(2, 1, 1), (2, 2, 1), NO_CPUS]
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


def test_report_is_not_stable_until_kubelet_has_admitted_all_bound_pods() -> None:
    pod, other = placed("a", "GPU-1"), placed("b", "GPU-2")
    pods = {pod.key: pod, other.key: other}
    released, bound, used = ReleasedGpus(), frozenset({"uid-a", "uid-b"}), frozenset({GPU_1})
    first = kubelet_alignment(STATIC, [listed("a", "GPU-1")], pods, cpus=CPUS)
    report = alignment_report(first, released, bound=bound, used=used, now=0)
    assert (set(report.hidden), report.stable) == ({GPU_1}, False)
    assert report.alignment == first
    both = [listed("a", "GPU-1"), listed("b", "GPU-2")]
    second = kubelet_alignment(STATIC, both, pods, cpus=CPUS)
    report = alignment_report(second, released, bound=bound, used=used | {GPU_2}, now=1)
    assert (set(report.hidden), report.stable) == ({GPU_1, GPU_2}, True)


def test_pod_that_kubelet_has_just_released_is_still_reported() -> None:
    released, bound = ReleasedGpus(), frozenset({"uid-a"})
    pod = placed("a", "GPU-1")
    before = kubelet_alignment(STATIC, [listed("a", "GPU-1")], {pod.key: pod}, cpus=CPUS)
    alignment_report(before, released, bound=bound, used=frozenset({GPU_1}), now=0)
    after = kubelet_alignment(STATIC, [], {}, cpus=CPUS)
    report = alignment_report(after, released, bound=frozenset(), used=frozenset(), now=0.1)
    assert (report.alignment.admitted, set(report.hidden)) == (["uid-a"], {GPU_1})
    assert not report.stable

"""Which pods run beside a container on the same GPU, and what its samples say of them."""

from dataclasses import replace

from gputopo.api.measuring import MeasuringRequest
from gputopo.api.names import PROFILE_ANNOTATION, RESOURCE
from gputopo.api.shares import gpu_of, share_id
from gputopo.catalogue import named
from gputopo.throughput.message import StepMessage
from gputopo.throughput.phases import DEFAULT_RULES, SteadyRate
from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.admit.usage import GpuUser
from gputopo_deviceplugin.apiserver.node_api import parse_node_pod
from gputopo_deviceplugin.gpus.hardware import NodeHardware
from gputopo_deviceplugin.measure.container_meter import ContainerMeter, FoundSample
from gputopo_deviceplugin.measure.containers import (
    ContainerKey,
    MeasuredContainer,
    measured_containers,
)
from gputopo_deviceplugin.measure.environment import Environment, Neighbour, environment_of
from gputopo_deviceplugin.measure.records import to_sample
from gputopo_kube.document import ObjectKey
from gputopo_kube.podruntime import ContainerRuntime, PodRuntime
from gputopo_kube.pods import PodView
from support.builders.shares import sharing_pod

TOPOLOGY = named("dgx1-v100", node="n1")
UUIDS = [gpu.uuid for gpu in TOPOLOGY.gpus]
HARDWARE = NodeHardware(TOPOLOGY, dict.fromkeys(UUIDS), None)


def sharing(name: str, gpu: int, number: int) -> tuple[GpuUuid, PodView]:
    device = share_id(UUIDS[gpu], number)
    annotations = {PROFILE_ANNOTATION: f"of-{name}"}
    document = sharing_pod(name, share=device, annotations=annotations)
    return device, parse_node_pod(document, RESOURCE)


def environment(*pods: tuple[GpuUuid, PodView]) -> Environment | None:
    """Return the environment of the first pod beside the others."""
    known = {pod.key: pod for _, pod in pods}
    users = {device: GpuUser(pod.key, "main", pod.uid) for device, pod in pods}
    containers = measured_containers(users, known, reads_logs=True)
    return environment_of(containers[ContainerKey(pods[0][1].uid, "main")], users, known, HARDWARE)


def test_pods_on_the_gpu_are_apart_from_those_on_other_gpus() -> None:
    own, beside = sharing("a", 0, 1), sharing("b", 0, 0)
    near, far = sharing("c", 1, 0), sharing("d", 5, 2)
    found = environment(own, beside, near, far)
    assert found is not None
    assert found.gpus == {UUIDS[0]}
    assert found.gpu_model == TOPOLOGY.gpus[0].model
    assert found.on_gpu == (Neighbour("default/of-b", "uid-b"),)
    assert found.on_socket == (Neighbour("default/of-c", "uid-c"),)
    assert [each.uid for each in found.on_node] == ["uid-c", "uid-d"]
    alone = environment(own, near, far)
    assert alone is not None
    assert alone.on_gpu == ()
    assert alone != found


def test_share_of_an_unhealthy_gpu_has_no_environment() -> None:
    own = sharing("a", 0, 1)
    ill = replace(HARDWARE, health={**HARDWARE.health, UUIDS[0]: "XID 79"})
    known, users = {own[1].key: own[1]}, {own[0]: GpuUser(own[1].key, "main", "uid-a")}
    [container] = measured_containers(users, known, reads_logs=True).values()
    assert environment_of(container, users, known, ill) is None


def test_sample_names_the_workloads_on_the_gpu() -> None:
    pod = PodView(
        "uid-a",
        ObjectKey("team", "a"),
        runtime=PodRuntime("10.0.0.7", {"main": ContainerRuntime()}),
    )
    container = MeasuredContainer(
        pod, "main", frozenset({UUIDS[0]}), MeasuringRequest(profile="bert")
    )
    found = environment(sharing("a", 0, 1), sharing("b", 0, 0), sharing("c", 0, 2))
    assert found is not None
    rate = SteadyRate(12.5, ci_permille=20, seconds=60.4)
    time = "2026-01-01T00:00:00Z"
    sample = to_sample(container, FoundSample(found, rate), time)
    assert sample is not None
    assert sample.gpu_neighbours == ["default/of-b", "default/of-c"]
    alone = to_sample(container, FoundSample(replace(found, on_gpu=()), rate), time)
    assert alone is not None
    assert alone.gpu_neighbours is None
    many = tuple(Neighbour(f"{'n' * 63}/{'p' * 253}", f"uid-{n}") for n in range(47))
    crowded = replace(found, on_gpu=many, on_node=many[:3], on_socket=many[:3])
    assert to_sample(container, FoundSample(crowded, rate), time) is None
    without = replace(crowded, on_gpu=())
    assert to_sample(container, FoundSample(without, rate), time) is not None


class Counted:
    """What a meter hands to its counters."""

    def __init__(self) -> None:
        self.reads = 0

    def add(self, *_: object) -> None:
        self.reads += 1

    def clear(self) -> None:
        """Forget what was read."""


def test_counters_are_ignored_while_other_pods_share_the_gpu() -> None:
    found = environment(sharing("a", 0, 1), sharing("b", 0, 0))
    assert found is not None
    for on_gpu, reads in ((found.on_gpu, 0), ((), 1)):
        meter, counted = ContainerMeter(DEFAULT_RULES), Counted()
        meter.enter(None, 0)
        meter.enter(replace(found, on_gpu=on_gpu), 0)
        for at in range(61):
            meter.add(StepMessage("run", 10 * at, float(at)), at)
        meter._counters = counted  # type: ignore[assignment]
        meter.add_counters({}, frozenset(map(gpu_of, found.gpus)), HARDWARE)
        assert counted.reads == reads

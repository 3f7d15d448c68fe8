"""Which containers of the runtime have GPUs of gputopo, and what decides their CPUs."""

import pytest

from gputopo.alignment.cpuset import GpuContainerCpus
from gputopo.api.names import GPUS_ANNOTATION
from gputopo.catalogue import named
from gputopo_deviceplugin.nri.containers import milli_cpu, parse_container
from gputopo_deviceplugin.nri.v1alpha1 import api_pb2 as api
from support.agent.nri import in_runtime, sandbox

TOPOLOGY = named("dgx1-v100")
GPUS = {gpu.uuid: gpu for gpu in TOPOLOGY.gpus}
UUIDS = [*GPUS]
"""GPUs 0-3 are on NUMA node 0, GPUs 4-7 on NUMA node 1."""


def cpus_of(pod: api.PodSandbox, container: api.Container) -> GpuContainerCpus | None:
    found = parse_container(pod, container, GPUS)
    return found.cpus if found else None


def test_the_gpus_of_a_container_come_from_the_annotation_of_its_pod() -> None:
    pod = sandbox("a", {"main": UUIDS[3:5], "other": UUIDS[:1]})
    found = parse_container(pod, in_runtime(pod, milli=1500, cpus="0-1,4"), GPUS)
    assert found is not None
    assert (found.instance, found.pod_uid, found.name) == ("a-main", "uid-a", "default/a/main")
    assert found.cpus == GpuContainerCpus(frozenset({0, 1}), 1500, frozenset({0, 1, 4}))
    assert cpus_of(pod, in_runtime(pod, "other")) == GpuContainerCpus(frozenset({0}), 0, None)


def test_the_gpus_of_an_init_container_come_from_its_environment() -> None:
    pod = sandbox("a", {"main": UUIDS[3:6]})
    own = f"CUDA_VISIBLE_DEVICES={UUIDS[4]},{UUIDS[5]}"
    found = cpus_of(pod, in_runtime(pod, "init", env=["A=1", own]))
    assert found == GpuContainerCpus(frozenset({1}), 0)


def test_the_gpu_of_a_share_decides_the_cpus() -> None:
    pod = sandbox("a", {"main": [f"{UUIDS[4]}::2"]})
    assert cpus_of(pod, in_runtime(pod)) == GpuContainerCpus(frozenset({1}), 0)
    init = in_runtime(pod, "init", env=[f"CUDA_VISIBLE_DEVICES={UUIDS[4]}"])
    assert cpus_of(pod, init) == GpuContainerCpus(frozenset({1}), 0)


@pytest.mark.parametrize("value", [UUIDS[0], f"{UUIDS[4]},{UUIDS[0]}", "0,1", ""])
def test_the_environment_may_name_only_gpus_of_the_pod(value: str) -> None:
    pod = sandbox("a", {"main": UUIDS[4:6]})
    env = [f"CUDA_VISIBLE_DEVICES={value}"]
    assert cpus_of(pod, in_runtime(pod, "init", env=env)) is None


def test_a_container_without_gpus_is_not_of_interest() -> None:
    pod = sandbox("a", {"main": UUIDS[:1]})
    assert cpus_of(pod, in_runtime(pod, "logger")) is None
    other = sandbox("b", {})
    assert cpus_of(other, in_runtime(other)) is None


def test_an_annotation_of_another_pod_or_without_meaning_is_ignored() -> None:
    copied = sandbox("a", {"main": UUIDS[:1]}, uid="uid-of-another")
    assert cpus_of(copied, in_runtime(copied)) is None
    broken = api.PodSandbox(uid="uid-a", annotations={GPUS_ANNOTATION: "{"})
    assert cpus_of(broken, in_runtime(broken)) is None


def test_with_an_unknown_gpu_the_numa_nodes_are_unknown() -> None:
    pod = sandbox("a", {"main": [UUIDS[0], "GPU-00000000-0000-0000-0000-000000000009"]})
    found = cpus_of(pod, in_runtime(pod))
    assert found == GpuContainerCpus(frozenset(), 0)


def test_a_limit_that_is_no_list_of_cpus_is_a_limit_of_another_program() -> None:
    pod = sandbox("a", {"main": UUIDS[:1]})
    found = cpus_of(pod, in_runtime(pod, cpus="most"))
    assert found is not None
    assert found.cpuset == frozenset()


def test_every_cpu_request_is_found_from_the_shares_that_kubelet_computes() -> None:
    for milli in range(3, 10_000):
        assert milli_cpu(milli * 1024 // 1000) == milli
    assert milli_cpu(2) == milli_cpu(0) == 0

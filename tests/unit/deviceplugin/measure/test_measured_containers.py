from collections.abc import Mapping

import pytest

from gputopo.api.measuring import MeasuringRequest
from gputopo.api.names import (
    PROFILE_ANNOTATION,
    STEPS_METRICS_ANNOTATION,
    STEPS_SOURCE_ANNOTATION,
)
from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.admit.usage import GpuUser, PodState
from gputopo_deviceplugin.measure.containers import ContainerKey, measured_containers
from gputopo_kube.document import ObjectKey
from gputopo_kube.gpu_containers import ContainerKind, GpuContainer
from gputopo_kube.pods import PodView

KEY = ObjectKey("default", "a")
A, B, C = (GpuUuid(f"GPU-{name}") for name in "abc")


def pod(*containers: GpuContainer, annotations: Mapping[str, str] | None = None) -> PodView:
    return PodView("uid-a", KEY, containers=containers, annotations=annotations or {})


def user(container: str = "main", uid: str | None = "uid-a") -> GpuUser:
    return GpuUser(KEY, container, uid)


def test_each_container_that_keeps_gpus_is_measured() -> None:
    found = measured_containers(
        {A: user(), B: user(), C: user("proxy")},
        {
            KEY: pod(
                GpuContainer("warm", 1, ContainerKind.INIT),
                GpuContainer("proxy", 1, ContainerKind.SIDECAR),
                GpuContainer("main", 2),
            )
        },
        reads_logs=True,
    )
    assert {key: container.gpus for key, container in found.items()} == {
        ContainerKey("uid-a", "main"): {A, B},
        ContainerKey("uid-a", "proxy"): {C},
    }


def test_the_annotations_state_source_and_profile() -> None:
    annotations = {PROFILE_ANNOTATION: "bert", STEPS_SOURCE_ANNOTATION: "Log"}
    [found] = measured_containers(
        {A: user()}, {KEY: pod(GpuContainer("main", 1), annotations=annotations)}, reads_logs=True
    ).values()
    assert (found.request.profile, found.request.source, found.fault) == ("bert", "Log", None)


def test_an_invalid_annotation_gives_the_default_request_and_a_fault() -> None:
    annotations = {PROFILE_ANNOTATION: "bert", STEPS_SOURCE_ANNOTATION: "Guess"}
    [found] = measured_containers(
        {A: user()}, {KEY: pod(GpuContainer("main", 1), annotations=annotations)}, reads_logs=True
    ).values()
    assert found.request == MeasuringRequest()
    assert found.fault == "gputopo.io/steps-source: 'Guess' is not one of SDK, Metrics, Log"


def test_the_endpoint_of_a_pod_does_not_count_for_several_containers() -> None:
    annotations = {
        PROFILE_ANNOTATION: "bert",
        STEPS_SOURCE_ANNOTATION: "Metrics",
        STEPS_METRICS_ANNOTATION: "9090/metrics steps_total",
    }
    both = pod(GpuContainer("main", 1), GpuContainer("eval", 1), annotations=annotations)
    for found in measured_containers(
        {A: user(), B: user("eval")}, {KEY: both}, reads_logs=True
    ).values():
        assert found.request == MeasuringRequest()
        assert found.fault == (
            "gputopo.io/steps-source: Metrics, but 2 containers have GPUs; use SDK or Log, which "
            "count the steps of each container"
        )


@pytest.mark.parametrize(
    "users",
    [
        {A: user(uid="uid-former")},
        {A: user(uid=None)},
        {A: GpuUser(KEY, "main", "uid-a", PodState.ENDED)},
        {A: user("another")},
        {A: user(), B: user()},
        {A: GpuUser(ObjectKey("default", "b"), "main", "uid-a")},
    ],
)
def test_other_users_are_not_measured(users: Mapping[GpuUuid, GpuUser]) -> None:
    assert measured_containers(users, {KEY: pod(GpuContainer("main", 1))}, reads_logs=True) == {}


def test_a_container_with_more_gpus_than_a_pod_may_have_is_not_measured() -> None:
    gpus = [GpuUuid(f"GPU-{number}") for number in range(17)]
    users = dict.fromkeys(gpus, user())
    assert measured_containers(users, {KEY: pod(GpuContainer("main", 17))}, reads_logs=True) == {}


def test_a_pod_that_logs_its_steps_is_not_measured_by_an_agent_that_reads_no_logs() -> None:
    annotations = {PROFILE_ANNOTATION: "bert", STEPS_SOURCE_ANNOTATION: "Log"}
    pods = {KEY: pod(GpuContainer("main", 1), annotations=annotations)}
    [found] = measured_containers({A: user()}, pods, reads_logs=False).values()
    assert found.request.profile == "bert"
    assert found.fault is not None
    assert "devicePlugin.measuring.podLogs" in found.fault

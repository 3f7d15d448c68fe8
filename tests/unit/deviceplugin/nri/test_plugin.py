"""What the plugin responds to the events of the runtime, on a node of two NUMA nodes."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from gputopo.alignment.cpuset import MachineCpus
from gputopo.catalogue import named
from gputopo_deviceplugin.nri.plugin import CpusetPlugin
from gputopo_deviceplugin.nri.v1alpha1 import api_pb2 as api
from support.agent.nri import in_runtime, sandbox

GPUS = {gpu.uuid: gpu for gpu in named("dgx1-v100").gpus}
UUIDS = [*GPUS]
NEAR, FAR, BOTH = UUIDS[:1], UUIDS[7:], [UUIDS[0], UUIDS[7]]


class Runtime:
    """The calls of a runtime to the plugin, and what the plugin has counted."""

    def __init__(self, cpus_of_node: int = 4) -> None:
        first, second = range(cpus_of_node), range(cpus_of_node, 2 * cpus_of_node)
        self.machine = MachineCpus({0: frozenset(first), 1: frozenset(second)}, "none")
        self.counted: Counter[str] = Counter()
        self.changes = 0
        self.plugin = CpusetPlugin(GPUS, self.read_machine, self, self.change)

    def read_machine(self) -> MachineCpus:
        return self.machine

    def change(self) -> None:
        self.changes += 1

    def count_cpuset(self, result: str) -> None:
        self.counted[result] += 1

    def count_failure(self, operation: str) -> None:
        self.counted[operation] += 1

    def call(self, method: str, message: Any = None) -> bytes:
        return self.plugin.respond(method, message.SerializeToString() if message else b"")

    def synchronize(
        self, pods: Sequence[api.PodSandbox], containers: Sequence[api.Container], *, more: bool
    ) -> api.SynchronizeResponse:
        request = api.SynchronizeRequest(pods=pods, containers=containers, more=more)
        return api.SynchronizeResponse.FromString(self.call("Synchronize", request))

    def start(
        self,
        name: str,
        gpus: Sequence[str],
        *,
        milli: int = 0,
        cpus: str = "",
        instance: str | None = None,
    ) -> str:
        """Create the container ``main`` of a pod, and return its CPUs."""
        pod = sandbox(name, {"main": gpus})
        container = in_runtime(pod, milli=milli, cpus=cpus, instance=instance)
        request = api.CreateContainerRequest(pod=pod, container=container)
        response = api.CreateContainerResponse.FromString(self.call("CreateContainer", request))
        assert not response.update
        return response.adjust.linux.resources.cpu.cpus

    def started(self, name: str) -> Mapping[str, str]:
        """Report that the container ``main`` of a pod has started; return the repeated updates."""
        request = api.ContainerEventRequest(container=api.Container(id=f"{name}-main"))
        assert self.call("PostStartContainer", request) == b""
        return self.repeated()

    def repeated(self) -> Mapping[str, str]:
        return updates(api.UpdateContainersRequest.FromString(self.plugin.take_updates()))

    def end(self, name: str) -> Mapping[str, str]:
        request = api.ContainerEventRequest(container=api.Container(id=f"{name}-main"))
        return updates(api.StopContainerResponse.FromString(self.call("StopContainer", request)))

    def resize(self, name: str, shares: int) -> Mapping[str, str]:
        request = api.UpdateContainerRequest(container=api.Container(id=f"{name}-main"))
        request.linux_resources.cpu.shares.value = shares
        return updates(
            api.UpdateContainerResponse.FromString(self.call("UpdateContainer", request))
        )


def updates(response: Any) -> dict[str, str]:
    assert all(each.ignore_failure for each in response.update)
    return {each.container_id: each.linux.resources.cpu.cpus for each in response.update}


@pytest.fixture
def runtime() -> Runtime:
    return Runtime()


def test_the_plugin_subscribes_to_five_events(
    runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    configured = runtime.call("Configure", api.ConfigureRequest(runtime_name="containerd"))
    events = api.ConfigureResponse.FromString(configured).events
    assert [bit + 1 for bit in range(32) if events >> bit & 1] == [4, 7, 8, 10, 11]
    assert "runtime=containerd" in caplog.text


def test_a_new_container_is_limited_to_the_cpus_of_its_gpus(runtime: Runtime) -> None:
    assert runtime.start("a", NEAR) == "0-3"
    assert runtime.start("b", FAR) == "4-7"
    assert runtime.counted == {"set": 2}
    assert runtime.changes == 2


def test_only_the_cpus_are_set(runtime: Runtime) -> None:
    pod = sandbox("a", {"main": NEAR})
    request = api.CreateContainerRequest(pod=pod, container=in_runtime(pod))
    response = api.CreateContainerResponse.FromString(runtime.call("CreateContainer", request))
    expected = api.CreateContainerResponse()
    expected.adjust.linux.resources.cpu.cpus = "0-3"
    assert response == expected


def test_a_container_with_gpus_of_all_numa_nodes_is_not_limited(runtime: Runtime) -> None:
    assert runtime.start("a", BOTH) == ""
    assert runtime.plugin.known.unbound == {}


def test_a_container_without_gpus_is_left_unchanged(runtime: Runtime) -> None:
    pod = sandbox("a", {})
    request = api.CreateContainerRequest(pod=pod, container=in_runtime(pod))
    assert runtime.call("CreateContainer", request) == b""
    assert runtime.end("a") == runtime.resize("a", 2048) == {}
    assert runtime.changes == 0


def test_the_cpus_of_another_plugin_are_left_unchanged(runtime: Runtime) -> None:
    assert runtime.start("a", NEAR, cpus="7") == ""
    assert runtime.plugin.known.unbound == {"default/a/main": "another program has set its CPUs"}


def test_synchronize_repairs_containers_that_missed_their_limit(runtime: Runtime) -> None:
    pods = [sandbox(name, {"main": FAR}) for name in "abcd"]
    containers = [
        in_runtime(pods[0], cpus="4-7"),
        in_runtime(pods[1], created_at=3, milli=3000),
        in_runtime(pods[2], created_at=2, milli=3000),
        in_runtime(pods[3], state=api.CONTAINER_STOPPED),
        in_runtime(sandbox("gone", {"main": FAR})),
    ]
    first = runtime.synchronize(pods[:2], containers[:2], more=True)
    assert first.more
    assert updates(first) == {}
    before = runtime.plugin.synchronized
    last = runtime.synchronize(pods[2:], containers[2:], more=False)
    repaired = {"c-main": "4-7"}  # the older of the two that fit only one by one
    assert updates(last) == {**repaired, "a-main": "4-7"}
    assert not last.more
    assert [before, runtime.plugin.synchronized] == [False, True]
    assert runtime.counted == {"repaired": 1}
    assert [*runtime.plugin.known.unbound] == ["default/b/main"]


def test_updates_before_the_start_of_a_container_are_repeated_after_it(runtime: Runtime) -> None:
    runtime.start("a", NEAR, milli=3000)
    assert runtime.start("b", NEAR, milli=2000) == ""
    assert runtime.end("a") == {"b-main": "0-3"}
    assert runtime.resize("b", 8192) == {"b-main": "0-7"}
    assert runtime.repeated() == {}
    assert runtime.started("b") == {"b-main": "0-7"}
    assert runtime.repeated() == runtime.started("b") == {}


def test_updates_of_started_containers_are_not_repeated(runtime: Runtime) -> None:
    runtime.start("a", NEAR, milli=3000)
    runtime.start("b", NEAR, milli=2000)
    assert runtime.started("b") == {}
    assert runtime.end("a") == {"b-main": "0-3"}
    assert runtime.started("b") == {}


def test_the_limits_of_synchronize_are_repeated_for_containers_that_start(runtime: Runtime) -> None:
    pods = [sandbox(name, {"main": NEAR}) for name in "abc"]
    states = [api.CONTAINER_CREATED, api.CONTAINER_CREATED, api.CONTAINER_RUNNING]
    containers = [in_runtime(pod, state=state) for pod, state in zip(pods, states, strict=True)]
    containers[1].linux.resources.cpu.cpus = "0-3"
    found = runtime.synchronize(pods, containers, more=False)
    assert updates(found) == {f"{name}-main": "0-3" for name in "abc"}
    assert runtime.counted == {"repaired": 2}, "the limit of b is only set once more"
    assert runtime.repeated() == {}
    assert runtime.started("a") == {"a-main": "0-3"}
    change = api.StateChangeEvent(
        event=api.POST_START_CONTAINER, container=api.Container(id="b-main")
    )
    assert runtime.call("StateChange", change) == b""
    assert runtime.repeated() == {"b-main": "0-3"}
    assert runtime.started("c") == {}


def test_a_container_that_ends_before_its_start_gets_no_update(runtime: Runtime) -> None:
    pod = sandbox("a", {"main": NEAR})
    runtime.synchronize([pod], [in_runtime(pod, state=api.CONTAINER_CREATED)], more=False)
    runtime.end("a")
    assert runtime.started("a") == {}


def test_after_an_end_a_container_that_did_not_fit_is_limited(runtime: Runtime) -> None:
    runtime.start("a", NEAR, milli=3000)
    assert runtime.start("b", NEAR, milli=2000) == ""
    assert runtime.plugin.known.unbound
    assert runtime.end("a") == {"b-main": "0-3"}
    assert not runtime.plugin.known.unbound
    assert runtime.end("a") == {}


def test_a_container_whose_request_no_longer_fits_is_released(runtime: Runtime) -> None:
    runtime.start("a", NEAR, milli=2000)
    runtime.start("b", NEAR, milli=2000)
    assert runtime.resize("a", 3072) == {"a-main": "0-7"}
    assert runtime.counted == {"set": 2, "released": 1}
    assert runtime.resize("a", 1024) == {"a-main": "0-3"}
    assert runtime.resize("a", 0) == {}, "an update without CPUs"


def test_a_released_container_is_recognised_after_a_restart(runtime: Runtime) -> None:
    pod = sandbox("a", {"main": NEAR})
    found = runtime.synchronize([pod], [in_runtime(pod, cpus="0-7", milli=5000)], more=False)
    assert updates(found) == {}
    found = runtime.synchronize([pod], [in_runtime(pod, cpus="0-7", milli=4000)], more=False)
    assert updates(found) == {"a-main": "0-3"}


def test_a_restarted_container_takes_the_place_of_the_earlier_one(runtime: Runtime) -> None:
    assert runtime.start("a", NEAR, milli=3000) == "0-3"
    assert runtime.start("a", NEAR, milli=3000, instance="second") == "0-3"
    assert runtime.end("a") == {}
    assert "second" in runtime.plugin.known


def test_a_removed_container_is_forgotten(runtime: Runtime) -> None:
    runtime.start("a", NEAR, milli=3000)
    runtime.start("b", FAR, milli=3000)
    request = api.ContainerEventRequest(container=api.Container(id="a-main"))
    assert runtime.call("RemoveContainer", request) == b""
    assert runtime.start("c", NEAR, milli=3000) == "0-3"
    for event in (api.STOP_CONTAINER, api.REMOVE_CONTAINER):
        change = api.StateChangeEvent(event=event, container=api.Container(id="b-main"))
        assert runtime.call("StateChange", change) == b""
        assert ("b-main" in runtime.plugin.known) is (event != api.REMOVE_CONTAINER)


def test_other_calls_get_an_empty_response(runtime: Runtime) -> None:
    assert runtime.call("Shutdown", api.Empty()) == b""
    assert runtime.call("PostCreateContainer") == b""


@pytest.mark.parametrize("method", ["CreateContainer", "Synchronize", "StopContainer"])
def test_a_call_that_fails_gets_an_empty_response(runtime: Runtime, method: str) -> None:
    assert runtime.plugin.respond(method, b"\xff") == b""
    assert runtime.counted == {"nri": 1}


def test_a_fault_of_the_plugin_leaves_the_container_unchanged(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime.plugin, "_read_machine", lambda: 1 / 0)
    assert runtime.start("a", NEAR) == ""
    assert runtime.counted == {"nri": 1}

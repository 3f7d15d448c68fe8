"""After any events of the runtime, with and without the agent, the CPUs of containers are right.

The model of the runtime carries out what the plugin responds, and loses nothing else. As containerd
does, it reads the limit of a new process before it says that the container starts, and until then
an update changes the specification only.
"""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gputopo.alignment.cpuset import MachineCpus
from gputopo.catalogue import named
from gputopo_deviceplugin.gpus.cpulist import format_cpu_list, parse_cpu_list
from gputopo_deviceplugin.nri.plugin import CpusetPlugin
from gputopo_deviceplugin.nri.v1alpha1 import api_pb2 as api
from support.agent.nri import in_runtime, sandbox
from support.property_settings import fuzzed, tried

GPUS = {gpu.uuid: gpu for gpu in named("dgx1-v100").gpus}
UUIDS = [*GPUS]
MACHINE = MachineCpus({0: frozenset(range(4)), 1: frozenset(range(4, 8))}, "none")
NAMES = ["a", "b", "c"]

events = st.tuples(
    st.sampled_from(
        ["create", "begin", "start", "resize", "stop", "remove", "disconnect", "connect"]
    ),
    st.sampled_from(NAMES),
    st.lists(st.sampled_from(UUIDS), max_size=3, unique=True),
    st.integers(0, 5_000),
)


class ModelRuntime:
    """The containers of a runtime, and the plugin while it is connected."""

    def __init__(self) -> None:
        self.pods: dict[str, api.PodSandbox] = {}
        self.containers: dict[str, api.Container] = {}
        self.processes: dict[str, str] = {}
        self.plugin: CpusetPlugin | None = None
        self.created = 0
        self.failures = 0

    def count_cpuset(self, result: str) -> None:
        tried(f"container {result}")

    def count_failure(self, operation: str) -> None:
        raise AssertionError(operation)

    def connect(self) -> list[str]:
        """Connect a plugin, and return the containers that it changes."""
        self.plugin = CpusetPlugin(GPUS, lambda: MACHINE, self, lambda: None)
        request = api.SynchronizeRequest(
            pods=self.pods.values(), containers=self.containers.values()
        )
        before = {**self.limits(), **self.processes}
        self.apply(self.call("Synchronize", request, api.SynchronizeResponse))
        after = {**self.limits(), **self.processes}
        return [instance for instance in after if after[instance] != before[instance]]

    def call(self, method: str, request: Any, response: Any) -> Any:
        if self.plugin is None:
            return response()
        return response.FromString(self.plugin.respond(method, request.SerializeToString()))

    def apply(self, response: Any) -> None:
        for update in response.update:
            known = self.containers[update.container_id]
            cpus = update.linux.resources.cpu.cpus
            known.linux.resources.cpu.cpus = cpus
            if known.state == api.CONTAINER_RUNNING:
                self.processes[update.container_id] = cpus

    def carry_out(self, event: str, name: str, gpus: list[str], milli: int) -> None:
        instance = f"{name}-main"
        known = self.containers.get(instance)
        if event == "connect":
            self.connect()
        elif event == "disconnect":
            self.plugin = None
        elif event in {"create", "begin"} and known is None:
            self._create(name, gpus, milli)
            if event == "begin":
                self.processes[instance] = self.containers[instance].linux.resources.cpu.cpus
        elif known is not None and known.state == api.CONTAINER_CREATED and event == "begin":
            self.processes.setdefault(instance, known.linux.resources.cpu.cpus)
        elif known is not None and known.state == api.CONTAINER_CREATED and event == "start":
            self._start(known)
        elif known is not None and event == "resize":
            request = api.UpdateContainerRequest(container=known)
            shares = max(milli * 1024 // 1000, 2)
            request.linux_resources.cpu.shares.value = shares
            self.apply(self.call("UpdateContainer", request, api.UpdateContainerResponse))
            known.linux.resources.cpu.shares.value = shares
        elif known is not None and event == "stop":
            known.state = api.CONTAINER_STOPPED
            self.processes.pop(instance, None)
            end = api.ContainerEventRequest(container=known)
            self.apply(self.call("StopContainer", end, api.StopContainerResponse))
        elif known is not None and event == "remove":
            self.carry_out("stop", name, gpus, milli)
            self.call("RemoveContainer", api.ContainerEventRequest(container=known), api.Empty)
            del self.containers[instance]

    def _create(self, name: str, gpus: list[str], milli: int) -> None:
        self.created += 1
        pod = sandbox(name, {"main": gpus} if gpus else {})
        state = api.CONTAINER_CREATED
        container = in_runtime(pod, milli=milli, created_at=self.created, state=state)
        request = api.CreateContainerRequest(pod=pod, container=container)
        response = self.call("CreateContainer", request, api.CreateContainerResponse)
        container.linux.resources.cpu.cpus = response.adjust.linux.resources.cpu.cpus
        self.apply(response)
        self.pods[pod.id], self.containers[container.id] = pod, container

    def _start(self, container: api.Container) -> None:
        self.processes.setdefault(container.id, container.linux.resources.cpu.cpus)
        container.state = api.CONTAINER_RUNNING
        request = api.ContainerEventRequest(container=container)
        self.call("PostStartContainer", request, api.Empty)
        if self.plugin is not None:
            self.apply(api.UpdateContainersRequest.FromString(self.plugin.take_updates()))

    def limits(self) -> dict[str, str]:
        return {
            instance: each.linux.resources.cpu.cpus for instance, each in self.containers.items()
        }


@fuzzed
@given(st.lists(events, min_size=20, max_size=40))
def test_after_any_events_the_next_connection_repairs_all_and_another_nothing(
    sequence: list[tuple[str, str, list[str], int]],
) -> None:
    runtime = ModelRuntime()
    runtime.connect()
    for event in sequence:
        runtime.carry_out(*event)
        if runtime.plugin is not None:
            before = runtime.limits()
            assert runtime.connect() == [], "a plugin that was connected has nothing to repair"
            assert runtime.limits() == before
    runtime.connect()
    assert runtime.connect() == []
    check_limits(runtime)


def check_limits(runtime: ModelRuntime) -> None:
    """Check that limits are those of the GPUs, and that no NUMA node is requested too much."""
    running = {
        instance: cpus
        for instance, cpus in runtime.limits().items()
        if runtime.containers[instance].state == api.CONTAINER_RUNNING
    }
    assert running == {instance: runtime.processes[instance] for instance in running}
    requested = {0: 0, 1: 0}
    unlimited = []
    for container in runtime.containers.values():
        if container.state == api.CONTAINER_STOPPED:
            continue
        cpus = parse_cpu_list(container.linux.resources.cpu.cpus)
        shares = container.linux.resources.cpu.shares.value
        milli = -(-shares * 1000 // 1024) if shares > 2 else 0
        assert cpus in (frozenset(), MACHINE.cpus([0]), MACHINE.cpus([1]), MACHINE.cpus([0, 1]))
        nodes = nodes_of(runtime, container)
        if len(nodes) == 1:
            [node] = nodes
            if cpus == MACHINE.cpus(nodes):
                requested[node] += milli
            else:
                unlimited.append((node, milli, format_cpu_list(cpus)))
        else:
            assert cpus in (frozenset(), MACHINE.cpus([0, 1]))
    assert all(milli <= 4_000 for milli in requested.values())
    for node, milli, limit in unlimited:
        assert requested[node] + milli > 4_000, (node, milli, limit)


def nodes_of(runtime: ModelRuntime, container: api.Container) -> set[int]:
    text = str(runtime.pods[container.pod_sandbox_id].annotations)
    return {gpu.numa_node or 0 for uuid, gpu in GPUS.items() if uuid in text}

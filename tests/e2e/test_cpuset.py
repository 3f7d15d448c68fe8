"""With the NRI plugin of the agents, each container with GPUs runs on the CPUs of its GPUs.

The nodes of the local cluster show the two NUMA nodes of their servers, with equal parts of the
CPUs of this machine. The tests look at all processes of the containers, from this machine.
"""

import os
import random
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate

import pytest

import workloads
from gputopo.api.annotations import parse_gpus
from gputopo.api.names import RESOURCE
from gputopo_deviceplugin.gpus.cpulist import format_cpu_list
from localcluster import access
from localcluster.access import NodeAccess, PodProcess
from sandbox import Sandbox
from showcase import install
from showcase.kubectl import Kubectl, KubectlError, Object, wait_for
from support.property_settings import LONG

pytestmark = [pytest.mark.e2e, pytest.mark.chart(devicePlugin={"nri": {"enabled": True}})]

AGENT = "gputopo-deviceplugin"
PODS = 200 if LONG else 24
ROUNDS = 12 if LONG else 4

GPUS_AT_ONCE = 16
"""Two thirds of the GPUs of three nodes."""

LATE_SECONDS = 60.0
"""Once a container had other CPUs for so long, for an unknown reason: print all that shows it."""

ALIGNED_SECONDS = 180.0

HANG_SECONDS = 20.0
"""Kubelet kills an agent that has not responded for 30 s."""


@pytest.fixture(scope="module")
def limiting(chart: install.Installed) -> Kubectl:
    """The cluster, once the plugin of every agent is connected."""
    wait_for(
        "every agent is connected", lambda: connected(chart.kubectl), timeout_s=ALIGNED_SECONDS
    )
    return chart.kubectl


def connected(kubectl: Kubectl) -> bool:
    """Whether the agent of every node limits containers."""
    found = [
        condition["status"]
        for topology in kubectl.list("gputopologies")
        for condition in topology.get("status", {}).get("conditions", [])
        if condition["type"] == "CPUsBound"
    ]
    return found == ["True"] * install.NODES


@dataclass(frozen=True, slots=True)
class Cpus:
    """The CPUs of the nodes, as the kernel lists them.

    Attributes:
        nodes: whose processes are looked at.
        near: CPUs near each GPU, by UUID.
        all_of_machine: what a process without a limit may use.
    """

    nodes: NodeAccess
    near: Mapping[str, frozenset[int]]
    all_of_machine: frozenset[int]

    def expected(self, uuids: Sequence[str]) -> frozenset[int]:
        """Return the CPUs of a container with these GPUs."""
        return frozenset().union(*(self.near[uuid] for uuid in uuids))

    def processes(self, manifest: Object) -> list[PodProcess]:
        """Return the processes of the pod's only container, the first one first."""
        found = container_id(manifest)
        own = [each for each in self.nodes.processes() if each.container_id == found]
        return sorted(own, key=lambda each: each.pid)

    def allowed(self, manifest: Object) -> set[frozenset[int]]:
        """Return the CPUs that the processes of the pod's only container may use."""
        return {each.cpus() for each in self.processes(manifest)} - {frozenset()}


@pytest.fixture(scope="module")
def cpus(limiting: Kubectl, nodes: NodeAccess) -> Cpus:
    machine = sorted(os.sched_getaffinity(0))
    half = (len(machine) + 1) // 2
    of_node = {0: frozenset(machine[:half]), 1: frozenset(machine[half:])}
    near = {
        gpu["uuid"]: of_node[gpu["numaNode"]]
        for topology in limiting.list("gputopologies")
        for gpu in topology["spec"]["gpus"]
    }
    return Cpus(nodes, near, frozenset(machine))


def pod(name: str, gpus: int, image: str, *, cpu: str = "0", node: str | None = None) -> Object:
    manifest = workloads.gpu_pod(name, gpus, image=image, node=node)
    manifest["spec"]["restartPolicy"] = "Always"
    resources = {"limits": {RESOURCE: str(gpus)}, "requests": {"cpu": cpu}}
    manifest["spec"]["containers"][0]["resources"] = resources
    return manifest


def container_id(manifest: Object) -> str:
    """Return the ID of the pod's only container; empty if it was never created."""
    [status] = manifest["status"].get("containerStatuses", [{}])
    return str(status.get("containerID", "")).removeprefix("containerd://")


def differing(sandbox: Sandbox, cpus: Cpus) -> list[str]:
    """Return the running pods whose processes have other CPUs than those of their GPUs."""
    found = []
    for each in sandbox.pods():
        if workloads.phase(each) != "Running":
            continue
        wanted, seen = cpus.expected(workloads.uuids(each)), cpus.allowed(each)
        if seen != {wanted}:
            found.append(f"{each['metadata']['name']}: {seen}, not {sorted(wanted)}")
    return found


def wait_aligned(sandbox: Sandbox, cpus: Cpus, count: int) -> None:
    """Wait until ``count`` pods run on the CPUs of their GPUs."""
    sandbox.wait_running(count)

    def aligned() -> bool:
        return not differing(sandbox, cpus)

    what = "all containers run on the CPUs of their GPUs"
    for seconds in (LATE_SECONDS, ALIGNED_SECONDS - LATE_SECONDS):
        try:
            wait_for(what, aligned, timeout_s=seconds)
        except TimeoutError as error:
            found = differing(sandbox, cpus)
            print(error, *found, *cause(sandbox.kubectl), sep="\n")
        else:
            return
    assert found == []


def cause(kubectl: Kubectl) -> Iterator[str]:
    """Yield what each node and each agent reports about the CPUs of containers."""
    for topology in kubectl.list("gputopologies"):
        for each in topology.get("status", {}).get("conditions", []):
            text = f"{each['type']}={each['status']} {each['reason']}: {each['message']}"
            yield f"{topology['metadata']['name']} {text}"
    selector = "app.kubernetes.io/component=deviceplugin"
    for agent in kubectl.list("pods", install.NAMESPACE, selector=selector):
        name, node = agent["metadata"]["name"], agent["spec"].get("nodeName")
        for status in agent["status"].get("containerStatuses", []):
            yield f"{node} {name}: {status['restartCount']} restarts, state {status['state']}"
        for before in ("--previous=true", "--previous=false"):
            try:
                log = kubectl.run("logs", name, "-n", install.NAMESPACE, before, "--tail=2000")
            except KubectlError as error:
                yield f"{node} log {before}: {error}"
                continue
            lines = [line for line in log.splitlines() if "NRI" in line or "CPUs" in line]
            yield from (f"{node} log {before}: {line}" for line in lines[-100:])


@contextmanager
def hanging(nodes: NodeAccess, node: str) -> Iterator[None]:
    """Stop the agent of a node, so that it does not respond to the container runtime."""

    def agents() -> list[PodProcess]:
        return access.of_program(nodes, AGENT, node)

    stopped = wait_for(f"an agent on {node}", agents, timeout_s=ALIGNED_SECONDS)
    access.send(stopped, signal.SIGSTOP)
    try:
        yield
    finally:
        before = {each.pid for each in stopped}
        access.send([each for each in agents() if each.pid in before], signal.SIGCONT)


def restart_containers(sandbox: Sandbox, cpus: Cpus) -> None:
    """End the containers of all pods at once, and wait until each has its next container."""
    before = {each["metadata"]["name"]: each for each in sandbox.pods()}
    for each in before.values():
        cpus.processes(each)[0].send(signal.SIGKILL)

    def restarted() -> bool:
        return all(
            container_id(each) != container_id(before[each["metadata"]["name"]])
            and cpus.allowed(each)
            for each in sandbox.pods()
        )

    wait_for("every pod has another container", restarted, timeout_s=ALIGNED_SECONDS)


def gpus_of(manifest: Object) -> int:
    return int(manifest["spec"]["containers"][0]["resources"]["limits"][RESOURCE])


def random_pods(sandbox: Sandbox, seed: int) -> Iterator[Object]:
    """Yield pods of 1 to 8 GPUs whose CPU requests fit into each NUMA node."""
    chosen = random.Random(seed)  # noqa: S311 - repeatable
    for number in range(PODS):
        gpus = chosen.choice([1, 1, 2, 2, 3, 4, 4, 8])
        cpu = chosen.choice(["0", "50m", "100m"])
        yield pod(f"p{number}", gpus, sandbox.image, cpu=cpu)


def run_in_turns(sandbox: Sandbox, cpus: Cpus, seed: int) -> int:
    """Run random pods, as many at a time as fit in any case; return how many were checked."""
    waiting = [*random_pods(sandbox, seed)]
    checked = 0
    while waiting:
        batch = waiting[: sum(total <= GPUS_AT_ONCE for total in accumulate(map(gpus_of, waiting)))]
        waiting = waiting[len(batch) :]
        # The largest first: whatever nodes the former ones got, there is space for each.
        sandbox.create(*sorted(batch, key=gpus_of, reverse=True))
        wait_aligned(sandbox, cpus, len(batch))
        checked += len(batch)
        sandbox.delete_pods(each["metadata"]["name"] for each in batch)
    return checked


def test_every_container_runs_on_the_cpus_of_its_gpus(sandbox: Sandbox, cpus: Cpus) -> None:
    assert run_in_turns(sandbox, cpus, seed=1) == PODS


def test_the_containers_of_a_pod_have_the_cpus_of_their_own_gpus(
    sandbox: Sandbox, cpus: Cpus, dgx1: str
) -> None:
    manifest = pod("two", 4, sandbox.image, node=dgx1)
    first = manifest["spec"]["containers"][0]
    second = {**first, "name": "second"}
    init = {**first, "name": "init", "command": ["grep", "Cpus_allowed_list", "/proc/self/status"]}
    manifest["spec"] |= {"containers": [first, second], "initContainers": [init]}
    sandbox.create(manifest)
    [found] = sandbox.wait_running(1)
    annotation = parse_gpus(found["metadata"]["annotations"])
    assert annotation is not None
    near = {name: cpus.expected(uuids) for name, uuids in annotation.containers.items()}
    by_id = {
        status["containerID"].removeprefix("containerd://"): near[status["name"]]
        for status in found["status"]["containerStatuses"]
    }
    seen = {
        each.container_id: each.cpus()
        for each in cpus.nodes.processes()
        if each.container_id in by_id
    }
    assert seen == by_id
    printed = sandbox.kubectl.run("logs", "two", "-c", "init", "-n", sandbox.namespace)
    assert printed.split() == ["Cpus_allowed_list:", format_cpu_list(near["main"])]


def test_containers_started_around_kills_of_the_agents_get_their_cpus(
    sandbox: Sandbox, cpus: Cpus
) -> None:
    """kubelet rejects a *pod* while its agent is not there, so containers of old pods start."""
    sandbox.create(*[*random_pods(sandbox, seed=2)][:4])
    wait_aligned(sandbox, cpus, 4)
    for _ in range(ROUNDS):
        wait_for(
            "every node has an agent",
            lambda: len(access.nodes_of(cpus.nodes, AGENT)) == install.NODES,
            timeout_s=ALIGNED_SECONDS,
        )
        assert access.kill(cpus.nodes, AGENT) >= install.NODES
        restart_containers(sandbox, cpus)
        wait_aligned(sandbox, cpus, 4)


@pytest.mark.parametrize("end", ["continues", "is killed"])
def test_a_container_started_while_the_agent_hangs_is_limited_afterwards(
    sandbox: Sandbox, cpus: Cpus, dgx1: str, end: str
) -> None:
    sandbox.create(pod("main", 1, sandbox.image, node=dgx1))
    wait_aligned(sandbox, cpus, 1)
    for _ in range(5):
        with hanging(cpus.nodes, dgx1):
            began = time.monotonic()
            restart_containers(sandbox, cpus)
            [found] = sandbox.pods()
            seen = cpus.allowed(found)
            in_time = time.monotonic() - began < HANG_SECONDS
            if in_time:
                assert seen == {cpus.all_of_machine}, "it started without the agent"
                if end == "is killed":
                    assert access.kill(cpus.nodes, AGENT, dgx1) == 1
        wait_aligned(sandbox, cpus, 1)
        if in_time:
            return
    pytest.fail(f"no container restarted within {HANG_SECONDS:g} s")


def test_a_container_that_requests_more_than_its_numa_node_has_is_released(
    sandbox: Sandbox, cpus: Cpus, dgx1: str
) -> None:
    manifest = pod("main", 1, sandbox.image, cpu="100m", node=dgx1)
    sandbox.create(manifest)
    wait_aligned(sandbox, cpus, 1)
    [found] = sandbox.pods()
    near = cpus.expected(workloads.uuids(found))

    def resize(cpu: str) -> None:
        change = (
            '{"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "'
            + cpu
            + '"}}}]}}'
        )
        options = ("pod", "main", "-n", sandbox.namespace, "--subresource", "resize")
        sandbox.kubectl.run("patch", *options, "-p", change)

    for cpu, wanted in ((f"{len(near)}100m", cpus.all_of_machine), ("100m", near)):
        resize(cpu)
        wait_for(f"the container has {sorted(wanted)}", lambda: cpus.allowed(found) == {wanted})  # noqa: B023 - called in this turn


def test_after_a_restart_of_the_container_runtime_containers_get_their_cpus(
    sandbox: Sandbox, cpus: Cpus, dgx1: str
) -> None:
    sandbox.create(pod("before", 2, sandbox.image, node=dgx1))
    wait_aligned(sandbox, cpus, 1)
    assert cpus.nodes.run(dgx1, "pgrep", "-xc", "containerd").strip() == "1"
    cpus.nodes.run(dgx1, "pkill", "-KILL", "-x", "containerd")
    sandbox.create(pod("after", 2, sandbox.image, node=dgx1))
    wait_aligned(sandbox, cpus, 2)
    wait_for(
        "every agent is connected", lambda: connected(sandbox.kubectl), timeout_s=ALIGNED_SECONDS
    )

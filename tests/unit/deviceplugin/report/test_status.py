from dataclasses import replace
from typing import Any

from gputopo.api.profile import Measurement, NodeSample
from gputopo.api.v1alpha1 import GPUTopologyStatus, SizedCapacity
from gputopo_deviceplugin.admit.usage import GpuUser, PodState
from gputopo_deviceplugin.apiserver.node_pods import PodsVersion
from gputopo_deviceplugin.conditions import not_ready
from gputopo_deviceplugin.gpus.hardware import NodeHardware
from gputopo_deviceplugin.gpus.health import Health
from gputopo_deviceplugin.kubelet.numa_rule import TopologyPolicy, numa_to_report
from gputopo_deviceplugin.measure.records import NodeMeasurements
from gputopo_deviceplugin.nri.rule import connected
from gputopo_deviceplugin.report.node_conditions import ready_condition
from gputopo_deviceplugin.report.status import (
    NodeObservation,
    build_status,
    observed_gpus,
    stopping_conditions,
)
from gputopo_kube.document import ObjectKey
from support.builders.topologies import node

TOPOLOGY = node(0, 1)
FIRST, SECOND = (gpu.uuid for gpu in TOPOLOGY.gpus)
HEALTHY: Health = {FIRST: None, SECOND: None}


def observe(health: Health, newest: int = 7, needed: int = 7) -> NodeObservation:
    hardware = NodeHardware(TOPOLOGY, health, None)
    return NodeObservation(
        hardware=hardware,
        ready=ready_condition(hardware, None, registered=True, watched=True),
        gpus=observed_gpus(health, {}),
        differing=[],
        pods_version=PodsVersion(newest, needed),
        processes_visible=True,
    )


def status(health: Health, before: GPUTopologyStatus, now: str) -> GPUTopologyStatus:
    return build_status(observe(health), generation=3, before=before, now=now)


def test_conditions_keep_their_time_until_they_change() -> None:
    healthy: Health = {FIRST: None, SECOND: None}
    first = status(healthy, GPUTopologyStatus(), "t1")
    assert status(healthy, first, "t2") == first
    unhealthy = status({FIRST: None, SECOND: "XID 79"}, first, "t3")
    times = {
        entry.type: (entry.status, entry.last_transition_time) for entry in unhealthy.conditions
    }
    assert times == {
        "Ready": ("True", "t1"),
        "GPUsHealthy": ("False", "t3"),
        "AllocationsAsPlaced": ("True", "t1"),
        "ProcessesTracked": ("True", "t1"),
    }
    assert unhealthy.conditions[1].message == f"{SECOND}: XID 79"
    assert (unhealthy.observed_generation, unhealthy.fingerprint) == (3, TOPOLOGY.fingerprint)


def test_users_are_published_with_their_known_fields() -> None:
    users = {
        FIRST: GpuUser(ObjectKey("x", "known"), "main", "u", PodState.DELETED),
        SECOND: GpuUser(ObjectKey("x", "new"), "main", None),
    }
    first, second = observed_gpus({FIRST: None, SECOND: "lost"}, users)
    assert (first.pod, first.pod_uid, first.healthy, first.pod_deleted) == (
        "known",
        "u",
        True,
        True,
    )
    assert (second.pod, second.pod_uid, second.reason, second.pod_deleted) == (
        "new",
        None,
        "lost",
        None,
    )


def test_the_first_obstacle_is_the_reason() -> None:
    broken, healthy = NodeHardware(TOPOLOGY, {}, "no driver"), NodeHardware(TOPOLOGY, {}, None)
    withheld = not_ready("CompetingAllocator", "rival")
    assert (
        ready_condition(broken, withheld, registered=True, watched=True).reason
        == "CompetingAllocator"
    )
    assert ready_condition(broken, None, registered=True, watched=True).reason == "NVMLUnavailable"
    assert ready_condition(healthy, None, registered=False, watched=False).reason == "NotRegistered"
    assert ready_condition(healthy, None, registered=True, watched=False).reason == "NotHeard"
    assert ready_condition(healthy, None, registered=True, watched=True).holds


def test_the_stopping_conditions_change_only_ready() -> None:
    before = status({FIRST: None, SECOND: "XID 79"}, GPUTopologyStatus(), "t1")
    ready, *others = stopping_conditions(before, "t2")
    assert (ready.type, ready.status, ready.reason) == ("Ready", "False", "Stopping")
    assert (ready.last_transition_time, ready.observed_generation) == ("t2", 3)
    assert others == before.conditions[1:]
    again = before.model_copy(update={"conditions": [ready, *others]})
    assert stopping_conditions(again, "t3") == [ready, *others]
    assert [one.type for one in stopping_conditions(GPUTopologyStatus(), "t1")] == ["Ready"]


def published(before: str | None, newest: int, needed: int) -> str | None:
    """Return the version in the next status after ``before``, with the same GPUs."""
    first = status(HEALTHY, GPUTopologyStatus(), "t1")
    known = first.model_copy(update={"observed_pods_version": before})
    observation = observe(HEALTHY, newest, needed)
    after = build_status(observation, generation=3, before=known, now="t2")
    return after.observed_pods_version


def test_the_published_version_changes_only_where_it_must() -> None:
    assert published(None, newest=20, needed=10) == "20"
    assert published("9", newest=20, needed=10) == "20"
    assert published("10", newest=20, needed=10) == "10"
    assert published("20", newest=20, needed=10) == "20"
    assert published("5000", newest=20, needed=10) == "20"


def test_the_newest_version_is_published_with_any_other_change() -> None:
    before = status(HEALTHY, GPUTopologyStatus(), "t1")
    observation = observe({**HEALTHY, SECOND: "XID 79"}, newest=20, needed=7)
    after = build_status(observation, generation=3, before=before, now="t2")
    assert (before.observed_pods_version, after.observed_pods_version) == ("7", "20")


def test_changed_capacity_is_published_without_a_new_version_of_the_pods() -> None:
    before = status(HEALTHY, GPUTopologyStatus(), "t1")
    capacity = SizedCapacity(milli_cpu=8000, memory=2**30, gpus=2)
    observation = replace(observe(HEALTHY, newest=20, needed=7), sized_capacity=capacity)
    after = build_status(observation, generation=3, before=before, now="t2")
    assert after == before.model_copy(update={"sized_capacity": capacity})


def test_before_kubelets_first_list_a_status_accounts_for_no_new_end() -> None:
    unlisted = replace(observe(HEALTHY), pods_version=None)

    def published(before: GPUTopologyStatus) -> str | None:
        after = build_status(unlisted, generation=3, before=before, now="t")
        return after.observed_pods_version

    assert published(GPUTopologyStatus()) == "0"
    assert published(GPUTopologyStatus(observed_pods_version="7")) == "7"


def test_without_kubelets_cgroups_the_condition_names_the_remedy() -> None:
    observation = replace(observe(HEALTHY), processes_visible=False)
    after = build_status(observation, generation=3, before=GPUTopologyStatus(), now="t")
    [found] = [each for each in after.conditions if each.type == "ProcessesTracked"]
    assert (found.status, found.reason) == ("False", "CgroupsNotFound")
    assert "--cgroup-dir" in (found.message or "")


def measured(pod: str, time: str) -> NodeMeasurements:
    """Return the measurement of one pod, and one sample of it."""
    common: dict[str, Any] = {"namespace": "x", "pod_uid": f"uid-{pod}", "container": "main"}
    common |= {"gpus": 1, "source": "SDK", "profile": "bert"}
    return NodeMeasurements(
        (Measurement(**common, pod=pod, state="NoData"),),
        (
            NodeSample(
                **common,
                time=time,
                seconds=60,
                micro_steps_per_second=1,
                ci_permille=1,
                gpu_model="H100",
            ),
        ),
    )


def test_measurements_are_replaced_and_samples_are_added() -> None:
    first = measured("a", "2026-01-01T00:00:00Z")
    second = measured("b", "2026-01-01T00:01:00Z")
    observation = replace(observe(HEALTHY), measured=first)
    before = build_status(observation, generation=3, before=GPUTopologyStatus(), now="t1")
    assert (before.measurements, before.samples) == ([*first.measurements], [*first.samples])
    observation = replace(observe(HEALTHY), measured=second)
    after = build_status(observation, generation=3, before=before, now="t2")
    assert after.measurements == [*second.measurements]
    assert after.samples == [*first.samples, *second.samples]


def test_new_measurements_do_not_change_the_published_version_of_the_pods() -> None:
    first = status(HEALTHY, GPUTopologyStatus(), "t1")
    observed = replace(
        observe(HEALTHY, newest=20, needed=7), measured=measured("a", "2026-01-01T00:00:00Z")
    )
    after = build_status(observed, generation=3, before=first, now="t2")
    assert after != first
    assert after.observed_pods_version == first.observed_pods_version == "7"


def test_an_agent_that_has_just_started_keeps_the_measurements() -> None:
    observation = replace(observe(HEALTHY), measured=measured("a", "2026-01-01T00:00:00Z"))
    before = build_status(observation, generation=3, before=GPUTopologyStatus(), now="t1")
    assert build_status(observe(HEALTHY), generation=3, before=before, now="t2") == before


def test_the_condition_about_numa_nodes_appears_only_if_the_agent_may_publish_them() -> None:
    without = status(HEALTHY, GPUTopologyStatus(), "t1")
    assert "NUMAPublished" not in {each.type for each in without.conditions}
    _, condition = numa_to_report({}, TopologyPolicy("restricted"))
    observed = replace(observe(HEALTHY), numa=condition)
    after = build_status(observed, generation=3, before=without, now="t2")
    found = after.conditions[-1]
    assert (found.type, found.status, found.reason) == ("NUMAPublished", "False", "PolicyNotNone")
    switched_off = status(HEALTHY, after, "t3")
    bound = build_status(
        replace(observed, cpus_bound=connected({})), generation=3, before=after, now="t4"
    )
    assert [each.type for each in bound.conditions][-2:] == ["NUMAPublished", "CPUsBound"]
    assert "NUMAPublished" not in {each.type for each in switched_off.conditions}

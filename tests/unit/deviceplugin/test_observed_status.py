from builders import node
from gputopo.api.v1alpha1 import GPUTopologyStatus
from gputopo_deviceplugin.health import Health
from gputopo_deviceplugin.identify import ListedPod
from gputopo_deviceplugin.observe import (
    Serving,
    observed_gpus,
    serving_of,
    status_of,
    withdrawn,
)
from gputopo_deviceplugin.offer import Withheld
from gputopo_deviceplugin.pods import PodKey, record_of
from gputopo_deviceplugin.state import Hardware

TOPOLOGY = node(0, 1)
FIRST, SECOND = (gpu.uuid for gpu in TOPOLOGY.gpus)
SERVED = Serving(ready=True, reason="Serving", message="kubelet is served")


def status(health: Health, before: GPUTopologyStatus, now: str) -> GPUTopologyStatus:
    hardware = Hardware(TOPOLOGY, health, None)
    gpus = observed_gpus(health, [], {})
    return status_of(hardware, gpus, SERVED, [], generation=3, before=before, now=now)


def test_conditions_keep_their_time_until_they_turn() -> None:
    well: Health = {FIRST: None, SECOND: None}
    first = status(well, GPUTopologyStatus(), "t1")
    assert status(well, first, "t2") == first
    sick = status({FIRST: None, SECOND: "XID 79"}, first, "t3")
    times = {entry.type: (entry.status, entry.last_transition_time) for entry in sick.conditions}
    assert times == {
        "Ready": ("True", "t1"),
        "GPUsHealthy": ("False", "t3"),
        "AllocationsAsPlaced": ("True", "t1"),
    }
    assert sick.conditions[1].message == f"{SECOND}: XID 79"
    assert (sick.observed_generation, sick.fingerprint) == (3, TOPOLOGY.fingerprint)


def test_a_holder_that_the_api_server_did_not_tell_has_no_uid() -> None:
    known = record_of({"metadata": {"uid": "u", "namespace": "x", "name": "known"}}, "r")
    listed = [
        ListedPod(PodKey("x", "known"), {"main": frozenset([FIRST])}),
        ListedPod(PodKey("x", "new"), {"main": frozenset([SECOND])}),
    ]
    first, second = observed_gpus({FIRST: None, SECOND: "lost"}, listed, {known.key: known})
    assert (first.pod, first.pod_uid, first.healthy) == ("known", "u", True)
    assert (second.pod, second.pod_uid, second.reason) == ("new", None, "lost")


def test_the_first_obstacle_is_the_reason() -> None:
    broken, well = Hardware(TOPOLOGY, {}, "no driver"), Hardware(TOPOLOGY, {}, None)
    withheld = Withheld("CompetingAllocator", "rival")
    assert serving_of(broken, withheld, registered=True, heard=True).reason == "CompetingAllocator"
    assert serving_of(broken, None, registered=True, heard=True).reason == "NVMLUnavailable"
    assert serving_of(well, None, registered=False, heard=False).reason == "NotRegistered"
    assert serving_of(well, None, registered=True, heard=False).reason == "NotHeard"
    assert serving_of(well, None, registered=True, heard=True).ready


def test_of_a_status_that_is_withdrawn_only_ready_changes() -> None:
    before = status({FIRST: None, SECOND: "XID 79"}, GPUTopologyStatus(), "t1")
    ready, *others = withdrawn(before, "t2")
    assert (ready.type, ready.status, ready.reason) == ("Ready", "False", "Stopping")
    assert (ready.last_transition_time, ready.observed_generation) == ("t2", 3)
    assert others == before.conditions[1:]
    again = before.model_copy(update={"conditions": [ready, *others]})
    assert withdrawn(again, "t3") == [ready, *others]
    assert [one.type for one in withdrawn(GPUTopologyStatus(), "t1")] == ["Ready"]

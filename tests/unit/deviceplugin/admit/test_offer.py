from typing import Any

from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.admit.offer import AssignedGpus, DeviceOffer, withholding_condition
from gputopo_deviceplugin.conditions import not_ready
from gputopo_deviceplugin.gpus.hardware import NodeHardware
from gputopo_deviceplugin.gpus.health import Health
from gputopo_deviceplugin.gpus.state import GpuState

A, B, C = map(GpuUuid, "ABC")
HEALTH: Health = {A: None, B: None, C: "XID 79"}


def test_only_gpus_with_a_container_stay_healthy_while_the_others_are_withheld() -> None:
    state = GpuState()
    assert state.offered == {}
    state.set_hardware(NodeHardware(None, HEALTH, None))
    assert state.offered == HEALTH
    state.withhold("rival", frozenset([A]))
    assert state.offered == {A: None, B: "rival", C: "XID 79"}
    state.withhold("rival", frozenset([C]))
    assert state.offered == {A: "rival", B: "rival", C: "XID 79"}


def test_the_first_reason_is_reported() -> None:
    assert withholding_condition(connected=True, competitor=None, without_record=()) is None
    lost = withholding_condition(connected=True, competitor=None, without_record=("x/a", "x/b"))
    assert lost is not None
    assert lost.reason == "KubeletRecordsLost"
    assert "x/a, x/b; delete them or drain the node" in lost.message
    rival = withholding_condition(connected=True, competitor="rival", without_record=("x/a",))
    assert rival == not_ready("CompetingAllocator", "rival")
    unreachable = withholding_condition(connected=False, competitor="rival", without_record=())
    assert unreachable is not None
    assert unreachable.reason == "APIServerUnreachable"


def test_an_incomplete_list_of_kubelet_removes_no_gpu() -> None:
    assigned = AssignedGpus()
    assert not assigned.known
    assigned.update(frozenset([A]), complete=True)
    assigned.add(frozenset([B]))
    assigned.update(frozenset(), complete=False)
    assert assigned.gpus == {A, B}
    assigned.update(frozenset([B]), complete=True)
    assert assigned.gpus == {B}
    assert assigned.known


def test_nothing_is_decided_before_nvml_was_read() -> None:
    unused: Any = None
    offer = DeviceOffer(GpuState(), unused, unused, unused, unused)
    offer.update()
    assert offer.withheld is None

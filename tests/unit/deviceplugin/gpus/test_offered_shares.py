"""The health of shares as kubelet sees it."""

from dataclasses import replace

from gputopo.api.shares import share_id
from gputopo_deviceplugin.gpus.hardware import NodeHardware
from gputopo_deviceplugin.gpus.state import GpuState, MpsFaults
from support.builders.topologies import node

TOPOLOGY = node(0, 1)
FIRST, SECOND = (gpu.uuid for gpu in TOPOLOGY.gpus)
A0, A1, B0, B1 = (share_id(gpu, number) for gpu in (FIRST, SECOND) for number in range(2))


def state(shares: int = 2) -> GpuState:
    found = GpuState(shares)
    found.set_hardware(NodeHardware(TOPOLOGY, dict.fromkeys((FIRST, SECOND)), None))
    return found


def test_each_gpu_has_as_many_shares_as_the_settings_say() -> None:
    assert state().offered_shares == dict.fromkeys((A0, A1, B0, B1))
    assert state(0).offered_shares == {}
    assert GpuState(2).offered_shares == {}
    assert state().offered_devices == dict.fromkeys((FIRST, SECOND, A0, A1, B0, B1))


def test_share_in_use_has_the_health_of_its_gpu() -> None:
    found = state()
    found.withhold("the API server does not respond", frozenset({B1}))
    assert found.offered_shares == {
        A0: "the API server does not respond",
        A1: "the API server does not respond",
        B0: "the API server does not respond",
        B1: None,
    }
    found.withhold(None, frozenset({A1}))
    assert found.offered_shares == dict.fromkeys((A0, A1, B0, B1))
    assert found.hardware is not None
    found.set_hardware(replace(found.hardware, health={FIRST: "XID 79", SECOND: None}))
    assert found.offered_shares == {A0: "XID 79", A1: "XID 79", B0: None, B1: None}


def test_gpu_of_shares_in_use_is_not_offered_while_gpus_are_withheld() -> None:
    found = state()
    found.withhold("no", frozenset({A0}))
    assert found.offered == {FIRST: "no", SECOND: "no"}


def test_faults_of_mps_do_not_make_shares_unhealthy() -> None:
    # kubelet would reject pods that are bound already, and these can still get their share.
    found = state()
    found.mps_faults = MpsFaults({FIRST: "MPS is in state Fault"}, outage="no response")
    assert found.offered_shares == dict.fromkeys((A0, A1, B0, B1))


def test_outage_of_mps_concerns_gpus_without_a_daemon() -> None:
    faults = MpsFaults(
        {FIRST: "MPS is in state Fault"}, outage="no response", surviving=frozenset({FIRST, SECOND})
    )
    assert faults.sharing_fault(FIRST) == "MPS is in state Fault"
    assert faults.sharing_fault(SECOND) is None
    faults = replace(faults, surviving=frozenset())
    assert faults.sharing_fault(SECOND) == "no response"
    assert MpsFaults().sharing_fault(FIRST) is None

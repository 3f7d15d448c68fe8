import pytest

from builders import node
from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.health import XidMark, all_unhealthy, health_of, is_critical
from gputopo_deviceplugin.readings import GpuReading, Readings

TOPOLOGY = node(0, 1)
FIRST, SECOND = (gpu.uuid for gpu in TOPOLOGY.gpus)


def reading(index: int, *, mig: bool = False) -> GpuReading:
    gpu = TOPOLOGY.gpus[index]
    return GpuReading(index, gpu.uuid, index, gpu.pci_bus_id, "V100", 1, 0, 3, 16, (), mig)


def health(
    readings: Readings, marks: dict[GpuUuid, XidMark] | None = None, now: float = 100.0
) -> dict[GpuUuid, str | None]:
    judged = health_of(TOPOLOGY, readings, marks or {}, now_seconds=now, xid_quiet_seconds=60)
    return dict(judged)


BOTH = Readings("550", (reading(0), reading(1)))


def test_gpus_that_answer_are_healthy() -> None:
    assert health(BOTH) == {FIRST: None, SECOND: None}


def test_a_gpu_that_does_not_answer_says_why() -> None:
    one = Readings("550", (reading(0),), {1: "NVML: GPU is lost"})
    assert health(one) == {FIRST: None, SECOND: "NVML: GPU is lost"}
    unlisted = Readings("550", (reading(0),))
    assert health(unlisted)[SECOND] == "NVML: does not list this GPU"


def test_a_gpu_in_mig_mode_cannot_be_given_out() -> None:
    mig = Readings("550", (reading(0, mig=True), reading(1)))
    assert health(mig) == {FIRST: "MIG mode is on: not yet supported", SECOND: None}


def test_an_xid_counts_until_it_was_quiet_long_enough() -> None:
    marks = {SECOND: XidMark(79, 50.0)}
    assert health(BOTH, marks, now=109.9)[SECOND] == "XID 79"
    assert health(BOTH, marks, now=110.0)[SECOND] is None


def test_without_nvml_no_gpu_is_healthy() -> None:
    assert all_unhealthy(TOPOLOGY, "no driver") == {FIRST: "no driver", SECOND: "no driver"}


@pytest.mark.parametrize("xid", [13, 31, 43, 45, 68])
def test_errors_of_programs_are_not_the_gpus(xid: int) -> None:
    assert not is_critical(xid)


@pytest.mark.parametrize("xid", [48, 63, 74, 79, 94, 95])
def test_errors_of_the_gpu_or_its_links_are(xid: int) -> None:
    assert is_critical(xid)

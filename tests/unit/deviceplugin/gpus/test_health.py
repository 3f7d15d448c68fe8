from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.gpus.health import all_unhealthy, evaluate_health
from gputopo_deviceplugin.gpus.snapshot import NvmlGpu, NvmlSnapshot
from gputopo_deviceplugin.gpus.xid_marks import XidMark
from support.builders.topologies import node

TOPOLOGY = node(0, 1)
FIRST, SECOND = (gpu.uuid for gpu in TOPOLOGY.gpus)
FATAL = "XID 95: uncontained ECC error: reset the GPU or reboot the node"


def nvml_gpu(index: int, *, mig: bool = False, recovery: int | None = None) -> NvmlGpu:
    gpu = TOPOLOGY.gpus[index]
    one = NvmlGpu(index, gpu.uuid, index, gpu.pci_bus_id, "V100", 1, 0, 3, 16, (), mig)
    return replace(one, recovery_action=recovery)


def mark(gpu: GpuUuid, code: int, at_seconds: float = 1.0) -> XidMark:
    return XidMark(gpu, code, at_seconds, datetime.now(UTC))


def health(snapshot: NvmlSnapshot, marks: Sequence[XidMark] = ()) -> dict[GpuUuid, str | None]:
    by_key = {(mark.gpu, mark.code): mark for mark in marks}
    return dict(evaluate_health(TOPOLOGY, snapshot, by_key, xid_quiet_seconds=60))


BOTH = NvmlSnapshot("550", (nvml_gpu(0), nvml_gpu(1)))


def test_readable_gpus_are_healthy() -> None:
    assert health(BOTH) == {FIRST: None, SECOND: None}


def test_an_unreadable_gpu_is_unhealthy_with_the_reason() -> None:
    one = NvmlSnapshot("550", (nvml_gpu(0),), {1: "NVML: GPU is lost"})
    assert health(one) == {FIRST: None, SECOND: "NVML: GPU is lost"}
    unlisted = NvmlSnapshot("550", (nvml_gpu(0),))
    assert health(unlisted)[SECOND] == "NVML: does not list this GPU"


def test_a_gpu_in_mig_mode_is_unhealthy() -> None:
    mig = NvmlSnapshot("550", (nvml_gpu(0, mig=True), nvml_gpu(1)))
    assert health(mig) == {FIRST: "MIG mode is on: not yet supported", SECOND: None}


def test_the_reason_names_the_xid_its_meaning_and_the_remedy() -> None:
    assert health(BOTH, [mark(SECOND, 95)]) == {FIRST: None, SECOND: FATAL}
    bus = "XID 79: GPU has fallen off the bus: reboot the node"
    assert health(BOTH, [mark(SECOND, 79)])[SECOND] == bus
    link = "XID 74: NVLink error: healthy again 60 s after the last one"
    assert health(BOTH, [mark(SECOND, 74)])[SECOND] == link
    unnamed = "XID 69: error of the GPU or the driver: healthy again 60 s after the last one"
    assert health(BOTH, [mark(SECOND, 69)])[SECOND] == unnamed


def test_a_fatal_xid_precedes_a_newer_transient_one_and_a_lost_gpu() -> None:
    marks = [mark(SECOND, 95, 1.0), mark(SECOND, 74, 2.0)]
    assert health(BOTH, marks)[SECOND] == FATAL
    lost = NvmlSnapshot("550", (nvml_gpu(0),), {1: "NVML: GPU is lost"})
    assert health(lost, marks)[SECOND] == FATAL
    assert health(lost, marks[1:])[SECOND] == "NVML: GPU is lost"


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        (1, "NVML: recovery action GPU_RESET: end all processes on the GPU and reset it"),
        (2, "NVML: recovery action NODE_REBOOT: reboot the node"),
        (99, "NVML: recovery action 99: see nvidia-smi -q, GPU Recovery Action"),
    ],
)
def test_a_recovery_action_alone_makes_a_gpu_unhealthy(action: int, reason: str) -> None:
    snapshot = NvmlSnapshot("580", (nvml_gpu(0, recovery=0), nvml_gpu(1, recovery=action)))
    assert health(snapshot) == {FIRST: None, SECOND: reason}
    assert health(snapshot, [mark(SECOND, 74)])[SECOND] == reason


def test_without_nvml_no_gpu_is_healthy() -> None:
    assert all_unhealthy(TOPOLOGY, "no driver") == {FIRST: "no driver", SECOND: "no driver"}

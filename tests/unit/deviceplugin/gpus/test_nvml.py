from pathlib import Path
from types import SimpleNamespace

import pynvml
import pytest

from fakenvml.build import build_library
from fakenvml.render import render
from gputopo.catalogue import named
from gputopo_deviceplugin.gpus.nvml import Nvml
from gputopo_deviceplugin.gpus.session import NvmlSession
from support.agent.hardware import Watched, watched


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    build_library(tmp_path)
    conf = tmp_path / "topology.conf"
    conf.write_text(render(named("dgx1-v100", node="n1")))
    monkeypatch.setenv("FAKE_NVML_TOPOLOGY", str(conf))
    return conf


@pytest.fixture
def watch(conf: Path) -> Watched:
    return watched(conf.parent, conf.parent / "state")


def test_a_gpu_whose_texts_cannot_be_decoded_is_unhealthy_and_the_others_work(
    watch: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = watch.look().topology
    assert known is not None
    broken = known.gpus[2]
    real = pynvml.nvmlDeviceGetPciInfo

    def garbled(handle: object) -> object:
        info = real(handle)
        ours = info.busId.upper() == broken.pci_bus_id.upper()
        return SimpleNamespace(busId=b"\xff\xfe") if ours else info

    monkeypatch.setattr(pynvml, "nvmlDeviceGetPciInfo", garbled)
    found = watch.look()
    watch.session.close()
    assert found.topology == known
    assert [uuid for uuid, fault in found.health.items() if fault] == [broken.uuid]
    assert "can't decode" in str(found.health[broken.uuid])


def test_hardware_that_the_api_cannot_express_is_not_published(
    watch: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = watch.look().topology
    assert known is not None
    monkeypatch.setattr(pynvml, "nvmlDeviceGetMinorNumber", lambda _: -1)
    found = watch.look()
    watch.session.close()
    assert found.topology == known
    assert found.fault == "NVML: minor: -1: Input should be greater than or equal to 0"
    assert set(found.health.values()) == {found.fault}


def test_the_recovery_action_is_read_where_the_driver_reports_it(conf: Path) -> None:
    conf.write_text(conf.read_text() + "recovery 0 NONE\nrecovery 3 DRAIN_AND_RESET\n")
    nvml = Nvml(conf.parent)
    try:
        actions = [gpu.recovery_action for gpu in nvml.read_gpus().gpus]
    finally:
        nvml.close()
    assert actions == [0, None, None, 4, None, None, None, None]


def test_a_driver_without_field_values_reports_no_recovery_action(
    conf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(_handle: object, _fields: object) -> object:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlDeviceGetFieldValues", missing)
    nvml = Nvml(conf.parent)
    try:
        assert {gpu.recovery_action for gpu in nvml.read_gpus().gpus} == {None}
    finally:
        nvml.close()


def test_after_an_error_of_xid_events_the_session_registers_again(
    watch: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    created: list[object] = []
    create, wait = pynvml.nvmlEventSetCreate, pynvml.nvmlEventSetWait

    def failing(*_: object) -> object:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN)

    def counted() -> object:
        created.append(create())
        return created[-1]

    monkeypatch.setattr(pynvml, "nvmlEventSetCreate", counted)
    watch.look()
    monkeypatch.setattr(pynvml, "nvmlEventSetWait", failing)
    assert watch.session.wait_for_xid() is None
    monkeypatch.setattr(pynvml, "nvmlEventSetWait", wait)
    watch.look()
    watch.session.close()
    assert len(created) == 2


def test_a_session_that_nvml_does_not_close_ends(
    watch: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> object:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN)

    watch.look()
    shutdown = pynvml.nvmlShutdown
    monkeypatch.setattr(pynvml, "nvmlShutdown", failing)
    watch.session.close()
    shutdown()  # the library is shared with other tests
    assert not watch.session.is_open


def test_events_that_nvml_does_not_end_leave_no_session_open(
    watch: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> object:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN)

    ended: list[bool] = []
    shutdown = pynvml.nvmlShutdown

    def end() -> None:
        ended.append(True)
        shutdown()

    monkeypatch.setattr(pynvml, "nvmlShutdown", end)
    watch.look()
    monkeypatch.setattr(pynvml, "nvmlEventSetFree", failing)
    watch.session.close()
    assert not watch.session.is_open
    assert not watch.session.listens
    assert ended == [True], "NVML counts the sessions of a process"


def test_without_a_listener_there_is_no_xid(tmp_path: Path) -> None:
    assert NvmlSession(tmp_path, ()).wait_for_xid() is None


def test_events_of_another_kind_or_gpu_are_no_xids(
    watch: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch.look()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    xid = pynvml.nvmlEventTypeXidCriticalError
    for device, kind in ((None, xid), (handle, pynvml.nvmlEventTypePState)):
        event = SimpleNamespace(device=device, eventType=kind, eventData=79)
        monkeypatch.setattr(pynvml, "nvmlEventSetWait", lambda *_, found=event: found)
        assert watch.session.wait_for_xid() is None
    watch.session.close()


def test_numa_nodes_above_63_are_in_the_next_word(
    watch: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pynvml, "nvmlDeviceGetMemoryAffinity", lambda *_: [0, 2])
    known = watch.look().topology
    watch.session.close()
    assert known is not None
    assert {gpu.numa_node for gpu in known.gpus} == {65}


def test_gpu_whose_numa_node_cannot_be_read_is_unhealthy(
    watch: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: object) -> object:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)

    watch.look()
    monkeypatch.setattr(pynvml, "nvmlDeviceGetMemoryAffinity", lost)
    found = watch.look()
    watch.session.close()
    assert {str(fault) for fault in found.health.values()} == {"NVML: GPU is lost"}


def test_gpus_without_a_common_ancestor_are_still_found(
    watch: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: object) -> object:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN)

    monkeypatch.setattr(pynvml, "nvmlDeviceGetTopologyCommonAncestor", unknown)
    found = watch.look()
    watch.session.close()
    assert found.topology is not None
    assert len(found.topology.gpus) == 8

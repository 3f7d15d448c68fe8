from pathlib import Path
from types import SimpleNamespace

import pynvml
import pytest

from fakenvml.build import build_library
from fakenvml.render import render
from gputopo.topology.catalogue import named
from gputopo_deviceplugin.hardware import HardwareWatch
from gputopo_deviceplugin.state import Current


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HardwareWatch:
    build_library(tmp_path)
    conf = tmp_path / "topology.conf"
    conf.write_text(render(named("dgx1-v100", node="n1")))
    monkeypatch.setenv("FAKE_NVML_TOPOLOGY", str(conf))
    return HardwareWatch(
        Current(),
        library_dir=tmp_path,
        system_dir=tmp_path,
        health_seconds=1.0,
        retry_seconds=1.0,
        xid_quiet_seconds=1.0,
    )


def test_a_gpu_whose_words_cannot_be_decoded_is_lost_and_the_rest_work(
    watch: HardwareWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = watch._look(None).topology
    assert known is not None
    broken = known.gpus[2]
    real = pynvml.nvmlDeviceGetPciInfo

    def garbled(handle: object) -> object:
        info = real(handle)
        ours = info.busId.upper() == broken.pci_bus_id.upper()
        return SimpleNamespace(busId=b"\xff\xfe") if ours else info

    monkeypatch.setattr(pynvml, "nvmlDeviceGetPciInfo", garbled)
    found = watch._look(known)
    watch._close()
    assert found.topology == known
    assert [uuid for uuid, fault in found.health.items() if fault] == [broken.uuid]
    assert "can't decode" in str(found.health[broken.uuid])


def test_hardware_that_the_api_has_no_words_for_is_not_published(
    watch: HardwareWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = watch._look(None).topology
    assert known is not None
    monkeypatch.setattr(pynvml, "nvmlDeviceGetMinorNumber", lambda _: -1)
    found = watch._look(known)
    watch._close()
    assert found.topology == known
    assert found.fault == "NVML: minor: Input should be greater than or equal to 0 (got -1)"
    assert set(found.health.values()) == {found.fault}

"""NVML when it is missing, or rejects calls."""

import asyncio
from pathlib import Path

import pynvml
import pytest

from fakenvml.build import build_library
from fakenvml.render import render
from gputopo.catalogue import named
from gputopo_mps.nvml import GpuDriver, GpuDriverError

TOPOLOGY = named("dgx1-v100", node="n1")
UUID = TOPOLOGY.gpus[0].uuid


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("lib"))


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "topology.conf"
    path.write_text(render(TOPOLOGY))
    monkeypatch.setenv("FAKE_NVML_TOPOLOGY", str(path))
    return path


async def test_a_missing_library_is_named(tmp_path: Path) -> None:
    driver = GpuDriver(tmp_path, 60)
    with pytest.raises(GpuDriverError, match=r"libnvidia-ml\.so\.1"):
        await driver.read(UUID)
    driver.close()


async def test_a_gpu_without_mig_has_none(library: Path, conf: Path) -> None:
    driver = GpuDriver(library.parent, 60)
    found = await driver.read(UUID)
    assert (found.mig, found.mode, found.processes) == (False, "DEFAULT", frozenset())
    add(conf, "fault 0 15")
    with pytest.raises(GpuDriverError, match="NVML"):
        await driver.read(UUID)
    driver.close()


async def test_a_lost_gpu_leaves_the_gpus_after_it_usable(library: Path, conf: Path) -> None:
    driver = GpuDriver(library.parent, 60)
    add(conf, "fault 0 15")
    last = TOPOLOGY.gpus[-1].uuid
    await driver.set_mode(last, "EXCLUSIVE_PROCESS")
    assert (await driver.read(last)).mode == "EXCLUSIVE_PROCESS"
    with pytest.raises(GpuDriverError, match=f"{UUID}: NVML lists .* index 0 cannot be read: "):
        await driver.read(UUID)
    driver.close()


@pytest.mark.usefixtures("conf")
async def test_a_driver_that_does_not_support_mig_is_read(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(_: object) -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    monkeypatch.setattr(pynvml, "nvmlDeviceGetMigMode", unsupported)
    driver = GpuDriver(library.parent, 60)
    assert not (await driver.read(UUID)).mig
    driver.close()


async def test_no_call_is_made_while_one_hangs(library: Path, conf: Path) -> None:
    driver = GpuDriver(library.parent, 0.2)
    add(conf, "hang")
    with pytest.raises(GpuDriverError, match="no response within"):
        await driver.read(UUID)
    errors = set()
    for pause_seconds in (0, 1.1):
        await asyncio.sleep(pause_seconds)
        with pytest.raises(GpuDriverError, match=r"has not ended; .* reboot the node") as error:
            await driver.read(UUID)
        errors.add(str(error.value))
    assert len(errors) == 1, "the agent publishes each new text"
    driver.close()
    add(conf, "# no longer", instead_of="hang")
    while True:
        try:
            await driver.read(UUID)
        except GpuDriverError:
            await asyncio.sleep(0.02)
        else:
            break
    driver.close()


def add(conf: Path, line: str, instead_of: str = "") -> None:
    text = conf.read_text()
    conf.write_text(
        text.replace(f"{instead_of}\n", f"{line}\n") if instead_of else text + f"{line}\n"
    )

"""The node of the component's tests."""

import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from fakemps.build import install_programs
from fakenvml.build import build_library
from support.mps.world import MpsWorld, mps_world


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("lib"))


@pytest.fixture(scope="session")
def control_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_programs(tmp_path_factory.mktemp("bin"), sys.executable)


@pytest.fixture
def short_directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="gt-") as name:
        yield Path(name)


@pytest.fixture
async def world(
    short_directory: Path,
    nvml_library: Path,
    control_program: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[MpsWorld]:
    monkeypatch.setenv("FAKE_NVML_TOPOLOGY", "")  # so that it is unset after the test
    async with mps_world(short_directory, nvml_library, control_program) as world:
        yield world

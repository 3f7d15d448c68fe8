"""The node of the agent's tests."""

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from fakenvml.build import build_library
from gputopo_deviceplugin.admit import admission
from gputopo_deviceplugin.report import reporter
from support.agent.world import HANG_LIMITS, AgentWorld, agent_world


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise the time limits of responses: a busy machine must not look like a lost response."""
    monkeypatch.setattr(admission, "_LIST_SECONDS", 30.0)
    monkeypatch.setattr(reporter, "_WITHDRAW_SECONDS", 60.0)


@pytest.fixture(scope="session")
def library_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("lib")).parent


@pytest.fixture
def short_directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="gt-") as name:
        yield Path(name)


@pytest.fixture
async def world(
    short_directory: Path, library_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[AgentWorld]:
    monkeypatch.setenv("FAKE_NVML_TOPOLOGY", "")  # so that it is unset after the test
    async with agent_world(short_directory, library_dir) as world:
        yield world


@pytest.fixture
async def impatient(
    short_directory: Path, library_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[AgentWorld]:
    """Return a node on which a call of NVML counts as hanging after a second."""
    monkeypatch.setenv("FAKE_NVML_TOPOLOGY", "")
    async with agent_world(short_directory, library_dir, **HANG_LIMITS) as world:
        yield world

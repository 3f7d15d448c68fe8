"""The node of the agent's tests."""

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from fakenvml.build import build_library
from support.agent.world import HANG_LIMITS, AgentWorld, agent_world


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

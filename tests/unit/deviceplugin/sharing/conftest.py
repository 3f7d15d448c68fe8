"""A coordinator of two GPUs with its MPS component."""

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.agent.coordinated import Coordinated, coordinated
from support.builders.topologies import node


@pytest.fixture
async def case() -> AsyncIterator[Coordinated]:
    with tempfile.TemporaryDirectory(prefix="gt-") as name:
        async with coordinated(Path(name), node(0, 1)) as found:
            yield found

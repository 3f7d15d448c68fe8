"""A datagram socket in the place of the agent's."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.steps import AgentSocket


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[AgentSocket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        yield AgentSocket(listener, tmp_path / "socket")

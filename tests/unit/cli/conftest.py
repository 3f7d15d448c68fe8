"""The command line for the tests of its commands."""

import pytest

from command_line import Command, command_line


@pytest.fixture
def gputopo(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    return command_line(capsys, monkeypatch)

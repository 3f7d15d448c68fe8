"""The program of the extender: its settings, and its end by a signal."""

import asyncio
import os
import runpy
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gputopo_extender import __main__ as program
from gputopo_extender.settings import ExtenderSettings


def test_program_runs_with_its_settings_until_a_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[object] = []

    @asynccontextmanager
    async def aiohttp_client() -> AsyncIterator[str]:
        yield "client"

    @asynccontextmanager
    async def running(settings: ExtenderSettings, client: str) -> AsyncIterator[None]:
        events.extend([settings.verbs_port, client])
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGTERM)
        yield
        events.append("stopped")

    monkeypatch.setattr(program, "aiohttp_client", aiohttp_client)
    monkeypatch.setattr(program, "running", running)
    monkeypatch.setattr(program, "configure", lambda *_, **__: None)
    monkeypatch.setattr("sys.argv", ["gputopo-extender", "--verbs-port", "1234"])
    program.main()
    assert events == [1234, "client", "stopped"]


def test_program_ends_with_a_message_on_an_invalid_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.argv", ["gputopo-extender", "--verbs-port", "many"])
    monkeypatch.delitem(sys.modules, "gputopo_extender.__main__")
    with pytest.raises(SystemExit, match=r"gputopo-extender: .*verbs-port"):
        runpy.run_module("gputopo_extender.__main__", run_name="__main__")

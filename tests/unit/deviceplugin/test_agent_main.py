"""The agent's program: its settings, and its end by a signal."""

import asyncio
import os
import runpy
import signal
import sys
import urllib.error
import urllib.request
from contextlib import nullcontext

import pytest

from gputopo_deviceplugin import __main__ as program
from gputopo_deviceplugin.metrics import AgentMetrics
from gputopo_deviceplugin.settings import AgentSettings
from gputopo_kube.probes import Pulse
from support.ports import free_port


def prepare(monkeypatch: pytest.MonkeyPatch, port: int) -> list[object]:
    """Replace the client and the agent; return the list of events."""
    events: list[object] = []

    class FakeAgent:
        def __init__(
            self,
            settings: AgentSettings,
            client: nullcontext[float],
            metrics: AgentMetrics,
            pulse: Pulse,
        ) -> None:
            assert client.enter_result == settings.api_timeout_seconds
            assert metrics.registry is not None
            events.append(settings.node)
            self.pulse = pulse

        async def run(self) -> None:
            url = f"http://127.0.0.1:{port}/readyz"
            for ready in (False, True):
                self.pulse.ready = ready
                events.append(await asyncio.to_thread(status, url))
            if "fails" in events:
                raise OSError("the agent fails")
            if "returns" in events:
                return
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(60)

        async def stop(self) -> None:
            events.append("stopped")

    def status(url: str) -> int:
        try:
            with urllib.request.urlopen(url) as response:  # noqa: S310
                return int(response.status)
        except urllib.error.HTTPError as error:
            return error.code

    monkeypatch.setattr("gputopo_kube.program.httpx_client", nullcontext)
    monkeypatch.setattr(program, "Agent", FakeAgent)
    monkeypatch.setattr("gputopo_kube.program.configure", lambda *_, **__: None)
    argv = ["gputopo-deviceplugin", "--node=n1", "--probes-host=127.0.0.1"]
    monkeypatch.setattr("sys.argv", [*argv, f"--probes-port={port}"])
    return events


def test_program_runs_the_agent_until_a_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    events = prepare(monkeypatch, free_port())
    program.main()
    assert events == ["n1", 503, 200, "stopped"]


def test_program_ends_with_the_error_of_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    events = prepare(monkeypatch, free_port())
    events.append("fails")
    with pytest.raises(ExceptionGroup) as caught:
        program.main()
    assert caught.group_contains(OSError, match="the agent fails")
    assert "stopped" not in events


def test_program_ends_when_the_agent_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    events = prepare(monkeypatch, free_port())
    events.append("returns")
    program.main()
    assert "stopped" not in events


def test_program_ends_with_a_message_on_an_invalid_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.argv", ["gputopo-deviceplugin", "--node=n1", "--probes-port=many"])
    monkeypatch.delitem(sys.modules, "gputopo_deviceplugin.__main__")
    with pytest.raises(SystemExit, match=r"gputopo-deviceplugin: .*probes-port"):
        runpy.run_module("gputopo_deviceplugin.__main__", run_name="__main__")

"""The component's program: its settings, and its end by a signal."""

import asyncio
import os
import runpy
import signal
import sys
from contextlib import nullcontext

import pytest

from gputopo_kube.probes import Pulse
from gputopo_mps import __main__ as program
from gputopo_mps.metrics import MpsMetrics
from gputopo_mps.settings import MpsSettings
from support.ports import free_port


@pytest.mark.parametrize("end", ["by a signal", "by itself"])
def test_it_stops_at_a_signal_or_when_its_loops_end(
    monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    events: list[str] = []

    class FakeComponent:
        def __init__(self, settings: MpsSettings, *_: nullcontext[float] | MpsMetrics) -> None:
            events.append(settings.node)
            self.pulse = _[-1]

        async def run(self) -> None:
            assert isinstance(self.pulse, Pulse)
            self.pulse.ready = True
            if end == "by a signal":
                os.kill(os.getpid(), signal.SIGTERM)
                await asyncio.sleep(60)

        async def stop(self) -> None:
            events.append("stopped")

    monkeypatch.setattr("gputopo_kube.program.httpx_client", nullcontext)
    monkeypatch.setattr(program, "MpsComponent", FakeComponent)
    port = str(free_port())
    monkeypatch.setattr(sys, "argv", ["gputopo-mps", "--node=n1", f"--probes-port={port}"])
    program.main()
    assert events == (["n1", "stopped"] if end == "by a signal" else ["n1"])


def test_an_invalid_setting_ends_the_program_with_a_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "argv", ["gputopo-mps", "--node=n1", "--client-user=-1"])
    monkeypatch.delitem(sys.modules, "gputopo_mps.__main__")
    with pytest.raises(SystemExit, match=r"gputopo-mps: --client-user .*'-1'"):
        runpy.run_module("gputopo_mps", run_name="__main__")

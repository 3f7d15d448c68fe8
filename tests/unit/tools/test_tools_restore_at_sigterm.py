"""A tool that is ended by SIGTERM restores what it has changed, as with Ctrl-C."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from learntest import run
from learntest.experiment import Experiment, Options
from resizetest import queue_setting
from soaktest.trial import trial


@pytest.fixture
def unhandled() -> Iterator[list[int]]:
    """Return the SIGTERM signals that a tool does not handle; they do not end the test run."""
    found: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: found.append(number))
    yield found
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the orders that the queue of the operator has had."""
    found: list[str] = []
    reports: list[str] = []

    def set_queue(_: Any, order: str) -> None:
        found.append(order)

    @contextmanager
    def bench(*_: object) -> Iterator[Any]:
        yield SimpleNamespace(report=reports.append)

    monkeypatch.setattr(queue_setting, "set_queue", set_queue)
    monkeypatch.setattr(run, "bench", bench)
    return found


def switch_on_and_wait(bench: Any, _: Options) -> None:
    with queue_setting.restored(bench):
        queue_setting.set_queue(bench, "SRTF")
        signal.raise_signal(signal.SIGTERM)
        queue_setting.set_queue(bench, "not interrupted")


def carry_out(experiment: Experiment) -> None:
    with trial(keep_cluster=True):
        cluster: Any = None
        run.carry_out(cluster, cluster, [experiment], Options(), Path("log"))


def test_queue_is_off_again_after_sigterm(
    unhandled: list[int], orders: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        carry_out(Experiment("queue", "orders", switch_on_and_wait))
    assert ended.value.code == 130
    assert orders == ["SRTF", ""]
    assert capsys.readouterr().err == "\ninterrupted\n"
    assert unhandled == []


def test_second_sigterm_does_not_interrupt_the_restoring(
    unhandled: list[int], orders: list[str]
) -> None:
    def restore_slowly(bench: Any, _: Options) -> None:
        with queue_setting.restored(bench):
            try:
                signal.raise_signal(signal.SIGTERM)
            finally:
                signal.raise_signal(signal.SIGTERM)

    with pytest.raises(SystemExit):
        carry_out(Experiment("queue", "orders", restore_slowly))
    assert orders == [""]
    assert unhandled == []


def test_after_the_tool_sigterm_is_handled_as_before(unhandled: list[int]) -> None:
    with trial(keep_cluster=True):
        pass
    signal.raise_signal(signal.SIGTERM)
    assert unhandled == [signal.SIGTERM]

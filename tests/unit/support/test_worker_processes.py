"""A run with workers of pytest-xdist reports what a run without them reports."""

from collections import Counter
from types import SimpleNamespace
from typing import cast

import pytest

from support import worker_processes as hooks
from support.property_settings import tried

SIZE = {"COLUMNS": "80", "LINES": "24"}


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    found = Counter[str]()
    monkeypatch.setattr(hooks, "TRIED", found)
    monkeypatch.setattr("support.property_settings.TRIED", found)
    return found


def session(**config: object) -> pytest.Session:
    return cast("pytest.Session", SimpleNamespace(config=SimpleNamespace(**config)))


def test_worker_has_no_size_of_a_terminal() -> None:
    environment = {"PYTEST_XDIST_WORKER": "gw0", "PATH": "/bin", **SIZE}
    hooks.remove_terminal_size(environment)
    assert environment == {"PYTEST_XDIST_WORKER": "gw0", "PATH": "/bin"}


def test_run_without_workers_keeps_the_size_that_its_user_has_set() -> None:
    environment = {**SIZE}
    hooks.remove_terminal_size(environment)
    assert environment == SIZE


def test_inputs_of_all_workers_are_counted(counts: Counter[str]) -> None:
    workers = [SimpleNamespace(workeroutput={}) for _ in range(2)]
    for worker, kind in zip(workers, ("nodes", "pods"), strict=True):
        tried("nodes")
        tried(kind)
        hooks.pytest_sessionfinish(session(workeroutput=worker.workeroutput))
        counts.clear()
    for worker in workers:
        hooks.pytest_testnodedown(worker)
    assert counts == {"nodes": 3, "pods": 1}


def test_worker_that_crashed_adds_nothing(counts: Counter[str]) -> None:
    hooks.pytest_testnodedown(SimpleNamespace())
    assert not counts


def test_process_that_is_no_worker_sends_nothing(counts: Counter[str]) -> None:
    tried("nodes")
    hooks.pytest_sessionfinish(session())
    assert counts == {"nodes": 1}


def test_kinds_are_reported_in_order(counts: Counter[str]) -> None:
    counts.update({"pods": 1_000, "nodes": 2})
    lines: list[str] = []
    reporter = SimpleNamespace(write_line=lines.append)
    hooks.pytest_terminal_summary(cast("pytest.TerminalReporter", reporter))
    assert lines == ["inputs tried: 2 nodes", "inputs tried: 1,000 pods"]

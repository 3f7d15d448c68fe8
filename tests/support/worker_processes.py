"""Hooks of pytest that make a run with the workers of pytest-xdist equal to a run without."""

import os
from collections.abc import MutableMapping
from typing import Final

import pytest

from support.property_settings import TRIED

_KEY: Final = "inputs tried"


def remove_terminal_size(environment: MutableMapping[str, str]) -> None:
    """Remove the width and height of the terminal from the environment of a worker.

    They are in the environment of pytest's process since it imported readline, and the workers
    inherit it. The command line would wrap its lines.
    """
    if "PYTEST_XDIST_WORKER" in environment:
        environment.pop("COLUMNS", None)
        environment.pop("LINES", None)


def pytest_configure() -> None:
    remove_terminal_size(os.environ)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send the number of tried inputs from a worker to the process that started it."""
    output: dict[str, object] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[_KEY] = dict(TRIED)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    """Add what a worker has sent; one that has crashed has sent nothing."""
    TRIED.update(getattr(node, "workeroutput", {}).get(_KEY, {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report how many inputs the property tests have tried."""
    for kind, count in sorted(TRIED.items()):
        terminalreporter.write_line(f"inputs tried: {count:,} {kind}")

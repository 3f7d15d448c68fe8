"""Settings of hypothesis: no deadline, because the machines are shared."""

import pytest
from hypothesis import HealthCheck, settings

from support.property_settings import TRIED

settings.register_profile("gputopo", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gputopo")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report how many inputs the fuzzers have tried."""
    for kind, count in TRIED.items():
        terminalreporter.write_line(f"inputs tried: {count:,} {kind}")

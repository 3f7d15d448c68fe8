"""Operator processes for the tests of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.api.server import ApiServer, serving_in_thread
from support.operator.process import Operator


@pytest.fixture(scope="session")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """One operator for all tests that do not disturb it; each test has its own GPUJobs."""
    with serving_in_thread(ApiServer()) as api:
        yield from _running(Operator(api, tmp_path_factory.mktemp("operator")))


@pytest.fixture
def own_operator(tmp_path: Path) -> Iterator[Operator]:
    """An operator that a test may disturb; it looks at everything again every two seconds."""
    with serving_in_thread(ApiServer()) as api:
        yield from _running(Operator(api, tmp_path, resync_seconds=2.0))


def _running(operator: Operator) -> Iterator[Operator]:
    operator.start()
    yield operator
    assert operator.stop() == 0, operator.log
    # An error of the API server is a line in the log; a stack trace is a fault of the operator.
    assert "Traceback" not in operator.log, operator.log
    # kopf would wait 5 s for a worker that was created after kopf itself.
    assert "Hung tasks are stopped" not in operator.log, operator.log

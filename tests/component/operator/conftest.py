"""Operator processes for the tests of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.api.server import ApiServer, serving_in_thread
from support.operator.process import Operator, running


@pytest.fixture(scope="session")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """One operator for all tests that do not disturb it; each test has its own GPUJobs."""
    with serving_in_thread(ApiServer()) as api:
        operator = Operator(api, tmp_path_factory.mktemp("operator"))
        with running(operator):
            yield operator


@pytest.fixture
def own_operator(tmp_path: Path) -> Iterator[Operator]:
    """An operator that a test may disturb; it looks at everything again every two seconds."""
    with serving_in_thread(ApiServer()) as api:
        operator = Operator(api, tmp_path, resync_seconds=2.0)
        with running(operator):
            yield operator

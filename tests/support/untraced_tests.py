"""Hook of pytest that leaves the long tests out of the measurement of coverage.

Property and quality tests run the same few functions many thousand times, and tracing doubles their
time. The other tests cover every branch without them.
"""

from collections.abc import Iterable
from pathlib import PurePath
from typing import Final

import pytest

_FOLDERS: Final = (("tests", "property"), ("tests", "quality"))


def is_traced(nodeid: str) -> bool:
    """Return whether coverage is measured while a test runs.

    >>> is_traced("tests/unit/test_a.py::test_b"), is_traced("tests/quality/test_a.py::test_b")
    (True, False)
    """
    return PurePath(nodeid).parts[:2] not in _FOLDERS


def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    """Mark the tests for pytest-cov."""
    for item in items:
        if not is_traced(item.nodeid):
            item.add_marker(pytest.mark.no_cover)

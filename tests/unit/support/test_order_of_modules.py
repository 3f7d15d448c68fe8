"""Workers first take modules that compute, then these and those that wait in turn."""

from types import SimpleNamespace
from typing import cast

import pytest

from support.order_of_modules import pytest_collection_modifyitems, spread

COMPUTING = [f"tests/unit/test_{number}.py" for number in range(8)]
WAITING = [f"tests/component/extender/test_{number}.py" for number in range(4)]


def test_modules_that_wait_are_spread_over_the_second_half() -> None:
    found = spread([*COMPUTING, *WAITING])
    assert [module in WAITING for module in found] == [False] * 4 + [True, False] * 4
    assert [module for module in found if module in COMPUTING] == COMPUTING
    assert [module for module in found if module in WAITING] == WAITING


def items() -> list[pytest.Item]:
    names = [f"{module}::test_{name}" for module in (*COMPUTING, *WAITING) for name in "ba"]
    return [cast("pytest.Item", SimpleNamespace(nodeid=name)) for name in names]


def test_tests_of_a_module_keep_their_order_and_stay_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    sorted_items = items()
    pytest_collection_modifyitems(sorted_items)
    names = [item.nodeid for item in sorted_items]
    assert names[8:10] == [f"{WAITING[0]}::test_b", f"{WAITING[0]}::test_a"]
    assert sorted(names) == sorted(item.nodeid for item in items())


def test_without_workers_the_order_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    left = items()
    pytest_collection_modifyitems(left)
    assert [item.nodeid for item in left] == [item.nodeid for item in items()]

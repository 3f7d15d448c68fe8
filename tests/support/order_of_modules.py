"""Hook of pytest that spreads the tests that wait for processes among those that compute.

Workers take modules in this order. Those that wait start API servers and have time limits, so they
begin when most of the end-to-end tests have ended. They do not come last, because workers that all
wait would leave the processors idle.
"""

import os
from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

import pytest

_WAITING: Final = {"chart", "component", "package"}


def spread(modules: Sequence[str]) -> list[str]:
    """Return half of the modules that compute, then the others, evenly mixed with those that wait.

    >>> spread(["tests/unit/a.py", "tests/unit/b.py", "tests/chart/c.py", "tests/chart/d.py"])
    ['tests/unit/a.py', 'tests/chart/c.py', 'tests/unit/b.py', 'tests/chart/d.py']
    """
    waiting = [module for module in modules if _WAITING.intersection(PurePath(module).parts)]
    computing = [module for module in modules if module not in set(waiting)]
    places = {
        module: start + (1 - start) * place / len(group)
        for group, start in ((waiting, 0.5), (computing, 0.0))
        for place, module in enumerate(group)
    }
    return sorted([*waiting, *computing], key=places.__getitem__)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the tests of a worker by module."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return  # the order of the end-to-end tests has other reasons
    modules = list(dict.fromkeys(_module_of(item) for item in items))
    places = {module: place for place, module in enumerate(spread(modules))}
    items.sort(key=lambda item: places[_module_of(item)])


def _module_of(item: pytest.Item) -> str:
    """Return the path of a test's module."""
    return item.nodeid.partition("::")[0]

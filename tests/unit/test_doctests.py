"""Examples in docstrings give the results that they show."""

import doctest
import importlib
import pkgutil
from collections.abc import Iterator

import pytest

import gputopo
import gputopo_explain
import gputopo_topologies
import gputopo_web


def modules() -> Iterator[str]:
    for package in (gputopo, gputopo_explain, gputopo_topologies, gputopo_web):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            yield module.name


@pytest.mark.parametrize("name", list(modules()))
def test_examples_in_docstrings_are_correct(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0

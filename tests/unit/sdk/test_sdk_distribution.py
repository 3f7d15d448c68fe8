"""The distribution has its own licence file and runs on old versions of Python."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MODULES = sorted((ROOT / "sdk/gputopo_steps").glob("*.py"))


def test_licence_is_that_of_the_project() -> None:
    assert (ROOT / "sdk/LICENSE").read_text() == (ROOT / "LICENSE").read_text()


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_syntax_is_that_of_python_3_9(module: Path) -> None:
    ast.parse(module.read_text(), feature_version=(3, 9))

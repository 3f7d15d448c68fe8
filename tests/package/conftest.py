"""Wheels of this clone, and clean virtual environments with them."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.wheels import uv

Install = Callable[[str], Path]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    uv("build", "--wheel", "--quiet", "--out-dir", folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def install(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Install:
    """Install the wheel with an extra into a new environment, and return its folder bin.

    The versions of the dependencies are those of uv.lock.
    """

    def install_extra(extra: str) -> Path:
        folder = tmp_path_factory.mktemp(extra)
        constraints = folder / "constraints.txt"
        locked = ("--frozen", "--quiet", "--no-hashes", "--no-emit-project", "--no-default-groups")
        uv("export", *locked, "--extra", extra, "--output-file", constraints)
        base = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
        uv("venv", "--quiet", "--python", base, folder / "venv")
        python = folder / "venv/bin/python"
        constrained = ("--constraints", constraints, f"{wheel}[{extra}]")
        uv("pip", "install", "--quiet", "--python", python, *constrained)
        return python.parent

    return install_extra

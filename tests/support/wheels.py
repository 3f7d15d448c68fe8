"""Run uv and installed programs outside this clone."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def find_uv() -> str:
    """Return the path of uv, which tools/setup installs into its cache if PATH has none."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = Path(os.environ.get("GPUTOPO_CACHE") or Path(home) / "gputopo")
    path = f"{os.environ['PATH']}:{cache}/toolchain/bin"
    found = shutil.which("uv", path=path)
    assert found, f"uv is not in {path}: run tools/setup"
    return found


def clean_environment() -> Mapping[str, str]:
    """Return the environment without variables that make a program import this clone."""
    hidden = ("PYTHONPATH", "VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT", "COV_CORE_SOURCE")
    known = {name: value for name, value in os.environ.items() if name not in hidden}
    return {**known, "KUBECONFIG": "/nonexistent/kubeconfig"}


def uv(*arguments: str | Path) -> str:
    """Run uv with its cache only, and with the package index if the cache lacks something."""
    done = None
    for more in (["--offline"], []):
        command = [find_uv(), *map(str, arguments), *more]
        done = subprocess.run(
            command, cwd=ROOT, env=clean_environment(), capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            return done.stdout
    assert done is not None
    pytest.fail(f"{command}: {done.stderr}")

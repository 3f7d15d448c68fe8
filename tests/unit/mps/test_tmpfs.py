"""The shared memory of daemons and clients is on a tmpfs of its own."""

import os
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputopo_mps.tmpfs import mount


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "shm"
    yield path
    if os.path.ismount(path):
        subprocess.run(["umount", path], check=True)


def test_it_is_mounted_once_or_the_error_of_the_kernel_is_raised(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(OSError, match="shm"):
        mount(folder, "much")
    if os.geteuid() != 0:
        pytest.skip("only root may mount")
    monkeypatch.setattr(sys, "argv", ["tmpfs", str(folder), "1m"])
    monkeypatch.delitem(sys.modules, "gputopo_mps.tmpfs")
    runpy.run_module("gputopo_mps.tmpfs", run_name="__main__")
    assert os.path.ismount(folder)
    (folder / "a").touch()
    mount(folder, "1m")
    assert (folder / "a").exists()

"""Device files of simulated GPUs."""

import os
import stat
from pathlib import Path


def create(listed: Path, folder: Path) -> None:
    """Create device files in a new folder.

    Args:
        listed: file with a line `NAME MAJOR MINOR` for each device file.
        folder: must not exist.
    """
    folder.mkdir()
    for line in listed.read_text().splitlines():
        name, major, minor = line.split()
        file = folder / name
        os.mknod(file, 0o666 | stat.S_IFCHR, os.makedev(int(major), int(minor)))
        file.chmod(0o666)

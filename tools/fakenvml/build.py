"""Compile the simulated ``libnvidia-ml.so.1``."""

import subprocess
from pathlib import Path
from typing import Final

SONAME: Final = "libnvidia-ml.so.1"
_FOLDER: Final = Path(__file__).parent
SOURCES: Final = tuple(_FOLDER / name for name in ("fakenvml.c", "counters.c", "processes.c"))
_FLAGS: Final = (
    *("-std=c11", "-Wall", "-Wextra", "-Werror", "-O2"),
    *("-fPIC", "-shared", "-pthread", f"-Wl,-soname,{SONAME}"),
)


def build_library(directory: Path) -> Path:
    """Compile the library into ``directory`` and return its path.

    Raises:
        RuntimeError: the compiler failed; the message has its output.
    """
    directory.mkdir(parents=True, exist_ok=True)
    library = directory / SONAME
    command = ["cc", *_FLAGS, "-o", str(library), *map(str, SOURCES)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return library

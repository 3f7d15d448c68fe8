"""Install the programs of the stand-in into a folder."""

import shutil
from pathlib import Path
from typing import Final

_FOLDER: Final = Path(__file__).parent
_MODULES: Final = (
    *("__init__.py", "control.py", "daemon.py"),
    *("memory.py", "server.py", "wire.py"),
)
_PROGRAM: Final = """#!{python} -IS
import os
import sys
from pathlib import Path

os.environ.setdefault("FAKE_NVML_TOPOLOGY", "{topology}")
sys.path.insert(0, str(Path(__file__).resolve().parent))
from fakemps.{module} import main

main()
"""


def install_programs(directory: Path, python: str = "/usr/bin/python3", topology: str = "") -> Path:
    """Install the control program and the server; return the path of the control program.

    Args:
        directory: folder of the programs.
        python: interpreter on the machine on which they run: 3.11 or later, no packages.
        topology: file of the simulated NVML there, whose folder is writable. By default it is in
            the folder ``lib`` beside ``directory``.
    """
    package = directory / "fakemps"
    package.mkdir(parents=True, exist_ok=True)
    for module in _MODULES:
        shutil.copy(_FOLDER / module, package / module)
    for module in ("control", "server"):
        program = directory / f"nvidia-cuda-mps-{module}"
        program.write_text(_PROGRAM.format(python=python, topology=topology, module=module))
        program.chmod(0o755)
    return directory / "nvidia-cuda-mps-control"

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
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from fakemps.{module} import main

main()
"""


def install_programs(directory: Path, python: str = "/usr/bin/python3") -> Path:
    """Install the control program and the server; return the path of the control program.

    ``python`` is the interpreter on the machine on which they run: 3.11 or later, no packages.
    """
    package = directory / "fakemps"
    package.mkdir(parents=True, exist_ok=True)
    for module in _MODULES:
        shutil.copy(_FOLDER / module, package / module)
    for module in ("control", "server"):
        program = directory / f"nvidia-cuda-mps-{module}"
        program.write_text(_PROGRAM.format(python=python, module=module))
        program.chmod(0o755)
    return directory / "nvidia-cuda-mps-control"

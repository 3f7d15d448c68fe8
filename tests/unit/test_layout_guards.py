"""The folder ``operator/`` must never become a package: it would hide the standard library's.

Python 3.12 and later then dies at start in the repository root; and a loose ``queue.py`` or
``types.py`` in a component folder does the same to a file that is run by its path.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMPONENTS = ("operator", "extender", "deviceplugin", "mps")

# Dependencies that a component must not need: the extras of the others.
OTHER_EXTRAS = {
    "gputopo_operator": ["grpc", "google.protobuf", "kubernetes", "pynvml"],
    "gputopo_extender": ["kopf", "kubernetes", "grpc", "google.protobuf", "pynvml"],
    "gputopo_deviceplugin": ["aiohttp", "kopf", "kubernetes"],
    "gputopo_mps": ["kopf", "kubernetes", "grpc", "google.protobuf"],
    "gputopo_cli": ["aiohttp", "grpc", "httpx2", "kopf", "lightkube", "msgspec", "pynvml"],
    "gputopo_web": [
        *("aiohttp", "grpc", "httpx2", "kopf", "lightkube", "matplotlib", "msgspec"),
        *("orjson", "prometheus_client", "pynvml", "rich", "typer"),
    ],
}
CORE_ONLY = sorted(
    {name for names in OTHER_EXTRAS.values() for name in names} | {"prometheus_client"}
)

IMPORT_ALL = """
import importlib, pkgutil, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if any(name == each or name.startswith(each + ".") for each in sys.argv[2:]):
            raise ModuleNotFoundError(f"{name} is not one of this component's dependencies")

sys.meta_path.insert(0, Absent())
package = importlib.import_module(sys.argv[1])
for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    importlib.import_module(module.name)
    print(module.name)
"""


@pytest.mark.parametrize("component", COMPONENTS)
def test_component_folder_is_no_package_and_holds_no_loose_module(component: str) -> None:
    assert not list((ROOT / component).glob("*.py"))


def test_tests_are_no_packages() -> None:
    assert not list((ROOT / "tests").rglob("__init__.py"))


def test_standard_library_is_found_from_the_repository_root() -> None:
    script = "import operator, pathlib; print(pathlib.Path(operator.__file__).parent)"
    found = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert not Path(found.stdout.strip()).is_relative_to(ROOT)


@pytest.mark.parametrize("package", [*OTHER_EXTRAS, "gputopo", "gputopo_simulate"])
def test_package_imports_without_the_extras_of_the_others(package: str) -> None:
    absent = OTHER_EXTRAS.get(package, CORE_ONLY)
    argv = [sys.executable, "-P", "-c", IMPORT_ALL, package, *absent]
    result = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split(), f"{package} has no modules"


def test_guard_sees_an_import_that_is_not_allowed() -> None:
    argv = [sys.executable, "-P", "-c", IMPORT_ALL, "gputopo_operator", "kopf"]
    result = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert "kopf is not one of this component's dependencies" in result.stderr


def test_every_component_has_an_extra_and_a_program() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(COMPONENTS) <= set(project["optional-dependencies"])
    for component in COMPONENTS:
        target = project["scripts"][f"gputopo-{component}"]
        assert target == f"gputopo_{component}.__main__:main"


def test_the_test_command_runs_every_folder_with_tests() -> None:
    script = (ROOT / "tools" / "test").read_text()
    (named,) = re.findall(r"tests/\{([a-z,]+)\}", script)
    assert "(tests/e2e " in script
    folders = {
        path.relative_to(ROOT / "tests").parts[0] for path in ROOT.glob("tests/**/test_*.py")
    }
    assert {*named.split(","), "e2e"} == folders


def test_contributing_lists_every_package_and_layer() -> None:
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = {
        name
        for contract in linter["contracts"]
        for layer in contract.get("layers", ())
        for name in layer.split(" | ")
    }
    text = (ROOT / "CONTRIBUTING.md").read_text()
    assert {name for name in layers | set(linter["root_packages"]) if f"`{name}`" not in text} == {
        "__main__"
    }

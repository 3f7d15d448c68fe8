"""uv.lock has wheels for arm64 of all packages of the images and of the command line."""

import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import parse_wheel_filename

from support.wheels import uv

ROOT = Path(__file__).parents[3]
EXTRAS = ("operator", "extender", "deviceplugin", "mps", "web", "cli")
GLIBC = 36  # of Debian 12; wheels for an older glibc work too
LOCKED = tomllib.loads((ROOT / "uv.lock").read_text())["package"]


def tags(machine: str, python: tuple[int, int]) -> frozenset[Tag]:
    """Return the tags of the wheels that a Python on this architecture can install."""
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in range(GLIBC, 16, -1)]
    platforms += [f"manylinux2014_{machine}", f"linux_{machine}"]
    interpreter = f"cp{python[0]}{python[1]}"
    return frozenset(
        [
            *cpython_tags(python, platforms=platforms),
            *compatible_tags(python, interpreter, platforms),
        ]
    )


def requirements(extra: str, machine: str, python: tuple[int, int]) -> list[tuple[str, str]]:
    """Return name and version of each package that an extra installs on Linux."""
    locked = (
        "--frozen",
        "--quiet",
        "--no-hashes",
        "--no-emit-project",
        "--no-default-groups",
        "--no-header",
    )
    version = f"{python[0]}.{python[1]}"
    environment = {
        "platform_machine": machine,
        "platform_system": "Linux",
        "sys_platform": "linux",
        "os_name": "posix",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "python_version": version,
        "python_full_version": f"{version}.0",
    }
    lines = uv("export", *locked, "--no-annotate", "--extra", extra).splitlines()
    wanted = [Requirement(line) for line in lines if not line.startswith("    #")]
    return [
        (each.name, str(each.specifier).removeprefix("=="))
        for each in wanted
        if each.marker is None or each.marker.evaluate(environment)
    ]


def wheels(name: str, version: str) -> Sequence[str]:
    (package,) = [each for each in LOCKED if (each["name"], each.get("version")) == (name, version)]
    return [wheel["url"].rsplit("/", 1)[1] for wheel in package.get("wheels", ())]


def without_wheel(extra: str, machine: str, python: tuple[int, int]) -> list[tuple[str, str]]:
    """Return the packages that this architecture would have to compile."""
    supported = tags(machine, python)
    return [
        package
        for package in requirements(extra, machine, python)
        if not any(parse_wheel_filename(file)[3] & supported for file in wheels(*package))
    ]


@pytest.mark.parametrize("python", [(3, 11), (3, 12), (3, 13)], ids=lambda each: f"3.{each[1]}")
@pytest.mark.parametrize("extra", EXTRAS)
@pytest.mark.parametrize("machine", ["aarch64", "x86_64"])
def test_every_package_has_a_wheel(machine: str, extra: str, python: tuple[int, int]) -> None:
    assert len(requirements(extra, machine, python)) > 10
    assert without_wheel(extra, machine, python) == []


def test_guard_sees_a_package_without_a_wheel() -> None:
    missing = {name for name, _ in without_wheel("extender", "sparc64", (3, 13))}
    assert {"numpy", "orjson", "uvloop"} <= missing
    assert "prometheus-client" not in missing

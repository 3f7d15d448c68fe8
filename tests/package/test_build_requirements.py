"""What builds the images is locked: uv and the build backend, with hashes."""

import re
from pathlib import Path

import pytest

from support.wheels import uv

CLONE = Path(__file__).parents[2]
REQUIREMENTS = CLONE / "tools" / "images" / "build.txt"
EXPORT = ("export", "--quiet", "--frozen", "--only-group", "image", "--no-header", "--no-annotate")


def test_requirements_are_those_of_the_lock_file() -> None:
    assert REQUIREMENTS.read_text() == uv(*EXPORT), (
        f"write it again with: uv {' '.join(EXPORT)} > tools/images/build.txt"
    )


def test_every_requirement_has_one_version_and_hashes() -> None:
    requirements = re.split(r"\n(?=\S)", REQUIREMENTS.read_text())
    names = {re.match(r"([\w-]+)==[\d.]+ ", each)[1] for each in requirements}  # type: ignore[index]
    assert {"hatchling", "uv"} <= names
    assert all("--hash=sha256:" in each for each in requirements)


def test_setup_installs_the_same_uv() -> None:
    setup = (CLONE / "tools" / "setup").read_text()
    (version,) = re.findall(r"^uv_version=(\S+)$", setup, re.MULTILINE)
    assert f"uv=={version} " in REQUIREMENTS.read_text()


@pytest.mark.parametrize("file", ["Dockerfile", "Dockerfile.web"])
def test_images_are_built_with_locked_requirements_only(file: str) -> None:
    text = re.sub(r"\\\n\s*", "", (CLONE / file).read_text())
    commands = re.findall(r"/opt/uv/bin/(?:uv )?pip \w+ [^&\n]*", text)
    first, wheel, target = commands
    assert "--require-hashes" in first
    assert "-r /opt/build.txt" in first
    assert "--no-build-isolation" in wheel
    assert "dist/*.whl" in target, "a source folder would be built with an unlocked backend"
    assert all("--no-deps" in each for each in (wheel, target))

"""Check rendered objects with checkov, a scanner of Kubernetes objects.

It is no dependency of this project, because it needs networkx before 2.7. ``checkov.txt`` locks it:
``echo checkov==VERSION | uv pip compile --universal --python-version 3.11 --generate-hashes
--no-header --no-annotate -o tests/support/checkov.txt -``
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from support.wheels import uv

REQUIREMENTS = Path(__file__).with_name("checkov.txt")
_INSTALL = ("pip", "install", "--quiet", "--require-hashes", "--only-binary", ":all:")
_SCAN = ("--framework=kubernetes", "--skip-download", "--soft-fail", "--output=json")
_INSTANCE = "app.kubernetes.io/instance"

Failures = frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Findings:
    """What the scanner found.

    Attributes:
        passed: number of pairs of a check and an object that pass.
        failures: check and name of the object, without the name of the release.
    """

    passed: int
    failures: Failures


def install(folder: Path) -> Path:
    """Install checkov into a folder, from uv's cache or the package index; return the program."""
    uv("venv", "--quiet", "--python", sys.executable, folder)
    # In this clone, uv would add the constraints of pyproject.toml, which have no hashes.
    uv("--directory", folder, *_INSTALL, "--python", folder, "-r", REQUIREMENTS)
    return folder / "bin" / "checkov"


def scan(program: Path, manifests: Mapping[str, str], folder: Path) -> dict[str, Findings]:
    """Return the findings of several renderings by their names, without using the network."""
    files = {f"/{name}.yaml": name for name in manifests}
    for name, text in manifests.items():
        # Otherwise the NetworkPolicies of one rendering would select pods of another.
        own = text.replace(f"{_INSTANCE}: gputopo", f"{_INSTANCE}: {name}")
        (folder / f"{name}.yaml").write_text(own)
    done = subprocess.run(
        [program, *_SCAN, *(f"--file={folder}{file}" for file in files)],
        cwd=folder,
        env={"HOME": str(folder), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)["results"]
    assert not results["parsing_errors"]
    passed = [files[each["file_path"]] for each in results["passed_checks"]]
    # A resource is Kind.namespace.name, and for pods of workloads Kind.namespace.name.labels.
    failed = [
        (files[each["file_path"]], each["check_id"], each["resource"].split(".")[2])
        for each in results["failed_checks"]
    ]
    return {
        name: Findings(
            passed.count(name),
            frozenset(
                (check, of.removeprefix("gputopo-")) for at, check, of in failed if at == name
            ),
        )
        for name in manifests
    }

"""Builds the program from the pinned Kubernetes release, once, into the cache; and calls it."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from localcluster import files
from localcluster.binaries import find_go, go_env
from localcluster.commands import run
from localcluster.gomodules import MODULE_FILES
from localcluster.releases import FOLDER, Release
from localcluster.settings import Paths

SOURCE = Path(__file__).with_name("main.go")


def ensure(release: Release, paths: Paths) -> Path:
    """The program with the topology manager of a release from 1.35 on; built if it is missing.

    Raises:
        ClusterError: no Go of the right series, or the build failed.
    """
    go = find_go(paths.cache)
    module = FOLDER / release.minor
    sources = {SOURCE.name: SOURCE.read_bytes()}
    sources |= {name: (module / name).read_bytes() for name in MODULE_FILES}
    version = run([go, "version"], env=go_env()).encode()
    folder = paths.cache / "numaoracle"
    target = folder / f"{release.version}-{files.content_key({**sources, 'go': version})}"
    with files.locked(folder):
        if not (target / "oracle").exists():
            _build(go, sources, target)
        files.mark_used(target)
        files.keep_newest(folder, "v*", 4)
    return target / "oracle"


def _build(go: Path, sources: Mapping[str, bytes], target: Path) -> None:
    """Build in a folder outside the clone, with the flags of the other programs of Kubernetes."""
    target.mkdir(parents=True, exist_ok=True)
    for name, content in sources.items():
        (target / name).write_bytes(content)
    flags = ["-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags=-s -w"]
    run([go, "build", *flags, "-o", "unfinished", SOURCE.name], cwd=target, env=go_env())
    (target / "unfinished").rename(target / "oracle")


def merge_all(oracle: Path, requests: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The merged hint of each request, in order: the format is in ``main.go``."""
    lines = "".join(f"{json.dumps(each)}\n" for each in requests)
    done = subprocess.run([oracle], input=lines, check=True, capture_output=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]

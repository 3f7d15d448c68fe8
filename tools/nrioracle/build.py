"""Builds the program with the modules of the pinned containerd, once, into the cache."""

from pathlib import Path
from typing import Final

from localcluster import files
from localcluster.binaries import find_go, go_env
from localcluster.commands import run
from localcluster.gomodules import MODULE_FILES, MODULES
from localcluster.settings import Paths

SOURCE: Final = Path(__file__).with_name("main.go")


def ensure(paths: Paths) -> Path:
    """The program; built if it is missing.

    Raises:
        ClusterError: no Go of the right series, or the build failed.
    """
    go = find_go(paths.cache)
    sources = {SOURCE.name: SOURCE.read_bytes()}
    sources |= {name: (MODULES / "containerd" / name).read_bytes() for name in MODULE_FILES}
    version = run([go, "version"], env=go_env()).encode()
    folder = paths.cache / "nrioracle"
    target = folder / f"v{files.content_key({**sources, 'go': version})}"
    with files.locked(folder):
        if not (target / "oracle").exists():
            target.mkdir(parents=True, exist_ok=True)
            for name, content in sources.items():
                (target / name).write_bytes(content)
            flags = ["-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags=-s -w"]
            run([go, "build", *flags, "-o", "unfinished", SOURCE.name], cwd=target, env=go_env())
            (target / "unfinished").rename(target / "oracle")
        files.mark_used(target)
        files.keep_newest(folder, "v*", 2)
    return target / "oracle"

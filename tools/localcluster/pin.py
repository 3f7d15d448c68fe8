"""Command line of `tools/pin-kubernetes VERSION`: write go.mod and go.sum of a release.

Two modules: one of the programs of both clusters, one of kubeadm, which only kind's nodes need.
"""

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from localcluster import binaries
from localcluster.commands import run
from localcluster.errors import ClusterError
from localcluster.gomodules import MODULES
from localcluster.progress import Progress
from localcluster.releases import KUBERNETES_MODULE
from localcluster.settings import current_paths

_VERSION = re.compile(r"v1\.(\d+)\.(\d+)")


def module_file(own: str, version: str, name: str, packages: Sequence[str]) -> str:
    """A go.mod that builds programs of a Kubernetes release.

    `go install` does not work for them, because their own go.mod replaces k8s.io/api and its
    siblings by folders of the repository. Here the published modules of the same release take
    the place of these folders: v0.36.4 for v1.36.4. The Go version and the GODEBUG settings are
    Kubernetes's own, so that the programs behave like the released ones.

    Args:
        own: the go.mod of k8s.io/kubernetes at this version.
        version: "v1.36.4".
        name: folder of the module below tools/binaries.
        packages: main packages of the programs.

    Raises:
        ClusterError: the version is not a release, or `own` is not the go.mod of one.
    """
    parts = _VERSION.fullmatch(version)
    if parts is None:
        raise ClusterError(f"version: {version!r}: must be a release such as v1.36.4")
    go = re.search(r"^go \S+$", own, re.MULTILINE)
    if go is None:
        raise ClusterError(f"go.mod of {KUBERNETES_MODULE} {version}: has no line `go VERSION`")
    debug = re.findall(r"^godebug \S+$", own, re.MULTILINE)
    # Required as v0.0.0; samples are replaced as well, but not required and not always published.
    siblings = re.findall(r"^\s*(k8s\.io/\S+) v0\.0\.0(?: |$)", own, re.MULTILINE)
    replaced = [f"{each} => {each} v0.{parts[1]}.{parts[2]}" for each in siblings]
    blocks = [
        f"module gputopo.io/tools/binaries/{name}",
        go[0],
        *debug,
        _block("tool", packages),
        f"require {KUBERNETES_MODULE} {version}",
        _block("replace", replaced),
    ]
    return "\n\n".join(blocks) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Write the folder of the version; return the exit status."""
    if len(arguments) != 1:
        print("usage: tools/pin-kubernetes VERSION, for example v1.36.4", file=sys.stderr)
        return 2
    try:
        _write(arguments[0])
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _write(version: str) -> None:
    go = binaries.find_go(current_paths().cache)
    environment = binaries.go_env()
    words = [str(go), "mod", "download", "-json", f"{KUBERNETES_MODULE}@{version}"]
    with Progress().stage(f"Pin Kubernetes {version}"):
        # Outside the clone, so that no other go.mod has a part in it.
        downloaded = json.loads(run(words, env=environment, cwd=Path("/")))
        own = Path(downloaded["GoMod"]).read_text()
        minor = version.removeprefix("v").rpartition(".")[0]
        for group in (binaries.kubernetes(minor), binaries.kubeadm(minor)):
            folder = MODULES / group.name
            text = module_file(own, version, folder.parent.name, group.packages)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "go.mod").write_text(text)
            (folder / "go.sum").unlink(missing_ok=True)
            # Adds the modules of all packages to go.mod, and their checksums to go.sum.
            run([go, "mod", "tidy"], env=environment, cwd=folder)


def _block(word: str, lines: Sequence[str]) -> str:
    return "\n".join([f"{word} (", *(f"\t{line}" for line in lines), ")"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

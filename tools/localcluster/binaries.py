"""Build Kubernetes, containerd, Helm and other programs from their Go modules, into the cache."""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from localcluster import files
from localcluster.commands import failure_text, run, tied_to_this
from localcluster.errors import ClusterError
from localcluster.gomodules import MODULES, required_version
from localcluster.progress import Progress
from localcluster.releases import KUBERNETES_MODULE, Release, supported
from localcluster.settings import Paths

# Go 1.27 made another JSON library the default, with which Kubernetes up to 1.37 serves a broken
# OpenAPI document: every `kubectl apply` would fail.
GO_SERIES = "go1.26"
# containerd's go.mod requires it.
_LEAST_PATCH = 6
KUBERNETES_PACKAGES = tuple(
    f"{KUBERNETES_MODULE}/cmd/{program}"
    for program in (
        "kube-apiserver",
        "kube-controller-manager",
        "kube-proxy",
        "kube-scheduler",
        "kubectl",
        "kubelet",
    )
)


@dataclass(frozen=True, slots=True)
class BinaryGroup:
    """Programs built from one Go module under tools/binaries.

    Attributes:
        name: folder of the module.
        module: the dependency that holds the programs; its version is theirs.
        packages: what to build; the folder itself may be one of them.
        version_variables: Go variables that get the version; without them programs say v0.0.0.
        tags: Go build tags.
        cgo: whether parts of the programs are in C.
    """

    name: str
    module: str
    packages: tuple[str, ...]
    version_variables: tuple[str, ...]
    tags: tuple[str, ...] = ()
    cgo: bool = False


CONTAINERD = BinaryGroup(
    "containerd",
    "github.com/containerd/containerd/v2",
    tuple(
        f"github.com/containerd/containerd/v2/cmd/{program}"
        for program in ("containerd", "containerd-shim-runc-v2", "ctr")
    ),
    ("github.com/containerd/containerd/v2/version.Version",),
    # Snapshotters that need C libraries or kernel modules, and that the cluster does not use.
    tags=("no_btrfs", "no_devmapper", "no_zfs"),
)
HELM = BinaryGroup(
    "helm",
    "helm.sh/helm/v4",
    ("helm.sh/helm/v4/cmd/helm",),
    ("helm.sh/helm/v4/internal/version.version",),
)
# Plays the kubelets of nodes that do not exist; the cluster itself does not need it.
KWOK = BinaryGroup(
    "kwok",
    "sigs.k8s.io/kwok",
    ("sigs.k8s.io/kwok/cmd/kwok",),
    ("sigs.k8s.io/kwok/pkg/consts.Version",),
)


def groups_of(release: Release) -> tuple[BinaryGroup, ...]:
    """The programs of a cluster: Kubernetes of this release, containerd and Helm."""
    return (kubernetes(release.minor), CONTAINERD, HELM)


def kubernetes(minor: str) -> BinaryGroup:
    """The programs of a Kubernetes version such as "1.36"."""
    return _of_kubernetes(f"kubernetes/{minor}", KUBERNETES_PACKAGES)


def kubeadm(minor: str) -> BinaryGroup:
    """The program kubeadm of a Kubernetes version such as "1.36"."""
    return _of_kubernetes(f"kubeadm/{minor}", (f"{KUBERNETES_MODULE}/cmd/kubeadm",))


def _of_kubernetes(name: str, packages: tuple[str, ...]) -> BinaryGroup:
    variables = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    values = tuple(f"{package}.gitVersion" for package in variables)
    return BinaryGroup(name, KUBERNETES_MODULE, packages, values)


def linker_flags(group: BinaryGroup, version: str) -> str:
    """No debug information; every version variable set, with the parts Kubernetes splits off."""
    values = [f"{variable}={version}" for variable in group.version_variables]
    if group.module == KUBERNETES_MODULE:
        major, minor, _ = version.removeprefix("v").split(".", 2)
        values += [
            f"k8s.io/component-base/version.gitMajor={major}",
            f"k8s.io/component-base/version.gitMinor={minor}",
        ]
    return " ".join(["-s -w", *(f"-X {value}" for value in values)])


def build_command(go: Path, group: BinaryGroup, version: str, target: Path) -> list[str]:
    """The `go build` that writes the group's programs into a folder."""
    flags = ["-v", "-trimpath", "-buildvcs=false", "-mod=readonly"]
    tags = [f"-tags={','.join(group.tags)}"] if group.tags else []
    linking = f"-ldflags={linker_flags(group, version)}"
    return [str(go), "build", *flags, *tags, linking, "-o", f"{target}/", *group.packages]


def find_go(cache: Path) -> Path:
    """A Go of the right series: the machine's own, or the one tools/setup has put in the cache.

    Raises:
        ClusterError: there is none.
    """
    own = shutil.which("go")
    for candidate in ([Path(own)] if own else []) + [cache / "toolchain" / "bin" / "go"]:
        if candidate.exists() and _builds_all(run([candidate, "version"], env=go_env())):
            return candidate
    raise ClusterError(f"no {GO_SERIES}.{_LEAST_PATCH} or later found; run tools/setup first")


def _builds_all(go_version: str) -> bool:
    found = re.search(rf" {re.escape(GO_SERIES)}\.(\d+)", go_version)
    return found is not None and int(found[1]) >= _LEAST_PATCH


def ensure(release: Release, paths: Paths, progress: Progress) -> Path:
    """The folder of the programs of a cluster; they are built if they are missing.

    Raises:
        ClusterError: no Go of the right series, or the build failed.
    """
    folder = paths.cache / "binaries"
    return ensure_groups(folder, f"{release.version}-", groups_of(release), paths, progress)


def ensure_kwok(paths: Paths, progress: Progress) -> Path:
    """The program kwok; it is built if it is missing.

    Raises:
        ClusterError: no Go of the right series, or the build failed.
    """
    return ensure_groups(paths.cache / "kwok", "", (KWOK,), paths, progress) / "kwok"


def ensure_groups(
    folder: Path, prefix: str, groups: Sequence[BinaryGroup], paths: Paths, progress: Progress
) -> Path:
    """The folder of other programs; they are built if they are missing.

    Args:
        folder: part of the cache for builds of such programs; the oldest builds are deleted.
        prefix: start of the name of a build; a hash of what it is built from follows.
        groups: the programs.
        paths: folders.
        progress: gets a stage for each group that is built.

    Raises:
        ClusterError: no Go of the right series, or the build failed.
    """
    go = find_go(paths.cache)
    target = folder / f"{prefix}{_key(go, groups)}"
    if not target.is_dir():
        with files.locked(folder):
            if not target.is_dir():
                _build(go, groups, target, progress)
            # One of each Kubernetes version of this clone, and one of another clone.
            files.keep_newest(folder, "[0-9a-fv]*", len(supported()) + 1)
    files.mark_used(target)
    return target


def _key(go: Path, groups: Sequence[BinaryGroup]) -> str:
    parts = {"go": run([go, "version"], env=go_env()).encode()}
    for group in groups:
        command = build_command(Path("go"), group, version_of(group), Path("target"))
        parts[f"{group.name}/command"] = " ".join(command).encode()
        if group.cgo:
            parts[f"{group.name}/cgo"] = b"1"
        # A module with a program of its own has its source too.
        parts |= files.files_below(MODULES, [group.name])
    return files.content_key(parts)


def version_of(group: BinaryGroup) -> str:
    """The version of the programs, as v1.36.4."""
    return required_version((MODULES / group.name / "go.mod").read_text(), group.module)


def _build(go: Path, groups: Sequence[BinaryGroup], target: Path, progress: Progress) -> None:
    unfinished = target.parent / "unfinished"
    files.remove(unfinished)
    unfinished.mkdir(parents=True)
    for group in groups:
        _build_group(group, build_command(go, group, version_of(group), unfinished), progress)
    unfinished.rename(target)


def _build_group(group: BinaryGroup, command: Sequence[str], progress: Progress) -> None:
    what = f"Build {group.name.partition('/')[0]} {version_of(group)}"
    compiled: list[str] = []

    def detail() -> str:
        return f"{len(compiled)} packages, {compiled[-1]}" if compiled else ""

    with (
        progress.stage(what, detail),
        subprocess.Popen(
            tied_to_this(command),
            cwd=MODULES / group.name,
            env=go_env(cgo=group.cgo),
            stderr=subprocess.PIPE,
            text=True,
        ) as build,
    ):
        if build.stderr is not None:
            compiled.extend(line.rstrip() for line in build.stderr)
    if build.returncode != 0:
        raise ClusterError(failure_text(command, build.returncode, "\n".join(compiled)))


def go_env(*, cgo: bool = False) -> dict[str, str]:
    """Environment of every call of Go: no other toolchain, no flags of the user.

    The C compiler is used for groups with parts in C only.
    """
    fixed = {"GOTOOLCHAIN": "local", "GOFLAGS": "", "CGO_ENABLED": "1" if cgo else "0"}
    return {**os.environ, **fixed}

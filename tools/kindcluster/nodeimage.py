"""Build a node image of kind without a registry, once for each release and set of programs.

kind builds a node image by starting a node and pulling the images of Kubernetes into it. Here these
images are made from the programs, and imported into the folder of a containerd that runs for this
only. The folder becomes a part of the node image.
"""

import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kindcluster import programs
from localcluster import binaries, files, images, nodeimages, settings
from localcluster.commands import run
from localcluster.gomodules import MODULES
from localcluster.imagebuilder import DEBIAN, Builder, unpack_debian
from localcluster.images import RECIPES, Image
from localcluster.progress import Progress
from localcluster.releases import Release
from localcluster.settings import Paths

# The list of kind's images/base/Dockerfile without network storage; and Debian's runc.
NODE_PACKAGES = (
    *("bash", "ca-certificates", "conntrack", "e2fsprogs", "ethtool", "iproute2", "iptables"),
    *("jq", "kmod", "libseccomp2", "mount", "nftables", "pigz", "procps", "runc", "systemd"),
    "util-linux",
)
PROXY_PACKAGES = ("coreutils", "dash", "iptables", "kmod", "libc-bin")
POD_NETWORK_IMAGE = "localhost/pod-network:1"
_CONTAINERD_PROGRAMS = ("containerd", "containerd-shim-runc-v2", "ctr")
_CNI_PLUGINS = ("host-local", "loopback", "portmap", "ptp")
_STORED = ("io.containerd.content.v1.content", "io.containerd.metadata.v1.bolt")
_KEPT_IMAGES = 2
_RECIPES = ("coredns", "kind-node", "kube-proxy", "pause", "static", "workload")


@dataclass(frozen=True, slots=True)
class NodeImage:
    """A node image.

    Attributes:
        reference: repository and tag.
        archive: the image in docker-archive format.
    """

    reference: str
    archive: Path


def plan(release: Release, cluster: Path, node_programs: Path, paths: Paths) -> NodeImage:
    """The node image of these programs.

    Args:
        release: version of Kubernetes.
        cluster: folder of the local cluster's programs.
        node_programs: folder of kubeadm, etcd and CoreDNS.
        paths: folders.
    """
    packages = " ".join([DEBIAN, *NODE_PACKAGES, "for kube-proxy:", *PROXY_PACKAGES])
    parts = {
        "packages": packages.encode(),
        "kind": binaries.version_of(programs.KIND).encode(),
        "cluster": cluster.name.encode(),
        "node": node_programs.name.encode(),
        **files.files_below(RECIPES, _RECIPES),
    }
    tag = f"{release.version}-{files.content_key(parts)}"
    archive = _folder(paths) / f"node-{tag}.tar"
    return NodeImage(f"localhost/gputopo-kind-node:{tag}", archive)


def ensure(
    release: Release, cluster: Path, node_programs: Path, paths: Paths, progress: Progress
) -> NodeImage:
    """The node image of these programs; it is built if it is missing. See :func:`plan`.

    Raises:
        ClusterError: a step of the build failed.
    """
    planned = plan(release, cluster, node_programs, paths)
    folder = _folder(paths)
    with files.locked(folder):
        if not planned.archive.exists():
            # What an interrupted build has left.
            files.remove(folder / "build")
            _Build(release, cluster, node_programs, folder / "build", progress).run(planned)
            files.remove(folder / "build")
        files.mark_used(planned.archive)
        files.keep_newest(folder, "node-*.tar", _KEPT_IMAGES)
    return planned


def program_of(reference: str) -> str:
    """The program in an image that kubeadm lists: etcd for registry.k8s.io/etcd:3.6.8-0."""
    return reference.rpartition("/")[2].partition(":")[0]


def _folder(paths: Paths) -> Path:
    return paths.cache / "kind"


class _Build:
    """One build in a folder of its own."""

    def __init__(
        self, release: Release, cluster: Path, node: Path, folder: Path, progress: Progress
    ) -> None:
        self._release = release
        self._cluster = cluster
        self._node = node
        self._folder = folder
        self._progress = progress
        self._paths = Paths(cache=folder, state=folder)
        self._builder = Builder(self._paths)

    def run(self, planned: NodeImage) -> None:
        (self._folder / "images").mkdir(parents=True)
        with self._progress.stage("Unpack Debian for the nodes of kind"):
            node, proxy = self._folder / "node.tar", self._folder / "proxy.tar"
            unpack_debian(node, "minbase", NODE_PACKAGES)
            unpack_debian(proxy, "extract", PROXY_PACKAGES)
        references = self._references()
        with self._progress.stage(f"Build the images of Kubernetes {self._release.version}"):
            built = [self._built(image) for image in self._images(references, proxy)]
        with self._progress.stage("Import the images of Kubernetes"):
            store = self._store(built)
        with self._progress.stage(f"Build the node image {planned.reference}"):
            pause = next(each for each in references if program_of(each) == "pause")
            added = {"rootfs.tar": node, "files.tar": self._files(store)}
            image = replace(
                _image("kind-node", planned.reference, added), arguments={"PAUSE": pause}
            )
            self._builder.build(image)
            self._builder.save(image)
            image.archive(self._paths).rename(planned.archive)

    def _references(self) -> list[str]:
        """The images that kubeadm uses, by names of the registry of Kubernetes."""
        words = ["config", "images", "list", f"--kubernetes-version={self._release.version}"]
        return run([self._node / "kubeadm", *words]).split()

    def _images(self, references: Sequence[str], proxy: Path) -> list[Image]:
        added: Mapping[str, Mapping[str, Path]] = {
            "coredns": {"coredns": self._node / "coredns"},
            "kube-proxy": {"kube-proxy": self._cluster / "kube-proxy", "rootfs.tar": proxy},
            "pause": {"catatonit": images.program("catatonit")},
        }
        found = [_image("workload", POD_NETWORK_IMAGE, {"busybox": images.program("busybox")})]
        for reference in references:
            name = program_of(reference)
            if name in added:
                found.append(_image(name, reference, added[name]))
            else:
                folder = self._node if name == "etcd" else self._cluster
                image = _image("static", reference, {"program": folder / name})
                found.append(replace(image, name=name, arguments={"PROGRAM": name}))
        return found

    def _built(self, image: Image) -> Path:
        self._builder.build(image)
        self._builder.save(image)
        return image.archive(self._paths)

    def _store(self, archives: Sequence[Path]) -> Path:
        """A folder of containerd with the images; nodes unpack those that they use."""
        root, log = self._folder / "store", self._folder / "containerd.log"
        nodeimages.import_archives(archives, self._cluster, root, log, ("--local", "--no-unpack"))
        return root

    def _files(self, store: Path) -> Path:
        """An archive of the files that a node has beside those of Debian."""
        kinds_own = self._kind_module() / "images" / "base" / "files"
        from_cluster = (*_CONTAINERD_PROGRAMS, "kubectl", "kubelet")
        version = self._folder / "version"
        version.write_text(self._release.version)
        sources = {
            **{str(file.relative_to(kinds_own)): file for file in kinds_own.rglob("*")},
            **{f"usr/local/bin/{name}": self._cluster / name for name in from_cluster},
            "usr/local/bin/kubeadm": self._node / "kubeadm",
            **{f"opt/cni/bin/{name}": settings.CNI_PLUGINS / name for name in _CNI_PLUGINS},
            "kind/manifests/default-cni.yaml": RECIPES / "kind-node" / "pod-network.yaml",
            "kind/version": version,
        }
        target = self._folder / "files.tar"
        with tarfile.open(target, "w") as archive:
            for name, source in sources.items():
                archive.add(source.resolve(), name, recursive=False, filter=_with_permissions)
            for part in _STORED:
                archive.add(store / part, f"var/lib/containerd/{part}")
        return target

    def _kind_module(self) -> Path:
        """The folder of kind's module in Go's module cache."""
        words = ["mod", "download", "-json", programs.KIND.module]
        go = binaries.find_go(settings.current_paths().cache)
        found = run([go, *words], env=binaries.go_env(), cwd=MODULES / programs.KIND.name)
        return Path(json.loads(found)["Dir"])


def _with_permissions(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """A file of root's; files in Go's module cache are neither writable nor executable."""
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    executable = member.isdir() or Path(member.name).parent.name == "bin"
    member.mode = 0o755 if executable else 0o644
    return member


def _image(recipe: str, reference: str, added: Mapping[str, Path]) -> Image:
    folder = RECIPES / recipe
    return Image(recipe, reference, folder / "Dockerfile", folder, "build", added)

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
from localcluster.errors import ClusterError
from localcluster.gomodules import MODULES
from localcluster.imagebuilder import BASE_WITHOUT, DEBIAN, Builder
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
            node = self._debian("node.tar", "minbase", NODE_PACKAGES)
            proxy = self._debian("proxy.tar", "extract", PROXY_PACKAGES)
        references = self._references()
        with self._progress.stage(f"Build the images of Kubernetes {self._release.version}"):
            built = [self._built(image) for image in self._images(references, proxy)]
        with self._progress.stage("Import the images of Kubernetes"):
            store = self._store(built)
        with self._progress.stage(f"Build the node image {planned.reference}"):
            pause = next(each for each in references if program_of(each) == "pause")
            image = self._node_image(planned, node, store, pause)
            self._builder.build(image)
            self._builder.save(image)
            image.archive(self._paths).rename(planned.archive)

    def _debian(self, name: str, variant: str, packages: Sequence[str]) -> Path:
        target = self._folder / name
        without = [f"--dpkgopt=path-exclude={pattern}" for pattern in BASE_WITHOUT]
        chosen = [f"--variant={variant}", f"--include={','.join(packages)}"]
        run(["mmdebstrap", "--quiet", *chosen, *without, DEBIAN, target])
        return target

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
        """An archive of containerd's folder with the images; nodes unpack those that they use."""
        root, target = self._folder / "store", self._folder / "store.tar"
        log = self._folder / "containerd.log"
        options = ("--local", "--no-unpack")
        nodeimages.import_archives(archives, self._cluster, root, log, options)
        with tarfile.open(target, "w") as archive:
            for part in _STORED:
                archive.add(root / part, part)
        return target

    def _node_image(self, planned: NodeImage, node: Path, store: Path, pause: str) -> Image:
        version = self._folder / "version"
        version.write_text(self._release.version)
        kubernetes = ("kubectl", "kubelet")
        added = {
            "rootfs.tar": node,
            "kind-files.tar": self._kind_files(),
            "store.tar": store,
            "version": version,
            "pod-network.yaml": RECIPES / "kind-node" / "pod-network.yaml",
            "kubeadm": self._node / "kubeadm",
            **{name: self._cluster / name for name in (*_CONTAINERD_PROGRAMS, *kubernetes)},
            **{name: settings.CNI_PLUGINS / name for name in _CNI_PLUGINS},
        }
        image = _image("kind-node", planned.reference, added)
        return replace(image, arguments={"PAUSE": pause})

    def _kind_files(self) -> Path:
        """An archive of the scripts and units that kind adds to the root of its nodes."""
        module = MODULES / programs.KIND.name
        words = ["mod", "download", "-json", programs.KIND.module]
        go = binaries.find_go(settings.current_paths().cache)
        found = json.loads(run([go, *words], env=binaries.go_env(), cwd=module))
        source = Path(found["Dir"]) / "images" / "base" / "files"
        if not source.is_dir():
            raise ClusterError(f"{source}: not found; `go clean -modcache`, then try again")
        target = self._folder / "kind-files.tar"
        with tarfile.open(target, "w") as archive:
            archive.add(source, ".", filter=_readable)
        return target


def _readable(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Files of root's that all can read; Go's module cache has no write permissions."""
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    member.mode = 0o755 if member.isdir() else 0o644
    return member


def _image(recipe: str, reference: str, added: Mapping[str, Path]) -> Image:
    folder = RECIPES / recipe
    return Image(recipe, reference, folder / "Dockerfile", folder, "build", added)

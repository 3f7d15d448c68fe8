"""Build the images that the cluster needs, with buildah and without any registry.

An image's tag is a hash of its sources, so an unchanged image is not built again. The results
are archives in the cache; `nodeimages` loads them into the nodes.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from localcluster import files
from localcluster.commands import run, succeeds
from localcluster.errors import ClusterError
from localcluster.progress import Progress
from localcluster.releases import built_version
from localcluster.settings import CLONE, PAUSE_IMAGE, Paths

RECIPES = CLONE / "tools" / "images"
_DEBIAN = "bookworm"
_BASE_PACKAGES = (
    *("base-files", "ca-certificates", "coreutils", "dash", "libc-bin"),
    *("libstdc++6", "python3", "python3-venv"),
)
_BASE_WITHOUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*")
_CERTIFICATES = "/etc/ssl/certs"
_KEPT_ARCHIVES = 2
_KEPT_STEPS = 400


@dataclass(frozen=True, slots=True)
class Image:
    """One image to build.

    Attributes:
        name: name in charts and tests.
        reference: repository and tag.
        dockerfile: its Dockerfile.
        context: folder that the Dockerfile copies from.
        key: hash of all sources of the image.
        added: files of a separate context by these names; `context` is then unused.
        arguments: build arguments.
    """

    name: str
    reference: str
    dockerfile: Path
    context: Path
    key: str
    added: Mapping[str, Path] = field(default_factory=dict)
    arguments: Mapping[str, str] = field(default_factory=dict)

    def archive(self, paths: Paths) -> Path:
        """Archive of the built image."""
        return paths.cache / "images" / f"{self.name}-{self.key}.tar"


def copied_paths(dockerfile: str, arguments: Mapping[str, str]) -> list[str]:
    """Return the sources of a Dockerfile's COPY lines.

    Without copies from another stage. ``arguments`` are the build arguments.
    """
    joined = re.sub(r"\\\n", " ", dockerfile)
    for name, value in arguments.items():
        joined = joined.replace(f"${{{name}}}", value)
    sources: list[str] = []
    for line in joined.splitlines():
        instruction, *words = line.split() or [""]
        if instruction.upper() == "COPY" and not any(word.startswith("--from=") for word in words):
            sources += [word for word in words if not word.startswith("--")][:-1]
    return sources


def plan(binaries: Path, tree: Path = CLONE) -> list[Image]:
    """Every image of the cluster, the base of the components first.

    Args:
        binaries: folder of the cluster's programs.
        tree: folder with the sources of the components, for example of an earlier revision.
    """
    base = _base()
    return [
        base,
        _packed("pause", {"catatonit": _program("catatonit")}, PAUSE_IMAGE),
        _packed("workload", {"busybox": _program("busybox")}),
        _from_clone("trainer", RECIPES / "trainer" / "Dockerfile", base, {}),
        _packed(
            "scheduler",
            {"kube-scheduler": binaries / "kube-scheduler"},
            f"localhost/kube-scheduler:{built_version(binaries)}",
        ),
        _component("operator", "operator", base, tree),
        _component("extender", "extender", base, tree),
        _component("devicePlugin", "deviceplugin", base, tree),
    ]


def ensure(paths: Paths, binaries: Path, progress: Progress, tree: Path = CLONE) -> list[Image]:
    """Build the images that are not in the cache; see :func:`plan`.

    Returns:
        The images that the nodes need; `archive` of each exists.

    Raises:
        ClusterError: a build failed.
    """
    base, *others = plan(binaries, tree)
    with files.locked(paths.cache / "images"):
        missing = [image for image in others if not image.archive(paths).exists()]
        builder = _Builder(paths)
        for image in missing:
            if image.arguments and not builder.has(base):
                with progress.stage("Build image python-base"):
                    builder.build_base(base)
            with progress.stage(f"Build image {image.reference}"):
                builder.build(image)
                builder.save(image)
        for image in others:
            files.mark_used(image.archive(paths))
            files.keep_newest(image.archive(paths).parent, f"{image.name}-*.tar", _KEPT_ARCHIVES)
        if missing:
            builder.prune([base, *others])
    return others


def _base() -> Image:
    folder = RECIPES / "python-base"
    recipe = " ".join([_DEBIAN, *_BASE_PACKAGES, *_BASE_WITHOUT])
    key = files.content_key({"packages": recipe.encode(), **files.files_below(folder, ["."])})
    reference = f"localhost/gputopo-python-base:{key}"
    added = {name: folder / name for name in ("passwd", "group")}
    return Image("python-base", reference, folder / "Dockerfile", folder, key, added)


def _packed(name: str, added: Mapping[str, Path], reference: str = "") -> Image:
    dockerfile = RECIPES / name / "Dockerfile"
    contents = {file: path.read_bytes() for file, path in added.items()}
    key = files.content_key({"Dockerfile": dockerfile.read_bytes(), **contents})
    return Image(
        name,
        reference or f"localhost/gputopo-{name}:{key}",
        dockerfile,
        dockerfile.parent,
        key,
        added,
    )


def _component(name: str, folder: str, base: Image, tree: Path) -> Image:
    return _from_clone(name, tree / "Dockerfile", base, {"COMPONENT": folder}, tree)


def _from_clone(
    name: str, dockerfile: Path, base: Image, more: Mapping[str, str], tree: Path = CLONE
) -> Image:
    """Return an image with Python that copies sources from the clone or another tree."""
    arguments = {"BASE": base.reference, **more}
    inputs = files.files_below(tree, copied_paths(dockerfile.read_text(), arguments))
    key = files.content_key(
        {"Dockerfile": dockerfile.read_bytes(), "base": base.key.encode(), **inputs}
    )
    reference = f"localhost/gputopo-{name.lower()}:{key}"
    return Image(name, reference, dockerfile, tree, key, arguments=arguments)


def _program(name: str) -> Path:
    found = shutil.which(name)
    if found is None:
        raise ClusterError(f"{name}: not installed; run tools/setup first")
    return Path(found)


class _Builder:
    """buildah with a separate store, so that the user's images do not change."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        store = paths.cache / "buildah"
        self._buildah = [
            # What a build mounts, and leaves mounted when it is interrupted, goes with this.
            *("unshare", "--mount", "--propagation=private"),
            *("buildah", "--storage-driver=overlay"),
            *(f"--root={store}/images", f"--runroot={store}/run"),
        ]
        # Like an unprivileged container engine, chroot isolation needs no daemon and no cgroups.
        self._environment = {**os.environ, "BUILDAH_ISOLATION": "chroot"}

    def has(self, image: Image) -> bool:
        return succeeds([*self._buildah, "inspect", "--type=image", image.reference])

    def build_base(self, base: Image) -> None:
        with tempfile.TemporaryDirectory(dir=self._paths.cache) as folder:
            rootfs = Path(folder) / "rootfs.tar"
            run(
                ["mmdebstrap", "--variant=extract", f"--include={','.join(_BASE_PACKAGES)}"]
                + [f"--dpkgopt=path-exclude={pattern}" for pattern in _BASE_WITHOUT]
                + [_DEBIAN, str(rootfs)]
            )
            with_rootfs = {**base.added, "rootfs.tar": rootfs}
            self._build(base, with_rootfs, [])

    def build(self, image: Image) -> None:
        # A network that needs a certificate authority of its own has it on this machine.
        mounting = [f"--volume={_CERTIFICATES}:{_CERTIFICATES}:ro"]
        arguments = [f"--build-arg={name}={value}" for name, value in image.arguments.items()]
        self._build(image, image.added, [*mounting, *arguments])

    def _build(self, image: Image, added: Mapping[str, Path], options: list[str]) -> None:
        with tempfile.TemporaryDirectory(dir=self._paths.cache) as folder:
            for name, source in added.items():
                _link_or_copy(source, Path(folder) / name)
            run(
                [
                    *(*self._buildah, "build", "--layers", f"--file={image.dockerfile}", *options),
                    *(f"--tag={image.reference}", folder if added else str(image.context)),
                ],
                env=self._environment,
            )

    def save(self, image: Image) -> None:
        archive = image.archive(self._paths)
        unfinished = archive.with_suffix(".unfinished")
        files.remove(unfinished)
        target = f"docker-archive:{unfinished}:{image.reference}"
        run([*self._buildah, "push", image.reference, target], env=self._environment)
        unfinished.rename(archive)

    def prune(self, current: list[Image]) -> None:
        """Delete replaced images and failed builds; if they are many, also the cached steps."""
        run([*self._buildah, "rm", "--all"])
        listed = run([*self._buildah, "images", "--format", "{{.Name}}:{{.Tag}}"]).split()
        wanted = {image.reference for image in current}
        for reference in listed:
            if reference not in wanted and not reference.startswith("<none>"):
                run([*self._buildah, "rmi", reference])
        steps = run([*self._buildah, "images", "--all", "--quiet"]).split()
        if len(steps) > _KEPT_STEPS:
            run([*self._buildah, "rmi", "--prune"])


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copy(source, target)

"""Build the images that the cluster needs, with buildah and without any registry.

An image's tag is a hash of its sources, so an unchanged image is not built again. The results
are archives in the cache; `nodeimages` loads them into the nodes.
"""

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from localcluster import files
from localcluster.errors import ClusterError
from localcluster.imagebuilder import BASE_PACKAGES, BASE_WITHOUT, DEBIAN, Builder
from localcluster.progress import Progress
from localcluster.releases import built_version
from localcluster.settings import CLONE, PAUSE_IMAGE, Paths

RECIPES = CLONE / "tools" / "images"
_KEPT_ARCHIVES = 2


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


def plan(binaries: Path | None, tree: Path = CLONE) -> list[Image]:
    """Every image of the cluster, the base of the components first.

    Args:
        binaries: folder of the cluster's programs; without it, the scheduler has no image.
        tree: folder with the sources of the components, for example of an earlier revision.
    """
    base = _base()
    return [
        base,
        packed("pause", {"catatonit": program("catatonit")}, PAUSE_IMAGE),
        packed("workload", {"busybox": program("busybox")}),
        _from_clone("trainer", RECIPES / "trainer" / "Dockerfile", base, {}),
        *([_scheduler(binaries)] if binaries else []),
        *_components(base, tree),
    ]


def ensure(
    paths: Paths, binaries: Path | None, progress: Progress, tree: Path = CLONE
) -> list[Image]:
    """Build the images that are not in the cache; see :func:`plan`.

    Returns:
        The images that the nodes need; `archive` of each exists.

    Raises:
        ClusterError: a build failed.
    """
    base, *others = plan(binaries, tree)
    with files.locked(paths.cache / "images"):
        builder = Builder(paths)
        if _build_missing(base, others, builder, paths, progress):
            builder.prune([base, *others])
    return others


def ensure_components(paths: Paths, progress: Progress) -> list[Image]:
    """Build the images of operator, extender, agent, MPS and page that are not in the cache.

    Returns:
        The images; `archive` of each exists.

    Raises:
        ClusterError: a build failed.
    """
    base = _base()
    found = _components(base)
    with files.locked(paths.cache / "images"):
        _build_missing(base, found, Builder(paths), paths, progress)
    return found


def _build_missing(
    base: Image, wanted: Sequence[Image], builder: Builder, paths: Paths, progress: Progress
) -> bool:
    """Build the images without an archive; return whether there were any."""
    missing = [image for image in wanted if not image.archive(paths).exists()]
    for image in missing:
        if image.arguments and not builder.has(base):
            with progress.stage("Build image python-base"):
                builder.build_base(base)
        with progress.stage(f"Build image {image.reference}"):
            builder.build(image)
            builder.save(image)
    for image in wanted:
        files.mark_used(image.archive(paths))
        files.keep_newest(image.archive(paths).parent, f"{image.name}-*.tar", _KEPT_ARCHIVES)
    return bool(missing)


def _base() -> Image:
    folder = RECIPES / "python-base"
    recipe = " ".join([DEBIAN, *BASE_PACKAGES, *BASE_WITHOUT])
    key = files.content_key({"packages": recipe.encode(), **files.files_below(folder, ["."])})
    reference = f"localhost/gputopo-python-base:{key}"
    added = {name: folder / name for name in ("passwd", "group")}
    return Image("python-base", reference, folder / "Dockerfile", folder, key, added)


def _scheduler(binaries: Path) -> Image:
    added = {"kube-scheduler": binaries / "kube-scheduler"}
    return packed("scheduler", added, f"localhost/kube-scheduler:{built_version(binaries)}")


def packed(name: str, added: Mapping[str, Path], reference: str = "") -> Image:
    """An image of programs of this machine.

    Args:
        name: folder of its Dockerfile in tools/images.
        added: the programs, by the name that the Dockerfile copies.
        reference: its name; without it, one with the hash of its sources.
    """
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


def _components(base: Image, tree: Path = CLONE) -> list[Image]:
    return [
        _component("operator", "operator", base, tree),
        _component("extender", "extender", base, tree),
        _component("devicePlugin", "deviceplugin", base, tree),
        *_mps(base, tree),
        *_page(base, tree),
    ]


def _mps(base: Image, tree: Path) -> list[Image]:
    """Return the image of the component for MPS; revisions before it have none."""
    return [_component("mps", "mps", base, tree)] if (tree / "mps").exists() else []


def _page(base: Image, tree: Path) -> list[Image]:
    """Return the image of the page; revisions before the page have none."""
    dockerfile = tree / "Dockerfile.web"
    return [_from_clone("web", dockerfile, base, {}, tree)] if dockerfile.exists() else []


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


def program(name: str) -> Path:
    """A program of this machine. Raises a ClusterError if it is not installed."""
    found = shutil.which(name)
    if found is None:
        raise ClusterError(f"{name}: not installed; run tools/setup first")
    return Path(found)

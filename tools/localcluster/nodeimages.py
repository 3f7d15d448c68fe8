"""Load images into the nodes: import them once, then give every node hard links.

Importing an archive unpacks it, which takes seconds per node. So a template of containerd's
folder, with all images imported, is kept in the cache. A node gets a copy in which the images'
files, which nothing ever changes, are hard links, and containerd's own databases real copies.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Container, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from localcluster import files, nodeconfig, processes
from localcluster.api import wait_until
from localcluster.commands import run, succeeds, tied_to_this
from localcluster.images import Image
from localcluster.progress import Progress
from localcluster.settings import Paths

_NAMESPACE = ["--namespace=k8s.io"]
_KEPT_TEMPLATES = 2
_START_SECONDS = 60.0


def ensure_template(
    images: Sequence[Image], binaries: Path, paths: Paths, progress: Progress
) -> Path:
    """The containerd folder with exactly these images, from the cache or created now."""
    parts = {image.name: image.archive(paths).name.encode() for image in images}
    parts["containerd"] = run([binaries / "containerd", "--version"]).encode()
    folder = paths.cache / "node-images"
    template = folder / files.content_key(parts)
    with files.locked(folder):
        if not template.is_dir():
            with progress.stage("Unpack the images"):
                _make_template(template, images, binaries, paths)
        files.mark_used(template)
        files.keep_newest(folder, "[0-9a-f]*", _KEPT_TEMPLATES)
    return template


def install(template: Path, node_disk: Path) -> None:
    """Fill a node's empty containerd folder from the template."""
    # Links cannot cross file systems; a copy does the same, slower.
    linking: list[str | Path] = ["cp", "--archive", "--link", f"{template}/.", node_disk]
    if not succeeds(linking):
        run(["cp", "--archive", "--remove-destination", f"{template}/.", node_disk])
    for database in template.rglob("*.db"):
        own = node_disk / database.relative_to(template)
        own.unlink()
        shutil.copy2(database, own)


def load_missing(
    images: Sequence[Image],
    nodes: Sequence[str],
    list_images: Callable[[str], Container[str]],
    load: Callable[[str, Image], None],
    progress: Progress,
) -> None:
    """Import the images that running nodes lack, into all nodes at once.

    Args:
        images: what every node needs.
        nodes: names.
        list_images: gets a node; returns the references of its images.
        load: imports an image into a node.
        progress: gets a stage if there is something to import.
    """
    lacking: dict[str, list[Image]] = {}
    for node in nodes:
        present = list_images(node)
        lacking[node] = [image for image in images if image.reference not in present]

    def load_all(node: str) -> None:
        for image in lacking[node]:
            load(node, image)

    if any(lacking.values()):
        with progress.stage("Bring changed images to the nodes"), ThreadPoolExecutor() as pool:
            list(pool.map(load_all, nodes))


def import_archives(
    archives: Sequence[Path], binaries: Path, root: Path, log: Path, options: Sequence[str] = ()
) -> None:
    """Import archives of images into a folder of containerd.

    Args:
        archives: in docker-archive format.
        binaries: folder of containerd and ctr.
        root: containerd's folder.
        log: file of its output.
        options: of `ctr images import`.
    """
    with tempfile.TemporaryDirectory(prefix="gputopo-containerd-") as folder:
        run_folder = Path(folder)
        socket = run_folder / "socket"
        config = run_folder / "config.toml"
        config.write_text(nodeconfig.importing_containerd_config(root, run_folder))
        program = tied_to_this([binaries / "containerd", f"--config={config}"])
        containerd = processes.start(program, log, os.environ)
        try:
            ctr: list[str | Path] = [binaries / "ctr", f"--address={socket}", *_NAMESPACE]
            wait_until(lambda: succeeds([*ctr, "version"]), "containerd", _START_SECONDS)
            for archive in archives:
                run([*ctr, "images", "import", *options, archive])
        finally:
            processes.end(containerd, patience_seconds=10)


def _make_template(template: Path, images: Sequence[Image], binaries: Path, paths: Paths) -> None:
    unfinished = template.parent / "unfinished"
    files.remove(unfinished)
    unfinished.mkdir(parents=True)
    log = paths.cache / "node-images" / "containerd.log"
    import_archives([image.archive(paths) for image in images], binaries, unfinished, log)
    unfinished.rename(template)

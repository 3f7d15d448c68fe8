"""Run buildah and mmdebstrap: build, save and delete images."""

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from localcluster import files
from localcluster.commands import contained, run, succeeds
from localcluster.settings import Paths

if TYPE_CHECKING:
    from localcluster.images import Image

DEBIAN = "bookworm"
BASE_PACKAGES = (
    *("base-files", "ca-certificates", "coreutils", "dash", "libc-bin"),
    *("libstdc++6", "python3", "python3-venv"),
)
BASE_WITHOUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*")
_CERTIFICATES = "/etc/ssl/certs"
_KEPT_STEPS = 400


def unpack_debian(target: Path, variant: str, packages: Sequence[str]) -> None:
    """Write an archive of the files of Debian packages.

    Args:
        target: the archive; temporary files are in its folder.
        variant: "extract" to unpack only these packages and their dependencies, "minbase" to
            install them into a small system.
        packages: names.
    """
    options = [f"--variant={variant}", f"--include={','.join(packages)}"]
    options += [f"--dpkgopt=path-exclude={pattern}" for pattern in BASE_WITHOUT]
    environment = {**os.environ, "TMPDIR": str(target.parent)}
    run(contained(["mmdebstrap", "--quiet", *options, DEBIAN, target]), env=environment)


class Builder:
    """buildah with a separate store, so that the user's images do not change."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        store = paths.cache / "buildah"
        folders = (f"--root={store}/images", f"--runroot={store}/run")
        self._buildah = contained(["buildah", "--storage-driver=overlay", *folders])
        # Of the one build at a time; `prune` removes what an interrupted one has left there.
        self._temporary = store / "tmp"
        self._temporary.mkdir(parents=True, exist_ok=True)
        self._environment = {
            **os.environ,
            # Like an unprivileged container engine: chroot needs no daemon and no cgroups.
            "BUILDAH_ISOLATION": "chroot",
            "TMPDIR": str(self._temporary),
        }

    def has(self, image: "Image") -> bool:
        """Whether the store has the image."""
        return succeeds([*self._buildah, "inspect", "--type=image", image.reference])

    def build_base(self, base: "Image") -> None:
        """Build the image of Python from Debian packages."""
        with tempfile.TemporaryDirectory(dir=self._temporary) as folder:
            rootfs = Path(folder) / "rootfs.tar"
            unpack_debian(rootfs, "extract", BASE_PACKAGES)
            with_rootfs = {**base.added, "rootfs.tar": rootfs}
            self._build(base, with_rootfs, [])

    def build(self, image: "Image") -> None:
        """Build an image with its Dockerfile."""
        # A network that needs a certificate authority of its own has it on this machine.
        mounting = [f"--volume={_CERTIFICATES}:{_CERTIFICATES}:ro"]
        arguments = [f"--build-arg={name}={value}" for name, value in image.arguments.items()]
        self._build(image, image.added, [*mounting, *arguments])

    def _build(self, image: "Image", added: Mapping[str, Path], options: list[str]) -> None:
        with tempfile.TemporaryDirectory(dir=self._temporary) as folder:
            for name, source in added.items():
                _link_or_copy(source, Path(folder) / name)
            run(
                [
                    *(*self._buildah, "build", "--layers", f"--file={image.dockerfile}", *options),
                    *(f"--tag={image.reference}", folder if added else str(image.context)),
                ],
                env=self._environment,
            )

    def save(self, image: "Image") -> None:
        """Write the archive of an image."""
        archive = image.archive(self._paths)
        unfinished = archive.with_suffix(".unfinished")
        files.remove(unfinished)
        target = f"docker-archive:{unfinished}:{image.reference}"
        run([*self._buildah, "push", image.reference, target], env=self._environment)
        unfinished.rename(archive)

    def prune(self, current: list["Image"]) -> None:
        """Delete replaced images and failed builds; if they are many, also the cached steps."""
        files.remove(self._temporary)
        self._temporary.mkdir()
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

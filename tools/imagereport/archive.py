"""Read the archive of an image: sizes of its layers, and the packages and the SBOM inside."""

import json
import re
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from email import message_from_string
from pathlib import Path
from typing import IO, Final

SBOM: Final = "opt/venv/sbom.cdx.json"
_PACKAGE: Final = re.compile(r"opt/venv/lib/python3\.\d+/site-packages/[^/]+\.dist-info/METADATA")
_CHUNK: Final = 2**20


@dataclass(frozen=True, slots=True)
class ImageContents:
    """What an image contains.

    Attributes:
        layers: bytes of each layer, the base's first.
        compressed: bytes of each layer as in a registry (gzip); empty if not measured.
        packages: name and version of each installed Python package, as their metadata have them.
        sbom: the CycloneDX document of these packages, as text.
    """

    layers: tuple[int, ...]
    compressed: tuple[int, ...]
    packages: frozenset[tuple[str, str]]
    sbom: str


def read_image(archive: Path, *, compress: bool = True) -> ImageContents:
    """Return the contents of an image that was saved as ``docker-archive``.

    To ``compress`` the layers of an image takes about ten seconds.

    Raises:
        ValueError: if the image contains no SBOM.
    """
    layers, compressed, packages, sboms = [], [], set(), []
    with tarfile.open(archive) as image:
        for name in _layers(image):
            layers.append(image.getmember(name).size)
            if compress:
                compressed.append(_compressed_size(_open(image, name)))
            for path, text in _files(_open(image, name)):
                if path == SBOM:
                    sboms.append(text)
                else:
                    packages.add(_name_and_version(text))
    if not sboms:
        raise ValueError(f"{archive.name}: /{SBOM} is not in the image; build it with this clone")
    return ImageContents(tuple(layers), tuple(compressed), frozenset(packages), sboms[-1])


def _layers(image: tarfile.TarFile) -> list[str]:
    (manifest,) = json.load(_open(image, "manifest.json"))
    return list(manifest["Layers"])


def _open(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    file = archive.extractfile(name)
    if file is None:
        raise ValueError(f"{name}: is not a file")
    return file


def _compressed_size(layer: IO[bytes]) -> int:
    packed = zlib.compressobj(level=6, wbits=31)
    size = 0
    while chunk := layer.read(_CHUNK):
        size += len(packed.compress(chunk))
    return size + len(packed.flush())


def _files(layer: IO[bytes]) -> Iterator[tuple[str, str]]:
    """Yield path and text of the SBOM and of the metadata of each package in a layer."""
    with tarfile.open(fileobj=layer) as files:
        for member in files:
            path = member.name.removeprefix("./")
            if path == SBOM or _PACKAGE.fullmatch(path):
                yield path, _open(files, member.name).read().decode()


def _name_and_version(metadata: str) -> tuple[str, str]:
    header = message_from_string(metadata)
    return header["Name"], header["Version"]

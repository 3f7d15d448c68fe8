"""What the SBOM of an image lists, and what ``tools/sbom`` reads from the archive of an image."""

import gzip
import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from imagereport.__main__ import table, write_sboms
from imagereport.archive import SBOM, ImageContents, read_image

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "tools/images/sbom.py"
SITE = "opt/venv/lib/python3.13/site-packages"
LOCKED: dict[str, Any] = {
    "bomFormat": "CycloneDX",
    "metadata": {"component": {"bom-ref": "gputopo-1", "name": "gputopo", "type": "library"}},
    "components": [
        {"bom-ref": "numpy-2", "name": "numpy", "version": "2.4.6"},
        {"bom-ref": "numpy-3", "name": "numpy", "version": "2.5.5"},
        {"bom-ref": "typing-extensions-4", "name": "typing-extensions", "version": "4.15.0"},
    ],
    "dependencies": [
        {"ref": "gputopo-1", "dependsOn": ["numpy-2", "numpy-3", "typing-extensions-4"]},
        {"ref": "numpy-2", "dependsOn": []},
        {"ref": "numpy-3"},
        {"ref": "typing-extensions-4"},
    ],
}


def install(folder: Path, name: str, version: str) -> None:
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n")


def sbom(site_packages: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", SCRIPT, "extender", site_packages],
        input=json.dumps(LOCKED),
        capture_output=True,
        text=True,
        check=False,
    )


def test_sbom_lists_the_installed_packages_of_the_lock_file(tmp_path: Path) -> None:
    install(tmp_path, "numpy", "2.5.5")
    install(tmp_path, "typing_extensions", "4.15.0")
    found = json.loads(sbom(tmp_path).stdout)
    assert [each["bom-ref"] for each in found["components"]] == ["numpy-3", "typing-extensions-4"]
    assert found["dependencies"] == [
        {"ref": "gputopo-1", "dependsOn": ["numpy-3", "typing-extensions-4"]},
        {"ref": "numpy-3", "dependsOn": []},
        {"ref": "typing-extensions-4", "dependsOn": []},
    ]
    root = {"bom-ref": "gputopo-1", "name": "gputopo-extender", "type": "application"}
    assert found["metadata"]["component"] == root
    assert found["bomFormat"] == "CycloneDX"


@pytest.mark.parametrize(("name", "version"), [("numpy", "2.5.6"), ("left-pad", "1.0")])
def test_package_that_is_not_in_the_lock_file_stops_the_build(
    tmp_path: Path, name: str, version: str
) -> None:
    install(tmp_path, name, version)
    done = sbom(tmp_path)
    assert done.returncode != 0
    assert done.stdout == ""
    assert f"packages: [('{name}', '{version}')] are installed, but not in uv.lock" in done.stderr


def layer(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path, content in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def saved(path: Path, layers: list[bytes]) -> Path:
    names = [f"{number}.tar" for number in range(len(layers))]
    manifest = json.dumps([{"Layers": names}]).encode()
    path.write_bytes(layer({"manifest.json": manifest, **dict(zip(names, layers, strict=True))}))
    return path


def test_archive_of_an_image_gives_sizes_packages_and_sbom(tmp_path: Path) -> None:
    base = layer({"usr/share/doc": b"x" * 50_000})
    metadata = b"Metadata-Version: 2.4\nName: numpy\nVersion: 2.5.5\n\nVersion: none\n"
    site = layer({f"./{SITE}/numpy-2.5.5.dist-info/METADATA": metadata, SBOM: b"{}"})
    archive = saved(tmp_path / "image.tar", [base, site])
    assert read_image(archive, compress=False).compressed == ()
    image = read_image(archive)
    assert image.layers == (len(base), len(site))
    assert image.compressed == (len(gzip.compress(base, 6)), len(gzip.compress(site, 6)))
    assert image.packages == {("numpy", "2.5.5")}
    assert image.sbom == "{}"


def test_image_without_an_sbom_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"image.tar: /opt/venv/sbom.cdx.json is not in the image"):
        read_image(saved(tmp_path / "image.tar", [layer({})]))


def test_table_has_sizes_with_and_without_the_base(tmp_path: Path) -> None:
    document = '{"components": [{}, {}]}'
    sizes = (70_000_000, 2_000_000, 40_000_000, 3_000_000)
    small = (30_000_000, 1_000_000, 12_000_000, 1_000_000)
    found = {"operator": ImageContents(sizes, small, frozenset(), document)}
    assert table(found)[-1] == "| gputopo-operator | 115 | 44 | 43 | 13 | 2 |"
    write_sboms(found, tmp_path / "new")
    assert (tmp_path / "new/gputopo-operator.cdx.json").read_text() == document

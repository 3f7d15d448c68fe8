"""``tools/sbom``: build the images, print their sizes, and write their SBOMs to a folder."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from imagereport.archive import ImageContents, read_image
from localcluster import images, settings
from localcluster.progress import Progress

_MB: Final = 1_000_000
_OWN_LAYERS: Final = 2  # the Dockerfile copies packages, then gputopo, onto the base


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="tools/sbom", description=__doc__)
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="write the SBOMs there")
    options = parser.parse_args()
    found = {name.lower(): read_image(path) for name, path in archives().items()}
    print("\n".join(table(found)))
    if options.output is not None:
        write_sboms(found, options.output)


def archives() -> dict[str, Path]:
    """Return the archive of the image of each component; missing images are built."""
    paths = settings.current_paths()
    built = images.ensure_components(paths, Progress())
    return {image.name: image.archive(paths) for image in built}


def table(found: dict[str, ImageContents]) -> Sequence[str]:
    """Return a Markdown table of sizes in MB (10^6 bytes), in total and without the base."""
    lines = [
        "| image | MB | MB compressed | MB without base | compressed | packages in its SBOM |",
        "|---|---|---|---|---|---|",
    ]
    for name, image in found.items():
        cells = (
            f"{sum(image.layers) / _MB:.0f}",
            f"{sum(image.compressed) / _MB:.0f}",
            f"{sum(image.layers[-_OWN_LAYERS:]) / _MB:.0f}",
            f"{sum(image.compressed[-_OWN_LAYERS:]) / _MB:.0f}",
            str(len(json.loads(image.sbom)["components"])),
        )
        lines.append(f"| gputopo-{name} | {' | '.join(cells)} |")
    return lines


def write_sboms(found: dict[str, ImageContents], folder: Path) -> None:
    """Write the SBOM of each image as ``gputopo-COMPONENT.cdx.json``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, image in found.items():
        (folder / f"gputopo-{name}.cdx.json").write_text(image.sbom)


if __name__ == "__main__":
    main()

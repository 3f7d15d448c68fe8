"""Reduce the CycloneDX document of a lock file to the packages of one image.

Runs while an image is built, so it uses the standard library only. A lock file covers all systems
and versions of Python: it lists packages that this image does not have, such as a second version
of numpy. The result is the SBOM of the image. The build fails if a package is installed that the
lock file does not have.

usage: sbom.py COMPONENT SITE_PACKAGES <LOCKED >SBOM
"""

import json
import re
import sys
from importlib.metadata import distributions
from typing import Any

Bom = dict[str, Any]
Packages = set[tuple[str, str]]
"""Name and version of each package; names are normalized."""


def installed(folder: str) -> Packages:
    """Return the packages in a folder ``site-packages``."""
    found = distributions(path=[folder])
    return {(normalized(each.metadata["Name"]), each.version) for each in found}


def normalized(name: str) -> str:
    """Return the name of a package as package indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def sbom_of_image(locked: Bom, image: str, packages: Packages) -> Bom:
    """Return the document of an image with these packages.

    Raises:
        ValueError: if a package is not in the lock file.
    """
    kept = [each for each in locked["components"] if (each["name"], each["version"]) in packages]
    unknown = packages - {(each["name"], each["version"]) for each in kept}
    if unknown:
        raise ValueError(f"packages: {sorted(unknown)} are installed, but not in uv.lock")
    root = locked["metadata"]["component"] | {"name": image, "type": "application"}
    references = {root["bom-ref"], *(each["bom-ref"] for each in kept)}
    dependencies = [
        each | {"dependsOn": [ref for ref in each.get("dependsOn", ()) if ref in references]}
        for each in locked["dependencies"]
        if each["ref"] in references
    ]
    metadata = locked["metadata"] | {"component": root}
    return locked | {"metadata": metadata, "components": kept, "dependencies": dependencies}


def main() -> None:
    """Read the document of the lock file, and write the SBOM."""
    component, site_packages = sys.argv[1:]
    locked = json.load(sys.stdin)
    sbom = sbom_of_image(locked, f"gputopo-{component}", installed(site_packages))
    json.dump(sbom, sys.stdout, indent=2)


if __name__ == "__main__":
    main()

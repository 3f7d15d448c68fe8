"""The SBOM in each image is valid, and lists the packages that the image has."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.utils import canonicalize_name

from imagereport.__main__ import archives
from imagereport.archive import ImageContents, read_image
from support.wheels import uv

COMPONENTS = ("operator", "extender", "deviceplugin", "mps", "web")


@pytest.fixture(scope="module")
def images() -> Mapping[str, ImageContents]:
    """Return the contents of the image of each component; missing images are built."""
    return {name.lower(): read_image(path, compress=False) for name, path in archives().items()}


@pytest.mark.parametrize("component", COMPONENTS)
def test_sbom_of_an_image_is_valid_cyclonedx(
    images: Mapping[str, ImageContents], component: str
) -> None:
    sbom = images[component].sbom
    assert JsonStrictValidator(SchemaVersion.V1_5).validate_str(sbom) is None
    root = json.loads(sbom)["metadata"]["component"]
    assert (root["name"], root["type"]) == (f"gputopo-{component}", "application")


@pytest.mark.parametrize("component", COMPONENTS)
def test_sbom_lists_each_package_of_the_image_with_hashes(
    images: Mapping[str, ImageContents], component: str
) -> None:
    listed = json.loads(images[component].sbom)["components"]
    assert {(each["name"], each["version"]) for each in listed} == {
        (canonicalize_name(name), version) for name, version in images[component].packages
    }
    assert len(listed) > 10
    for each in listed:
        assert each["purl"] == f"pkg:pypi/{each['name']}@{each['version']}"
        assert any(reference["hashes"] for reference in each["externalReferences"])


@pytest.mark.parametrize("component", COMPONENTS)
def test_image_has_no_package_that_its_component_does_not_need(
    images: Mapping[str, ImageContents], component: str
) -> None:
    locked = ("--frozen", "--quiet", "--no-hashes", "--no-annotate", "--no-header")
    needed = uv("export", *locked, "--no-default-groups", "--no-emit-project", "--extra", component)
    names = {line.split("==")[0] for line in needed.splitlines()}
    assert {canonicalize_name(name) for name, _ in images[component].packages} <= names


def test_sizes_in_the_docs_have_a_row_for_each_image() -> None:
    page = (Path(__file__).parents[2] / "docs/operate/images.md").read_text()
    for component in COMPONENTS:
        assert f"\n| gputopo-{component} | " in page

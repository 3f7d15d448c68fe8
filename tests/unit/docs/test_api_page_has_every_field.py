"""``docs/reference/api.md`` names the fields and values of the CRDs."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/reference/api.md").read_text()
NAMED = set(re.findall(r"[\w./-]+", " ".join(re.findall(r"`[^`]+`|```.*?```", PAGE, re.DOTALL))))
NAMES = {part for name in NAMED for part in (name, *name.split("."))}

# Fields that the page does not describe, with the reason.
OMITTED = {
    "observedGeneration": "as in the objects of Kubernetes",
    "failedPodUIDs": "only the operator uses it",
}


def schema_of(kind: str) -> Mapping[str, Any]:
    document = yaml.safe_load((ROOT / f"crds/{kind}.gputopo.io.yaml").read_text())
    schema = document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    found: Mapping[str, Any] = schema["properties"]
    return found


def leaves(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield path and schema of each field that has no named fields inside."""
    for name, field in schema["properties"].items():
        if "properties" in field and set(field["properties"]) != {"cpu", "memory"}:
            yield from leaves(field, f"{path}{name}.")
        else:
            yield f"{path}{name}", field


def rows_of(path: str) -> str:
    return "\n".join(line for line in PAGE.splitlines() if re.match(rf"\|[^|]*`{path}`", line))


@pytest.mark.parametrize(("path", "field"), [*leaves(schema_of("gpujobs")["spec"])])
def test_table_of_gpujobs_has_each_field_of_the_spec_with_its_values(
    path: str, field: Mapping[str, Any]
) -> None:
    assert path in NAMED
    rows = rows_of(path)
    assert [value for value in field.get("enum", ()) if f"`{value}`" not in rows] == []


def test_page_names_every_field_of_the_spec_of_a_gpuprofile() -> None:
    paths = [path for path, _ in leaves(schema_of("gpuprofiles")["spec"])]
    assert [path for path in paths if not NAMES & {path, path.rpartition(".")[2]}] == []


@pytest.mark.parametrize("kind", ["gpujobs", "gpuprofiles", "gputopologies"])
def test_page_names_the_fields_of_a_status(kind: str) -> None:
    assert set(schema_of(kind)["status"]["properties"]) - NAMES - set(OMITTED) == set()


def test_table_of_annotations_has_the_policies_and_patterns_of_the_api() -> None:
    spec = dict(leaves(schema_of("gpujobs")["spec"]))
    for annotation, path in (
        ("gputopo.io/policy", "placement.policy"),
        ("gputopo.io/pattern", "communication.pattern"),
    ):
        rows = rows_of(annotation)
        assert [value for value in spec[path]["enum"] if f"`{value}`" not in rows] == []

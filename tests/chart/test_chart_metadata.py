"""What Chart.yaml and the notes say about the chart."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from gputopo.api.v1alpha1 import GPUJobSpec
from support.helm_chart import CHART, Helm

METADATA: dict[str, Any] = yaml.safe_load((CHART / "Chart.yaml").read_text())
DEFINITIONS = [
    yaml.safe_load(path.read_text()) for path in sorted((CHART / "../../crds").iterdir())
]


def annotation(name: str) -> Any:
    return yaml.safe_load(METADATA["annotations"][f"artifacthub.io/{name}"])


def test_catalogues_show_every_crd() -> None:
    shown = [(each["name"], each["kind"], each["version"]) for each in annotation("crds")]
    assert shown == [
        (
            each["metadata"]["name"],
            each["spec"]["names"]["kind"],
            each["spec"]["versions"][0]["name"],
        )
        for each in DEFINITIONS
    ]


def test_example_of_the_catalogue_is_a_valid_gpujob() -> None:
    (example,) = annotation("crdsExamples")
    assert GPUJobSpec.model_validate(example["spec"]).gpus_per_replica == 3


def test_changes_have_kinds_that_catalogues_know() -> None:
    known = {"added", "changed", "deprecated", "removed", "fixed", "security"}
    assert {each["kind"] for each in annotation("changes")} <= known


def test_version_of_the_chart_is_that_of_the_distribution() -> None:
    project = Path(CHART / "../../pyproject.toml").read_text()
    assert f'version = "{METADATA["appVersion"]}"' in project


def test_package_contains_no_files_of_editors(helm: Helm, tmp_path: Path) -> None:
    ignored = (CHART / ".helmignore").read_text().split()
    assert {".*", "*.orig", "*.swp", "*~"} <= set(ignored)
    helm.run("package", str(CHART), "--destination", str(tmp_path))
    (package,) = tmp_path.iterdir()
    assert package.name == f"gputopo-{METADATA['version']}.tgz"


@pytest.mark.parametrize("tested", [True, False])
def test_notes_name_the_next_command_and_the_order_of_removal(helm: Helm, *, tested: bool) -> None:
    notes = helm.notes({"helmTest": {"enabled": tested}})
    assert ("helm test gputopo --namespace gputopo-system --logs" in notes) == tested
    steps = ("delete gpuensembles", "delete gpujobs", "helm uninstall", "delete crd")
    order = [notes.index(each) for each in steps]
    assert order == sorted(order)
    assert "Before another allocator" in notes

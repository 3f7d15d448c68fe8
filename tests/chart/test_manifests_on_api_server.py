"""Every object that the chart renders, checked by a real API server of the local cluster's build.

Its OpenAPI schemas show unknown fields and wrong types. A creation as a dry run also runs the
validation of the server: names, selectors, quantities, CEL expressions of the policies.
"""

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from support.chart_values import VALUE_SETS
from support.control_plane import api_server
from support.control_plane.api_server import ApiServer
from support.control_plane.openapi import PublishedSchemas
from support.control_plane.scheduler_pairs import wait_until
from support.features import MUTATING_POLICIES
from support.helm_chart import Helm, Object

DEFINITIONS = Path(__file__).parents[1] / "data" / "prometheus-operator"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MONITORING = "/apis/monitoring.coreos.com/v1"
SERVED = ["admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"]


@pytest.fixture(scope="module")
def empty(
    kubernetes_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApiServer]:
    """An API server without the chart, with the CRDs of the Prometheus operator."""
    folder = tmp_path_factory.mktemp("empty")
    with api_server.running(kubernetes_binaries, folder) as server:
        namespace = {"metadata": {"name": "gputopo-system"}}
        assert server.create("/api/v1/namespaces", namespace).accepted
        for path in DEFINITIONS.glob("*.gz"):
            definition = yaml.safe_load(gzip.decompress(path.read_bytes()))
            response = server.create(CRDS, definition)
            assert response.accepted, response.message
        kinds = {"podmonitors", "servicemonitors", "prometheusrules"}
        wait_until(lambda: kinds <= set(plurals(server, MONITORING).values()), seconds=60)
        openapi = "/openapi/v3/apis/monitoring.coreos.com/v1"
        wait_until(lambda: server.get(openapi).accepted, seconds=60)
        yield server


def plurals(server: ApiServer, group: str) -> dict[str, str]:
    """Return the plural name of each kind of a group."""
    resources = server.get(group).body.get("resources", [])
    return {each["kind"]: each["name"] for each in resources if "/" not in each["name"]}


def collection(server: ApiServer, manifest: Object) -> str:
    """Return the path at which the object is created."""
    version = manifest["apiVersion"]
    group = f"/apis/{version}" if "/" in version else f"/api/{version}"
    namespace = manifest["metadata"].get("namespace")
    where = f"{group}/namespaces/{namespace}" if namespace else group
    return f"{where}/{plurals(server, group)[manifest['kind']]}"


def objects(helm: Helm, server: ApiServer, values: str) -> list[Object]:
    served = SERVED if server.serves(MUTATING_POLICIES) else []
    return [
        each
        for hooks in (False, True)
        for each in helm.render(VALUE_SETS[values], served=served, hooks=hooks)
    ]


@pytest.mark.parametrize("values", VALUE_SETS)
def test_every_object_has_the_fields_and_types_of_its_schema(
    helm: Helm, empty: ApiServer, values: str
) -> None:
    schemas = PublishedSchemas(empty)
    errors = {
        f"{each['kind']} {each['metadata']['name']}": found
        for each in objects(helm, empty, values)
        if (found := schemas.errors(each))
    }
    assert errors == {}


@pytest.mark.parametrize("values", VALUE_SETS)
def test_api_server_accepts_every_object_in_a_strict_dry_run(
    helm: Helm, empty: ApiServer, values: str
) -> None:
    rejected = {
        f"{each['kind']} {each['metadata']['name']}": response.message
        for each in objects(helm, empty, values)
        for response in [
            empty.request(
                "POST", f"{collection(empty, each)}?dryRun=All&fieldValidation=Strict", each
            )
        ]
        if not response.accepted
    }
    assert rejected == {}


def test_schemas_reject_misspelt_and_mistyped_fields(helm: Helm, empty: ApiServer) -> None:
    schemas = PublishedSchemas(empty)
    manifests = {each["kind"]: each for each in objects(helm, empty, "queue and services")}
    deployment, monitor = manifests["Deployment"], manifests["ServiceMonitor"]
    deployment["spec"]["template"]["spec"]["containers"][0]["imagePullPolicies"] = "Always"
    deployment["spec"]["replicas"] = "two"
    monitor["spec"]["endpoints"][0]["intervall"] = "30s"
    wrong = [*schemas.errors(deployment), *schemas.errors(monitor)]
    for word in ("imagePullPolicies", "'two' is not of type", "intervall"):
        assert [each for each in wrong if word in each], wrong


def test_value_sets_render_every_template(helm: Helm) -> None:
    rendered = {
        line.removeprefix("# Source: gputopo/templates/").strip()
        for values in VALUE_SETS
        for line in helm.manifests(VALUE_SETS[values], served=SERVED).splitlines()
        if line.startswith("# Source: ")
    }
    folder = Path(__file__).parents[2] / "charts" / "gputopo" / "templates"
    templates = {path.relative_to(folder).as_posix() for path in folder.rglob("*.yaml")}
    without_objects = {"validation.yaml", "zz-defaults.yaml"}
    assert templates - rendered == without_objects, "not checked by any value set"

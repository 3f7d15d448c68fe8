"""The FlowSchemas of the chart, on a real API server: which requests they classify."""

import re
from collections.abc import Iterator

import pytest
import yaml

from support.control_plane.api_server import ApiServer, service_account
from support.control_plane.scheduler_pairs import wait_until
from support.helm_chart import CHART, Helm, Object

ROOT = CHART.parents[1]
FLOW_CONTROL = "/apis/flowcontrol.apiserver.k8s.io/v1"


def flow_schemas(helm: Helm, **levels: str) -> list[Object]:
    rendered = helm.render({"priorityLevels": levels})
    return [each for each in rendered if each["kind"] == "FlowSchema"]


def test_chart_creates_no_flow_schema_by_default_and_in_releases_without_the_value(
    helm: Helm,
) -> None:
    assert flow_schemas(helm) == []
    kinds = {each["kind"] for each in helm.render({"priorityLevels": None})}
    assert "FlowSchema" not in kinds


def test_each_account_has_its_own_level(helm: Helm) -> None:
    created = flow_schemas(helm, scheduler="workload-high", devicePlugin="agents")
    found = {
        each["metadata"]["name"]: each["spec"]["priorityLevelConfiguration"]["name"]
        for each in created
    }
    assert found == {"gputopo-extender": "workload-high", "gputopo-deviceplugin": "agents"}


@pytest.fixture
def installed(helm: Helm, server: ApiServer) -> Iterator[dict[str, str]]:
    """The UID of each FlowSchema on the server, by the name of its account."""
    created = flow_schemas(
        helm, scheduler="workload-high", operator="workload-high", devicePlugin="workload-low"
    )
    names = [each["metadata"]["name"] for each in created]
    uids = {}
    for each in created:
        response = server.create(f"{FLOW_CONTROL}/flowschemas", each)
        assert response.accepted, response.message
        uids[each["metadata"]["name"]] = response.body["metadata"]["uid"]
    yield uids
    for name in names:
        server.request("DELETE", f"{FLOW_CONTROL}/flowschemas/{name}")


def test_requests_of_each_account_belong_to_its_flow_schema(
    server: ApiServer, installed: dict[str, str]
) -> None:
    assert installed.keys() == {"gputopo-deviceplugin", "gputopo-extender", "gputopo-operator"}
    for account, uid in installed.items():
        user = service_account(account)
        for path in ("/api/v1/pods?limit=1", "/version"):
            # The server reads a new FlowSchema with a delay.
            wait_until(lambda: server.get(path, user).flow_schema == uid, seconds=60)  # noqa: B023
        schema = server.get(f"{FLOW_CONTROL}/flowschemas/{account}").body
        conditions = {each["type"]: each["status"] for each in schema["status"]["conditions"]}
        assert conditions["Dangling"] == "False"


def test_server_accepts_the_priority_level_of_the_page(server: ApiServer) -> None:
    page = (ROOT / "docs/operate/performance.md").read_text()
    (text,) = re.findall(r"(?ms)^```yaml\n(apiVersion: flowcontrol.*?)^```", page)
    level = yaml.safe_load(text)
    response = server.create(f"{FLOW_CONTROL}/prioritylevelconfigurations", level)
    assert response.accepted, response.message
    path = f"{FLOW_CONTROL}/prioritylevelconfigurations/{level['metadata']['name']}"
    assert server.request("DELETE", path).accepted


def test_schemas_of_other_accounts_are_unchanged(
    server: ApiServer, installed: dict[str, str]
) -> None:
    response = server.get("/version", service_account("default"))
    assert response.flow_schema not in installed.values()

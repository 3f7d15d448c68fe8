"""The page in the chart: off by default, read-only, and reachable only for its proxy."""

from typing import Any

import pytest

from gputopo_web.__main__ import parse
from gputopo_web.state.kinds import KINDS
from support.chart_values import EVERYTHING
from support.helm_chart import Helm, HelmError, Object, container, find, pod_of

NAME = "gputopo-web"
ON: dict[str, Any] = {"web": {"enabled": True, "allowedHosts": ["gpus.example.com"]}}


@pytest.fixture(scope="module")
def objects(helm: Helm) -> list[Object]:
    return helm.render(ON)


def of_web(objects: list[Object]) -> list[Object]:
    return [each for each in objects if each["metadata"]["name"] == NAME]


def test_the_page_is_off_by_default_and_with_values_of_an_older_release(helm: Helm) -> None:
    assert of_web(helm.render()) == []
    assert of_web(helm.render({"web": None})) == []


def test_all_objects_of_the_page_are_labelled(objects: list[Object]) -> None:
    kinds = ["ServiceAccount", "Deployment", "Service", "NetworkPolicy"]
    roles = ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]
    assert sorted(each["kind"] for each in of_web(objects)) == sorted([*kinds, *roles])
    for each in of_web(objects):
        assert each["metadata"]["labels"]["app.kubernetes.io/component"] == "web"


def test_the_account_may_list_and_watch_exactly_what_the_page_reads(objects: list[Object]) -> None:
    allowed = {
        (each["kind"], group, resource)
        for each in of_web(objects)
        for rule in each.get("rules", [])
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        if rule["verbs"] == ["list", "watch"]
    }
    groups = {kind: kind.prefix[1] if kind.prefix[0] == "apis" else "" for kind in KINDS}
    assert allowed == {
        ("Role" if kind.own else "ClusterRole", group, kind.name) for kind, group in groups.items()
    }
    assert sum(len(each.get("rules", [])) for each in of_web(objects)) == 4


def test_the_program_accepts_its_arguments(objects: list[Object]) -> None:
    found = container(find(objects, "Deployment", NAME), "web")
    options = parse(found["args"])
    assert options.service_account
    assert options.port == found["ports"][0]["containerPort"]
    assert options.resource == "gputopo.io/gpu"
    assert options.installation == "gputopo-system"
    assert options.allowed_hosts == (
        *(NAME, f"{NAME}.gputopo-system", f"{NAME}.gputopo-system.svc"),
        "gpus.example.com",
    )


def test_probes_name_a_host_that_the_page_allows(objects: list[Object]) -> None:
    found = container(find(objects, "Deployment", NAME), "web")
    for probe in ("livenessProbe", "readinessProbe"):
        [header] = found[probe]["httpGet"]["httpHeaders"]
        assert header == {"name": "Host", "value": "localhost"}
        assert found[probe]["httpGet"]["port"] == found["ports"][0]["name"]


def test_the_container_has_no_privileges_and_limited_memory(objects: list[Object]) -> None:
    pod = pod_of(find(objects, "Deployment", NAME))
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert not {"volumes", "initContainers", "hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    found = container(find(objects, "Deployment", NAME), "web")
    assert found["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert found["resources"]["requests"].keys() == {"cpu", "memory"}
    assert "memory" in found["resources"]["limits"]


def test_the_pod_runs_where_the_other_components_run(helm: Helm, objects: list[Object]) -> None:
    page, operator = (pod_of(find(objects, "Deployment", it)) for it in (NAME, "gputopo-operator"))
    assert page["nodeSelector"] == operator["nodeSelector"]
    assert page["tolerations"] == [
        each for each in operator["tolerations"] if each["effect"] == "NoSchedule"
    ]
    assert "priorityClassName" not in page
    pod = pod_of(find(helm.render(EVERYTHING), "Deployment", NAME))
    assert (pod["priorityClassName"], pod["tolerations"]) == ("high", [{"operator": "Exists"}])
    assert pod["imagePullSecrets"] == [{"name": "registry"}]


def test_the_page_follows_the_values_of_all_components(helm: Helm) -> None:
    everything = helm.render(EVERYTHING)
    found = container(find(everything, "Deployment", NAME), "web")
    assert found["image"] == "localhost:5000/page:v3"
    assert parse(found["args"]).resource == "example.com/gpu"
    renamed = helm.render(ON | {"fullnameOverride": "links"})
    account = pod_of(find(renamed, "Deployment", "links-web"))["serviceAccountName"]
    [subject] = find(renamed, "ClusterRoleBinding", "links-web")["subjects"]
    assert subject["name"] == account == "links-web"
    [port] = find(renamed, "Service", "links-web")["spec"]["ports"]
    assert port["targetPort"] == "http"


def test_only_the_proxy_may_connect_to_the_page(helm: Helm, objects: list[Object]) -> None:
    policy = find(objects, "NetworkPolicy", NAME)["spec"]
    [rule] = policy["ingress"]
    labels = {"app.kubernetes.io/name": "oauth2-proxy"}
    assert rule["from"] == [{"podSelector": {"matchLabels": labels}}]
    assert rule["ports"] == [{"protocol": "TCP", "port": 8080}]
    closed = helm.render({"web": {"enabled": True, "allowedPeers": []}})
    assert find(closed, "NetworkPolicy", NAME)["spec"]["ingress"] == []


def test_the_service_selects_only_the_pods_of_the_page(objects: list[Object]) -> None:
    selector = find(objects, "Service", NAME)["spec"]["selector"]
    matching = [
        each["metadata"]["name"]
        for each in objects
        if each["kind"] in {"Deployment", "DaemonSet"}
        and selector.items() <= each["spec"]["template"]["metadata"]["labels"].items()
    ]
    assert matching == [NAME]


def test_the_notes_show_how_to_open_the_page(helm: Helm) -> None:
    command = "kubectl port-forward --namespace gputopo-system service/gputopo-web 8770:80"
    assert command in helm.notes(ON)
    for off in ({}, {"web": None}):
        assert "port-forward" not in helm.notes(off)


def test_wrong_host_names_are_rejected(helm: Helm) -> None:
    with pytest.raises(HelmError, match="allowedHosts"):
        helm.render({"web": {"enabled": True, "allowedHosts": ["https://gpus.example.com"]}})

"""The objects that the chart renders, with default and with other values."""

import re
from typing import Any

import pytest
import yaml

from support.chart_values import VALUE_SETS
from support.helm_chart import (
    CHART,
    Helm,
    HelmError,
    Object,
    container,
    containers_of,
    find,
    pod_of,
)
from support.rendered_chart import COMPONENTS, configuration, workloads


@pytest.mark.parametrize("values", VALUE_SETS)
def test_lint_finds_nothing(helm: Helm, values: str) -> None:
    sets = ("--values", str(helm.write(VALUE_SETS[values])))
    assert "0 chart(s) failed" in helm.run("lint", "--strict", str(CHART), *sets)


def test_no_object_is_rendered_twice(everything: list[Object]) -> None:
    names = [
        (each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"])
        for each in everything
    ]
    assert len(names) == len(set(names))


def test_every_object_but_the_crds_is_labelled(everything: list[Object]) -> None:
    for each in everything:
        if each["kind"] != "CustomResourceDefinition":
            labels = each["metadata"]["labels"]
            assert labels["app.kubernetes.io/part-of"] == "gputopo", each
            assert labels["app.kubernetes.io/instance"] == "gputopo"
            assert labels["app.kubernetes.io/managed-by"] == "Helm"


def test_selectors_match_the_pods_of_their_own_component_only(objects: list[Object]) -> None:
    for workload in workloads(objects):
        selector = workload["spec"]["selector"]["matchLabels"]
        matching = [
            each["metadata"]["name"]
            for each in workloads(objects)
            if selector.items() <= each["spec"]["template"]["metadata"]["labels"].items()
        ]
        assert matching == [workload["metadata"]["name"]]
        assert "app.kubernetes.io/version" not in selector, "an upgrade could not change it"


def test_crds_are_installed_and_stay_after_removal(helm: Helm, objects: list[Object]) -> None:
    definitions = [each for each in objects if each["kind"] == "CustomResourceDefinition"]
    files = {
        path.name: yaml.safe_load(path.read_text()) for path in (CHART / "../../crds").iterdir()
    }
    assert {f"{each['metadata']['name']}.yaml": each for each in definitions} == files
    for each in definitions:
        assert each["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    without = helm.render({"crds": {"install": False}})
    assert "CustomResourceDefinition" not in {each["kind"] for each in without}


def test_packaged_chart_contains_the_crds(helm: Helm, tmp_path: Any) -> None:
    helm.run("package", str(CHART), "--destination", str(tmp_path))
    (package,) = tmp_path.iterdir()
    cluster = ("--namespace", "gputopo-system", "--kube-version", "v1.36.2")
    rendered = helm.run("template", "gputopo", str(package), *cluster)
    assert rendered.count("kind: CustomResourceDefinition\n") == 4


def test_two_operators_never_run_at_the_same_time(objects: list[Object]) -> None:
    spec = find(objects, "Deployment", "gputopo-operator")["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


def test_no_container_has_a_capability_or_a_writable_root(objects: list[Object]) -> None:
    for workload in workloads(objects):
        for each in containers_of(workload):
            assert each["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
        assert pod_of(workload)["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}


def test_only_the_agent_is_root_and_sees_the_host(objects: list[Object]) -> None:
    for workload in workloads(objects):
        pod = pod_of(workload)
        host = [
            volume["hostPath"]["path"] for volume in pod.get("volumes", []) if "hostPath" in volume
        ]
        if workload["kind"] == "DaemonSet":
            assert pod["securityContext"]["runAsUser"] == 0
            assert len(host) == 6
        else:
            assert pod["securityContext"]["runAsNonRoot"] is True
            assert host == []
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()


def test_components_run_on_clusters_whose_nodes_all_have_gpu_taints(
    helm: Helm, objects: list[Object]
) -> None:
    taints = {("nvidia.com/gpu", "Exists"), ("gputopo.io/gpu", "Exists")}
    hook = find(helm.render(hooks=True), "Pod", "gputopo-test")
    pods = [pod_of(each) for each in workloads(objects) if each["kind"] == "Deployment"]
    for pod in [*pods, hook["spec"]]:
        assert taints == {
            (each["key"], each["operator"])
            for each in pod["tolerations"]
            if each["effect"] == "NoSchedule"
        }


def test_priority_classes_are_those_of_system_pods_and_can_be_left_out(
    helm: Helm, objects: list[Object]
) -> None:
    def classes(rendered: list[Object]) -> list[str | None]:
        return [pod_of(each).get("priorityClassName") for each in workloads(rendered)]

    critical = "system-cluster-critical"
    assert classes(objects) == [critical, critical, "system-node-critical"]
    components = ("operator", "scheduler", "devicePlugin")
    without = helm.render({each: {"priorityClassName": ""} for each in components})
    assert classes(without) == [None, None, None]


def test_every_container_has_probes_and_a_memory_limit(everything: list[Object]) -> None:
    for workload in workloads(everything):
        for each in containers_of(workload):
            ports = {port["name"] for port in each["ports"]}
            for probe in ("livenessProbe", "readinessProbe"):
                assert each[probe]["httpGet"]["port"] in ports
            assert {"cpu", "memory"} == each["resources"]["requests"].keys()
            assert "memory" in each["resources"]["limits"]


def test_queue_has_arguments_and_rights_only_if_it_is_on(helm: Helm) -> None:
    for order in ("", "SRTF"):
        objects = helm.render({"operator": {"queue": {"order": order, "maxSkipSeconds": 90}}})
        operator = container(find(objects, "Deployment", "gputopo-operator"), "operator")
        given = [each for each in operator["args"] if each.startswith("--queue")]
        rules = find(objects, "ClusterRole", "gputopo-operator")["rules"]
        may_read_classes = any("priorityclasses" in rule["resources"] for rule in rules)
        if order:
            assert given == ["--queue-order=SRTF", "--queue-max-skip-seconds=90"]
        else:
            assert given == []
        assert may_read_classes == bool(order)


def test_settings_of_sizing_reach_the_operator(helm: Helm) -> None:
    for mechanism, seconds in (("marginal", 300), ("tune", 60)):
        sizing = {"mechanism": mechanism, "roundSeconds": seconds}
        changed = {"operator": {"sizing": sizing}} if seconds == 60 else {}
        operator = find(helm.render(changed), "Deployment", "gputopo-operator")
        given = [each for each in container(operator, "operator")["args"] if "sizing" in each]
        assert given == [f"--sizing-mechanism={mechanism}", f"--sizing-round-seconds={seconds}"]


@pytest.mark.parametrize(
    ("older", "complete"),
    [
        ({"operator": {"queue": None, "sizing": None}, "devicePlugin": {"numa": None}}, {}),
        (
            {
                "serviceMonitor": None,
                "monitoring": None,
                "helmTest": None,
                "allowDefaultNamespace": None,
            },
            {},
        ),
        (
            {
                "operator": {
                    "queue": {"order": "SRTF", "maxSkipSeconds": None},
                    "sizing": {"mechanism": None},
                }
            },
            {"operator": {"queue": {"order": "SRTF"}}},
        ),
    ],
    ids=["no sections", "no monitors and no test", "sections without some values"],
)
def test_values_of_an_older_release_get_the_defaults_of_missing_values(
    helm: Helm, older: dict[str, Any], complete: dict[str, Any]
) -> None:
    # Helm removes values that are null. With --reuse-values, new values are missing in this way.
    for hooks in (False, True):
        assert helm.render(older, hooks=hooks) == helm.render(complete, hooks=hooks)


def test_resource_and_scheduler_name_reach_everything_that_needs_them(
    everything: list[Object],
) -> None:
    operator = container(find(everything, "Deployment", "gputopo-operator"), "operator")
    extender = container(find(everything, "Deployment", "gputopo-scheduler"), "extender")
    agent = container(find(everything, "DaemonSet", "gputopo-deviceplugin"), "deviceplugin")
    for each in (operator, extender, agent):
        assert "--resource=example.com/gpu" in each["args"]
    assert "--scheduler-name=links" in operator["args"]
    assert {"--default-policy=TopoAware", "--offer-one-above=0"} <= set(extender["args"])
    assert "--competing-resources=nvidia.com/gpu,amd.com/*" in agent["args"]
    assert "--competing-drivers=gpu.nvidia.com,gpu.example.com" in agent["args"]

    scheduler = configuration(everything)
    assert scheduler["profiles"][0]["schedulerName"] == "links"
    assert scheduler["extenders"][0]["managedResources"] == [
        {"name": "example.com/gpu", "ignoredByScheduler": False},
        {"name": "example.com/gpu-share", "ignoredByScheduler": False},
    ]
    policy = str(find(everything, "ValidatingAdmissionPolicy", "gputopo-scheduler-name")["spec"])
    assert "gputopo.io/gpu" not in policy
    assert "example.com/gpu" in policy
    assert "['links','kueue-links']" in policy
    policy = str(find(everything, "ValidatingAdmissionPolicy", "gputopo-environment")["spec"])
    assert "gputopo.io/gpu" not in policy
    assert "example.com/gpu" in policy


def test_cluster_that_is_too_old_is_rejected(helm: Helm) -> None:
    with pytest.raises(HelmError, match=re.escape("requires kubeVersion: >=1.31.0-0")):
        helm.render(kubernetes="v1.30.9")


def test_images_follow_the_values(everything: list[Object], objects: list[Object]) -> None:
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    operator = ("Deployment", "gputopo-operator")
    assert container(find(objects, *operator), "operator")["image"] == (
        f"localhost/gputopo-operator:{version}"
    )
    assert container(find(everything, *operator), "operator")["image"].endswith(":v2")
    scheduler = find(everything, "Deployment", "gputopo-scheduler")
    assert container(scheduler, "kube-scheduler")["image"] == "localhost/kube-scheduler:v9.9.9"
    assert pod_of(scheduler)["imagePullSecrets"] == [{"name": "registry"}]
    assert pod_of(scheduler)["nodeSelector"] == {"role": "control", "kubernetes.io/os": "linux"}


def test_digest_of_an_image_replaces_its_tag(helm: Helm) -> None:
    digest = "sha256:" + "0123456789abcdef" * 4
    with_digest = {"image": {"digest": digest, "tag": "ignored"}}
    names = ("operator", "scheduler", "extender", "devicePlugin", "mps", "web")
    values: dict[str, Any] = {name: dict(with_digest) for name in names}
    values["web"]["enabled"] = True
    values["sharing"] = {"enabled": True}
    for hooks, number in ((False, 6), (True, 1)):
        text = yaml.safe_dump_all(helm.render(values, hooks=hooks))
        images = re.findall(r"\bimage: (\S+)\n", text)
        assert len(images) == number
        assert all(re.fullmatch(rf"[\w./-]+@{digest}", image) for image in images)


def test_names_of_services_are_short_enough_with_the_longest_name(helm: Helm) -> None:
    values = {
        "fullnameOverride": "a" * 48,
        "serviceMonitor": {"enabled": True},
        "sharing": {"enabled": True},
        "web": {"enabled": True},
    }
    rendered = helm.render(values)
    services = [each["metadata"]["name"] for each in rendered if each["kind"] == "Service"]
    assert len(set(services)) == 5
    assert max(len(name) for name in services) == 63
    assert {name.removeprefix("a" * 48).split("-")[1] for name in services} == {
        *("operator", "scheduler", "deviceplugin", "mps", "web")
    }


def test_agents_of_a_tenth_of_the_nodes_may_be_down_at_once(helm: Helm) -> None:
    for values, expected in (({}, "10%"), ({"devicePlugin": {"maxUnavailable": 3}}, 3)):
        rendered = helm.render({**values, "sharing": {"enabled": True}})
        for name in ("gputopo-deviceplugin", "gputopo-mps"):
            update = find(rendered, "DaemonSet", name)["spec"]["updateStrategy"]
            assert update["rollingUpdate"] == {"maxUnavailable": expected}


def test_operator_leaves_a_failed_node_after_half_a_minute(objects: list[Object]) -> None:
    tolerations = pod_of(find(objects, "Deployment", "gputopo-operator"))["tolerations"]
    seconds = {each["key"]: each.get("tolerationSeconds") for each in tolerations}
    assert seconds["node.kubernetes.io/not-ready"] == 30
    assert seconds["node.kubernetes.io/unreachable"] == 30


def test_no_rule_allows_everything(everything: list[Object]) -> None:
    roles = [each for each in everything if each["kind"] in {"ClusterRole", "Role"}]
    assert len(roles) == 11
    for role in roles:
        for rule in role["rules"]:
            for words in (rule["apiGroups"], rule["resources"], rule["verbs"]):
                assert "*" not in words, role["metadata"]["name"]
            assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"])
            assert "secrets" not in rule["resources"]


def test_only_the_extender_binds_pods_and_only_the_operator_resizes_them(
    everything: list[Object],
) -> None:
    writing = {"create", "update", "patch", "delete", "deletecollection"}
    writers = {
        (role["metadata"]["name"], resource)
        for role in everything
        if role["kind"] == "ClusterRole"
        for rule in role["rules"]
        for resource in rule["resources"]
        if resource.startswith("pods") and writing & set(rule["verbs"])
    }
    both = ("gputopo-extender", "gputopo-kube-scheduler")
    assert writers == {
        *((role, subresource) for role in both for subresource in ("pods/binding", "pods/status")),
        # The victims of preemption.
        ("gputopo-kube-scheduler", "pods"),
        # Measurements with several numbers of CPUs; the original CPUs are kept in an annotation.
        ("gputopo-operator", "pods/status"),
        ("gputopo-operator", "pods/resize"),
        # The last pod of a shared GPU, if sharing does not pay and the pod allows it.
        ("gputopo-operator", "pods/eviction"),
    }


def test_monitors_and_network_policies_are_optional(
    objects: list[Object], everything: list[Object]
) -> None:
    kinds = {"PodMonitor": [], "NetworkPolicy": ["gputopo-test", "gputopo-web"]}
    assert not kinds.keys() & {each["kind"] for each in objects}
    for kind, more in kinds.items():
        names = [each["metadata"]["name"] for each in everything if each["kind"] == kind]
        expected = [*(name for _, name in COMPONENTS.values()), "gputopo-mps", *more]
        assert sorted(names) == sorted(expected)
    for component, (workload_kind, name) in COMPONENTS.items():
        monitor = find(everything, "PodMonitor", name)
        assert monitor["metadata"]["labels"]["release"] == "prometheus"
        workload = find(everything, workload_kind, name)
        labels = workload["spec"]["template"]["metadata"]["labels"]
        assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items(), component
        opened = {
            port["port"]
            for rule in find(everything, "NetworkPolicy", name)["spec"]["ingress"]
            for port in rule["ports"]
        }
        served = {
            port["containerPort"] for each in containers_of(workload) for port in each["ports"]
        }
        assert opened == served


def test_service_monitors_select_services_that_select_the_pods_of_one_component(
    helm: Helm, objects: list[Object], everything: list[Object]
) -> None:
    assert not {"Service", "ServiceMonitor"} & {each["kind"] for each in objects}
    labels = {"release": "prometheus"}
    rendered = helm.render({"serviceMonitor": {"enabled": True, "labels": labels}})
    for kind, name in COMPONENTS.values():
        monitor = find(rendered, "ServiceMonitor", name)
        assert monitor["metadata"]["labels"]["release"] == "prometheus"
        service = find(rendered, "Service", f"{name}-metrics")
        selector = monitor["spec"]["selector"]["matchLabels"].items()
        assert selector <= service["metadata"]["labels"].items()
        workload = find(rendered, kind, name)
        pod_labels = workload["spec"]["template"]["metadata"]["labels"]
        assert service["spec"]["selector"].items() <= pod_labels.items()
        metrics = {
            port["containerPort"]
            for each in containers_of(workload)
            for port in each["ports"]
            if port["name"] == "metrics"
        }
        (port,) = service["spec"]["ports"]
        (endpoint,) = monitor["spec"]["endpoints"]
        assert ({port["targetPort"]}, port["name"]) == (metrics, endpoint["port"])
        assert service["spec"]["clusterIP"] == "None"
        of_pods, *_ = find(everything, "PodMonitor", name)["spec"]["podMetricsEndpoints"]
        assert endpoint == of_pods, "the rules and the dashboard work with both"


def test_policies_and_user_roles_are_optional_and_their_absence_is_a_warning(helm: Helm) -> None:
    values = {"admissionPolicies": {"enabled": False}, "rbac": {"aggregate": False}}
    rendered = helm.render(values)
    assert not any("AdmissionPolicy" in each["kind"] for each in rendered)
    assert not any(each["metadata"]["name"].endswith(("-view", "-edit")) for each in rendered)
    assert "WARNING: the admission policies are off" in helm.notes(values)
    assert "WARNING" not in helm.notes()


def test_topologies_have_a_role_of_their_own_because_they_have_no_namespace(
    helm: Helm, objects: list[Object]
) -> None:
    label = "rbac.authorization.k8s.io/aggregate-to-view"
    reader = find(objects, "ClusterRole", "gputopo-topology-reader")
    view = find(objects, "ClusterRole", "gputopo-view")
    assert reader["metadata"]["labels"][label] == view["metadata"]["labels"][label] == "true"
    assert [rule["resources"] for rule in reader["rules"]] == [["gputopologies"]]
    assert "gputopologies" not in view["rules"][0]["resources"]
    alone = find(
        helm.render({"rbac": {"aggregate": False}}), "ClusterRole", "gputopo-topology-reader"
    )
    assert label not in alone["metadata"]["labels"]
    assert alone["rules"] == reader["rules"]


def test_policies_that_change_pods_need_a_cluster_that_serves_them(helm: Helm) -> None:
    served = ["admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"]
    label, facts, sharing = "gputopo-tuned-label", "gputopo-facts", "gputopo-sharing"
    for values, cluster, rendered in (
        ({}, served, [facts, label]),
        ({}, [], []),
        ({"facts": {"enabled": False}}, served, [label]),
        ({"enabled": False}, served, []),
    ):
        for shares in (False, True):
            objects = helm.render(
                {"admissionPolicies": values, "sharing": {"enabled": shares}}, served=cluster
            )
            expected = sorted([*rendered, *([sharing] if shares and rendered else [])])
            for kind in ("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"):
                names = [each["metadata"]["name"] for each in objects if each["kind"] == kind]
                assert sorted(names) == expected, values


def test_a_release_of_another_name_names_its_objects_and_accounts_after_it(helm: Helm) -> None:
    rendered = helm.render({"fullnameOverride": "links"})
    policy = find(rendered, "ValidatingAdmissionPolicy", "links-pod-fields")
    expressions = " ".join(each["expression"] for each in policy["spec"]["variables"])
    for account in ("links-extender", "links-operator"):
        assert f"'system:serviceaccount:gputopo-system:{account}'" in expressions
    assert pod_of(find(rendered, "Deployment", "links-scheduler"))["serviceAccountName"] == (
        "links-extender"
    )
    election = configuration(rendered, "links")["leaderElection"]
    assert election["resourceName"] == "links-scheduler"


def test_the_environment_policy_can_warn_while_manifests_are_corrected(
    helm: Helm, objects: list[Object]
) -> None:
    name = "gputopo-environment"
    kind = "ValidatingAdmissionPolicyBinding"
    assert find(objects, kind, name)["spec"]["validationActions"] == ["Deny"]
    values = {"admissionPolicies": {"environmentActions": ["Warn", "Audit"]}}
    rendered = find(helm.render(values), kind, name)
    assert rendered["spec"]["validationActions"] == ["Warn", "Audit"]

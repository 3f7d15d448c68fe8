"""The Deployment of the scheduler and the extender that the chart renders."""

import pytest

from support.helm_chart import Helm, Object, container, find, pod_of
from support.rendered_chart import configuration


def test_second_scheduler_runs_on_another_node_and_is_not_drained_with_the_first(
    helm: Helm, objects: list[Object]
) -> None:
    scheduler = find(objects, "Deployment", "gputopo-scheduler")
    labels = scheduler["spec"]["selector"]["matchLabels"]
    assert scheduler["spec"]["replicas"] == 2
    assert scheduler["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    (spread,) = pod_of(scheduler)["topologySpreadConstraints"]
    assert spread["whenUnsatisfiable"] == "ScheduleAnyway", "one node is enough for both"
    assert spread["labelSelector"]["matchLabels"] == labels
    budget = find(objects, "PodDisruptionBudget", "gputopo-scheduler")["spec"]
    assert budget == {
        "maxUnavailable": 1,
        # Otherwise two pods that both crash would block the drain of their nodes for ever.
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": labels},
    }

    alone = helm.render({"scheduler": {"replicas": 1}})
    assert find(alone, "Deployment", "gputopo-scheduler")["spec"]["replicas"] == 1
    kinds = {each["kind"] for each in alone}
    assert "PodDisruptionBudget" not in kinds, "its node could not be drained"


def test_the_extender_keeps_its_claims_in_the_namespace_of_the_release(
    objects: list[Object],
) -> None:
    extender = container(find(objects, "Deployment", "gputopo-scheduler"), "extender")
    assert "--namespace=gputopo-system" in extender["args"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, ["600", "60"]),
        ({"relistSeconds": None, "relistAfterSilenceSeconds": None}, ["600", "60"]),
        ({"relistSeconds": 3600, "relistAfterSilenceSeconds": 30}, ["3600", "30"]),
    ],
    ids=["defaults", "a release without these values", "own values"],
)
def test_extender_lists_again_as_often_as_the_values_say(
    helm: Helm, values: Object, expected: list[str]
) -> None:
    rendered = helm.render({"extender": values})
    arguments = container(find(rendered, "Deployment", "gputopo-scheduler"), "extender")["args"]
    flags = ("--relist-every-seconds=", "--relist-after-silence-seconds=")
    assert [
        each.removeprefix(flag) for flag in flags for each in arguments if each.startswith(flag)
    ] == expected


def test_extender_has_the_name_of_its_pod_and_of_the_lease_of_the_leader(
    helm: Helm,
) -> None:
    election = {"leaseSeconds": 20, "renewSeconds": 15, "handoverSeconds": 30}
    rendered = helm.render({"scheduler": {"leaderElection": election}, "fullnameOverride": "links"})
    extender = container(find(rendered, "Deployment", "links-scheduler"), "extender")
    assert {
        "--pod=$(POD_NAME)",
        "--scheduler-lease=links-scheduler",
        "--handover-after-seconds=30",
        # The former leader gives up after renewSeconds; no other may lead before.
        "--lease-blocked-seconds=16",
    } <= set(extender["args"])
    [name] = extender["env"]
    assert name["name"] == "POD_NAME"
    assert name["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}
    # What the extender looks for in the status of the pods.
    (sidecar,) = pod_of(find(rendered, "Deployment", "links-scheduler"))["initContainers"]
    assert sidecar["name"] == "extender"


def test_kube_scheduler_starts_after_its_extender_is_ready_and_ends_before_it(
    objects: list[Object],
) -> None:
    pod = pod_of(find(objects, "Deployment", "gputopo-scheduler"))
    (extender,) = pod["initContainers"]
    assert extender["restartPolicy"] == "Always", "a sidecar"
    assert extender["startupProbe"]["httpGet"] == extender["readinessProbe"]["httpGet"]
    assert [each["name"] for each in pod["containers"]] == ["kube-scheduler"]


def test_scheduler_calls_the_extender_and_ignores_none_of_its_errors(objects: list[Object]) -> None:
    (extender,) = configuration(objects)["extenders"]
    assert extender == {
        "urlPrefix": "http://127.0.0.1:8888",
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "bindVerb": "bind",
        "preemptVerb": "preempt",
        "weight": 20,
        "httpTimeout": "5s",
        "nodeCacheCapable": True,
        "ignorable": False,
        "managedResources": [{"name": "gputopo.io/gpu", "ignoredByScheduler": False}],
    }


def test_one_step_of_the_extender_outweighs_the_other_score_plugins(
    objects: list[Object],
) -> None:
    scheduler = configuration(objects)
    # MostAllocated on our resource is the one built-in score that speaks without the pod's asking:
    # weight 1, 0 to 100. A step of the extender is 10 times its weight.
    most_allocated_at_most = 100
    assert scheduler["extenders"][0]["weight"] * 10 > most_allocated_at_most
    profile = scheduler["profiles"][0]
    assert {each["name"] for each in profile["plugins"]["score"]["disabled"]} == {
        "NodeResourcesBalancedAllocation",
        "ImageLocality",
    }
    arguments = {each["name"]: each["args"] for each in profile["pluginConfig"]}
    assert arguments["NodeResourcesFit"]["scoringStrategy"]["type"] == "MostAllocated"
    assert arguments["PodTopologySpread"] == {"defaultingType": "List", "defaultConstraints": []}
    assert scheduler["percentageOfNodesToScore"] == 100


def test_the_scheduler_has_a_lease_of_its_own(objects: list[Object]) -> None:
    election = configuration(objects)["leaderElection"]
    assert election == {
        "leaderElect": True,
        "leaseDuration": "10s",
        "renewDeadline": "6s",
        "retryPeriod": "1s",
        "resourceName": "gputopo-scheduler",
        "resourceNamespace": "gputopo-system",
    }
    rules = find(objects, "Role", "gputopo-scheduler-leases")["rules"]
    assert rules[1]["resourceNames"] == ["gputopo-scheduler"]


def test_a_changed_configuration_restarts_the_scheduler(helm: Helm, objects: list[Object]) -> None:
    def checksum(rendered: list[Object]) -> str:
        template = find(rendered, "Deployment", "gputopo-scheduler")["spec"]["template"]
        return str(template["metadata"]["annotations"]["checksum/config"])

    assert checksum(helm.render()) == checksum(objects)
    assert checksum(helm.render({"scheduler": {"extenderWeight": 30}})) != checksum(objects)


@pytest.mark.parametrize(
    ("kubernetes", "tag"), [("v1.36.2", "v1.36.2"), ("v1.33.4-gke.1055000", "v1.33.4")]
)
def test_kube_scheduler_has_the_clusters_version(helm: Helm, kubernetes: str, tag: str) -> None:
    rendered = helm.render(kubernetes=kubernetes)
    scheduler = container(find(rendered, "Deployment", "gputopo-scheduler"), "kube-scheduler")
    assert scheduler["image"] == f"registry.k8s.io/kube-scheduler:{tag}"


def test_weights_of_the_policy_utility_are_passed_to_the_extender(
    helm: Helm, objects: list[Object]
) -> None:
    weights = {"communication": 50, "interference": 40, "fragmentation": 10}
    changed = helm.render({"extender": {"utilityWeights": weights}})
    # Values of an older release have no weights (helm upgrade --reuse-values).
    older = helm.render({"extender": {"utilityWeights": None}})
    for rendered, expected in (
        (objects, ["--utility-weights=34,33,33"]),
        (changed, ["--utility-weights=50,40,10"]),
        (older, ["--utility-weights=34,33,33"]),
    ):
        extender = container(find(rendered, "Deployment", "gputopo-scheduler"), "extender")
        found = [each for each in extender["args"] if each.startswith("--utility-weights")]
        assert found == expected


def test_nominations_need_a_value_and_only_then_the_right_to_watch_nodes(
    helm: Helm, objects: list[Object]
) -> None:
    nominating = helm.render({"schedulerName": "links", "extender": {"nominateAbove": 50}})
    flags = {"--nominate-above=50", "--scheduler-name=links"}
    for found, is_on in ((objects, False), (nominating, True)):
        extender = container(find(found, "Deployment", "gputopo-scheduler"), "extender")
        assert (flags <= {*extender["args"]}) is is_on
        assert any(arg.startswith("--nominate-above") for arg in extender["args"]) is is_on
        rules = find(found, "ClusterRole", "gputopo-extender")["rules"]
        assert any("nodes" in rule["resources"] for rule in rules) is is_on

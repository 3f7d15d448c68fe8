"""``gputopo doctor`` finds problems of kube-scheduler's configuration."""

import pytest

from gputopo_cli.cluster.doctor.configuration import parse_duration
from support.api.static import Document, StaticApi
from support.cli.broken_cluster import (
    OPERATOR,
    SCHEDULER,
    Break,
    change,
    configuration,
    configured,
    findings,
    profiles,
    remove,
    todo,
)
from support.cli.command_line import Command
from support.cli.healthy_cluster import CONFIG_MAPS, CONFIGURATION, DEPLOYMENTS, PODS

MAP = "ConfigMap gputopo-system/gputopo-scheduler"
RESTART = "kubectl -n gputopo-system rollout restart deployment/gputopo-scheduler"
UPGRADE = "helm upgrade --reset-then-reuse-values gputopo charts/gputopo -n gputopo-system"
NOT_LOOKED_AT = ": with 100 or more nodes, the node with the best links may not be considered"
HOLDS_UP = (
    ": the extender needs up to 3 s, and all pods wait while kube-scheduler waits for an extender"
    " that does not respond"
)
NO_YAML = (
    "while parsing a flow node expected the node content, but found '<stream end>' in "
    '"<unicode string>", line 2, column 1: ^'
)


@pytest.mark.parametrize(
    ("break_", "severity", "problem", "wanted"),
    [
        (
            configured(ignorable=True),
            "error",
            "ignorable is true: if the extender fails, pods are bound without GPUs",
            "ignorable: false",
        ),
        (
            configured(nodeCacheCapable=False),
            "warning",
            "nodeCacheCapable is false, so every request contains all Node objects",
            "nodeCacheCapable: true",
        ),
        (
            configured(managedResources=[{"name": "gputopo.io/gpu", "ignoredByScheduler": True}]),
            "error",
            "ignoredByScheduler is true: kube-scheduler ignores how many gputopo.io/gpu a node has",
            "ignoredByScheduler: false",
        ),
        (
            configured(managedResources=[{"name": "nvidia.com/gpu"}]),
            "error",
            "no extender has gputopo.io/gpu in managedResources, so no GPUs are chosen",
            "managedResources: [{name: gputopo.io/gpu}] in extenders",
        ),
        (
            configuration({**CONFIGURATION, "extenders": []}),
            "error",
            "no extender has gputopo.io/gpu in managedResources, so no GPUs are chosen",
            "managedResources: [{name: gputopo.io/gpu}] in extenders",
        ),
        (configured(bindVerb=""), "error", "bindVerb is missing", "bindVerb: bind"),
        (
            configured(preemptVerb=""),
            "warning",
            "preemptVerb is missing: preemption may choose a node whose GPUs do not suit the pod",
            "preemptVerb: preempt",
        ),
        (
            profiles({"schedulerName": "other"}),
            "error",
            "no profile has the name gputopo, which GPUJobs use, so their pods stay Pending",
            "schedulerName: gputopo in profiles",
        ),
        (
            profiles(),
            "error",
            "no profile has the name gputopo, which GPUJobs use, so their pods stay Pending",
            "schedulerName: gputopo in profiles",
        ),
        (
            profiles({"schedulerName": "gputopo", "percentageOfNodesToScore": 50}),
            "warning",
            f"percentageOfNodesToScore of gputopo is 50{NOT_LOOKED_AT}",
            "percentageOfNodesToScore: 100",
        ),
        (
            profiles({"schedulerName": "gputopo"}, percentageOfNodesToScore=0),
            "warning",
            f"percentageOfNodesToScore of gputopo is 0{NOT_LOOKED_AT}",
            "percentageOfNodesToScore: 100",
        ),
        *(
            (
                configured(httpTimeout=timeout),
                "warning",
                f"httpTimeout is {timeout}{HOLDS_UP}",
                "httpTimeout: 5s",
            )
            for timeout in ("3s", "6s", "1m5s", "5", "")
        ),
    ],
)
def test_bad_configuration_is_reported_with_the_right_setting(
    api: StaticApi, gputopo: Command, break_: Break, severity: str, problem: str, wanted: str
) -> None:
    break_(api)
    assert findings(gputopo) == [("scheduler", severity, MAP, problem)]
    edit = "kubectl -n gputopo-system edit configmap gputopo-scheduler"
    assert todo(gputopo) == f"{edit}: set {wanted}; then {RESTART}"


@pytest.mark.parametrize("timeout", ["4s", "5s", "4500ms", "0.001h1s"])
def test_suitable_timeout_is_accepted(api: StaticApi, gputopo: Command, timeout: str) -> None:
    configured(httpTimeout=timeout)(api)
    assert findings(gputopo) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1m30s", 90),
        ("1.5h", 5400),
        (".5ms", 0.0005),
        ("2us3ns", 2.003e-6),
        ("5", None),
        ("", None),
    ],
)
def test_durations_have_the_format_of_go(text: str, found: float | None) -> None:
    assert parse_duration(text) == (None if found is None else pytest.approx(found))


def test_percentage_of_a_profile_overrides_the_common_one(api: StaticApi, gputopo: Command) -> None:
    profile = {"schedulerName": "gputopo", "percentageOfNodesToScore": 100}
    profiles(profile, percentageOfNodesToScore=5)(api)
    assert findings(gputopo) == []


def test_unknown_scheduler_name_is_not_checked(api: StaticApi, gputopo: Command) -> None:
    change(DEPLOYMENTS, OPERATOR, "spec", "template", "spec", "containers", "0", args=None)(api)
    profiles({"schedulerName": "other"})(api)
    assert findings(gputopo) == []


@pytest.mark.parametrize(
    ("break_", "problem"),
    [
        (remove(CONFIG_MAPS, 0), "does not exist"),
        (change(CONFIG_MAPS, 0, "metadata", namespace="other"), "does not exist"),
        (
            change(CONFIG_MAPS, 0, data={"config.yaml": "a: [\n"}),
            f"config.yaml: is not YAML: {NO_YAML}",
        ),
        (
            change(CONFIG_MAPS, 0, data={"config.yaml": "a: 2026-99-99"}),
            "config.yaml: is not YAML: month must be in 1..12",
        ),
        (
            change(CONFIG_MAPS, 0, data={"config.yaml": "[" * 999}),
            "config.yaml: is nested too deeply",
        ),
        (
            change(CONFIG_MAPS, 0, data={"config.yaml": "extenders: yes"}),
            "config.yaml.extenders: True: Input should be a valid list",
        ),
        (
            change(CONFIG_MAPS, 0, data=None),
            "config.yaml: None: Input should be a valid dictionary or instance of SchedulerConfiguration",  # noqa: E501
        ),
    ],
)
def test_invalid_configuration_is_an_error(
    api: StaticApi, gputopo: Command, break_: Break, problem: str
) -> None:
    break_(api)
    assert findings(gputopo) == [("scheduler", "error", MAP, problem)]
    delete = "kubectl -n gputopo-system delete --ignore-not-found configmap gputopo-scheduler"
    assert todo(gputopo) == f"{delete} && {UPGRADE} && {RESTART}"


def test_configuration_that_changed_after_the_schedulers_start_is_an_error(
    api: StaticApi, gputopo: Command
) -> None:
    change(CONFIG_MAPS, 0, "metadata", managedFields=[{}, {"time": "2026-01-02T00:00:01Z"}])(api)
    problem = (
        f"kube-scheduler reads its configuration only at its start, and {MAP} was changed later"
    )
    where = "Pod gputopo-system/gputopo-scheduler-n1"
    assert findings(gputopo) == [("scheduler", "error", where, problem)]
    assert todo(gputopo) == RESTART


def test_configuration_without_a_time_of_change_is_current(
    api: StaticApi, gputopo: Command
) -> None:
    change(CONFIG_MAPS, 0, "metadata", managedFields=None)(api)
    assert findings(gputopo) == []


@pytest.mark.parametrize(
    "status",
    [{}, {"containerStatuses": [{"name": "kube-scheduler", "state": {"waiting": {}}}]}],
)
def test_scheduler_that_has_not_started_has_no_old_configuration(
    api: StaticApi, gputopo: Command, status: Document
) -> None:
    change(CONFIG_MAPS, 0, "metadata", managedFields=None)(api)
    next(pod for pod in api.lists[PODS] if "scheduler" in pod["metadata"]["name"])["status"] = (
        status
    )
    assert findings(gputopo) == []


@pytest.mark.parametrize(
    "break_",
    [
        change(DEPLOYMENTS, SCHEDULER, "spec", "template", "spec", volumes=None),
        change(
            DEPLOYMENTS, SCHEDULER, "spec", "template", "spec", "containers", "0", volumeMounts=None
        ),
        change(DEPLOYMENTS, SCHEDULER, "spec", "template", "spec", "containers", "0", command=None),
        change(DEPLOYMENTS, SCHEDULER, "spec", "template", "spec", "containers", "0", name="x"),
    ],
)
def test_scheduler_without_a_configuration_source_is_not_checked(
    api: StaticApi, gputopo: Command, break_: Break
) -> None:
    break_(api)
    document = gputopo("doctor -o json").document
    (check,) = [each for each in document["checks"] if each["result"] != "ok"]
    assert (check["check"], check["result"]) == ("scheduler", "not checked")
    assert check["notChecked"] == "no Deployment of gputopo runs kube-scheduler with a ConfigMap"

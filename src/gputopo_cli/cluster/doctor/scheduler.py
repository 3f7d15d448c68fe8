"""Check the configuration of kube-scheduler."""

from collections.abc import Iterator
from typing import Final, TypeAlias

from gputopo.api.shares import share_resource
from gputopo_cli.cluster.doctor import installed
from gputopo_cli.cluster.doctor.configuration import (
    CONTAINER,
    ConfigurationError,
    ExtenderEntry,
    SchedulerConfiguration,
    find_configuration,
    parse_configuration,
    parse_duration,
)
from gputopo_cli.cluster.doctor.model import (
    CheckedCluster,
    Finding,
    ObjectKind,
    Severity,
    error,
    object_name,
)
from gputopo_kube.document import Document

_MIN_TIMEOUT_S: Final = 4  # the extender itself needs up to 3 s
_MAX_TIMEOUT_S: Final = 5
_ALL_NODES: Final = 100  # per cent

_Problem: TypeAlias = tuple[Severity, str, str]
"""Severity, problem, and the right setting."""


def check_scheduler(snapshot: CheckedCluster) -> Iterator[Finding]:
    """Yield the problems in the configuration of the running kube-scheduler."""
    source = find_configuration(snapshot)
    name = f"ConfigMap {source.namespace}/{source.config_map}"
    deployment = source.deployment["metadata"]["name"]
    restart = f"kubectl -n {source.namespace} rollout restart deployment/{deployment}"
    try:
        config_map = source.find_config_map(snapshot)
        config = parse_configuration(config_map, source.key)
    except ConfigurationError as invalid:
        delete = (
            f"kubectl -n {source.namespace} delete --ignore-not-found configmap {source.config_map}"
        )
        upgrade = installed.upgrade(snapshot)
        yield error(name, str(invalid), f"{delete} && {upgrade} && {restart}")
        return
    edit = f"kubectl -n {source.namespace} edit configmap {source.config_map}"
    for severity, problem, wanted in _problems(config, snapshot):
        yield Finding(severity, name, problem, f"{edit}: set {wanted}; then {restart}")
    for pod in _older_pods(snapshot, config_map):
        problem = (
            f"{CONTAINER} reads its configuration only at its start, and {name} was changed later"
        )
        yield error(object_name("Pod", pod), problem, restart)


def _problems(config: SchedulerConfiguration, snapshot: CheckedCluster) -> Iterator[_Problem]:
    resource = installed.gpu_resource(snapshot)
    yield from _profiles(config, installed.scheduler_name(snapshot))
    extender = next((each for each in config.extenders if _manages(each, resource)), None)
    if extender is None:
        problem = f"no extender has {resource} in managedResources, so no GPUs are chosen"
        yield Severity.ERROR, problem, f"managedResources: [{{name: {resource}}}] in extenders"
    else:
        yield from _extender(extender, resource)
        if installed.shares_gpus(snapshot) and not _manages(extender, share_resource(resource)):
            name = share_resource(resource)
            problem = f"no extender has {name} in managedResources, so sharing pods get no GPUs"
            yield Severity.ERROR, problem, f"managedResources: [{{name: {name}}}] beside {resource}"


def _profiles(config: SchedulerConfiguration, wanted: str) -> Iterator[_Problem]:
    names = [profile.scheduler_name for profile in config.profiles] or ["default-scheduler"]
    if wanted and wanted not in names:
        problem = f"no profile has the name {wanted}, which GPUJobs use, so their pods stay Pending"
        yield Severity.ERROR, problem, f"schedulerName: {wanted} in profiles"
    for profile in config.profiles:
        percentage = profile.percentage_of_nodes_to_score
        if percentage is None:
            percentage = config.percentage_of_nodes_to_score
        if percentage != _ALL_NODES:
            problem = (
                f"percentageOfNodesToScore of {profile.scheduler_name} is {percentage}: with 100 "
                "or more nodes, the node with the best links may not be considered"
            )
            yield Severity.WARNING, problem, f"percentageOfNodesToScore: {_ALL_NODES}"


def _extender(extender: ExtenderEntry, resource: str) -> Iterator[_Problem]:
    verbs = {
        "filterVerb": extender.filter_verb,
        "prioritizeVerb": extender.prioritize_verb,
        "bindVerb": extender.bind_verb,
    }
    for name, verb in verbs.items():
        if not verb:
            yield Severity.ERROR, f"{name} is missing", f"{name}: {name.removesuffix('Verb')}"
    if not extender.preempt_verb:
        problem = (
            "preemptVerb is missing: preemption may choose a node whose GPUs do not suit the pod"
        )
        yield Severity.WARNING, problem, "preemptVerb: preempt"
    if extender.ignorable:
        problem = "ignorable is true: if the extender fails, pods are bound without GPUs"
        yield Severity.ERROR, problem, "ignorable: false"
    managed = [each for each in extender.managed_resources if each.name == resource]
    if any(each.ignored_by_scheduler for each in managed):
        problem = (
            f"ignoredByScheduler is true: kube-scheduler ignores how many {resource} a node has"
        )
        yield Severity.ERROR, problem, "ignoredByScheduler: false"
    yield from _speed_problems(extender)


def _speed_problems(extender: ExtenderEntry) -> Iterator[_Problem]:
    if not extender.node_cache_capable:
        problem = "nodeCacheCapable is false, so every request contains all Node objects"
        yield Severity.WARNING, problem, "nodeCacheCapable: true"
    timeout = parse_duration(extender.http_timeout)
    if timeout is None or not _MIN_TIMEOUT_S <= timeout <= _MAX_TIMEOUT_S:
        problem = (
            f"httpTimeout is {extender.http_timeout}: the extender needs up to 3 s, and all pods "
            "wait while kube-scheduler waits for an extender that does not respond"
        )
        yield Severity.WARNING, problem, f"httpTimeout: {_MAX_TIMEOUT_S}s"


def _manages(extender: ExtenderEntry, resource: str) -> bool:
    return any(managed.name == resource for managed in extender.managed_resources)


def _older_pods(snapshot: CheckedCluster, config_map: Document) -> Iterator[Document]:
    """Yield pods of the scheduler that started before its ConfigMap was last changed."""
    changed = max(
        (entry.get("time", "") for entry in config_map["metadata"].get("managedFields") or ()),
        default="",
    )
    for pod in installed.find_parts(snapshot, ObjectKind.PODS, "scheduler"):
        statuses = (pod.get("status") or {}).get("containerStatuses") or ()
        for status in statuses:
            running = (status.get("state") or {}).get("running") or {}
            # RFC 3339 in UTC with whole seconds: the order of texts is the order of times.
            if status["name"] == CONTAINER and "" < running.get("startedAt", "") < changed:
                yield pod

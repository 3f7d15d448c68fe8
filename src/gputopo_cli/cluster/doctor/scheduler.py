"""Check of the scheduler's configuration: what would place pods badly or not at all."""

from collections.abc import Iterator
from typing import Final

from gputopo_cli.cluster.doctor import installed
from gputopo_cli.cluster.doctor.configuration import (
    CONTAINER,
    Configuration,
    ConfigurationError,
    Extender,
    configuration,
    mounted,
    seconds,
)
from gputopo_cli.cluster.doctor.model import Finding, Kind, Severity, Snapshot, error, titled
from gputopo_kube.document import Document

_LEAST_TIMEOUT_S: Final = 4
"""The extender itself gives a pod up after 3 s, to be tried again."""
_MOST_TIMEOUT_S: Final = 5
_WHOLE: Final = 100

_Wrong = tuple[Severity, str, str]
"""How bad, what is wrong, and what it should be."""


def scheduler(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield what is wrong with the configuration that the running kube-scheduler has."""
    where = mounted(snapshot)
    name = f"ConfigMap {where.namespace}/{where.config_map}"
    restart = f"kubectl -n {where.namespace} rollout restart deployment/{_name(where.deployment)}"
    try:
        config_map = where.document(snapshot)
        config = configuration(config_map, where.key)
    except ConfigurationError as unusable:
        delete = (
            f"kubectl -n {where.namespace} delete --ignore-not-found configmap {where.config_map}"
        )
        upgrade = installed.upgrade(snapshot)
        yield error(name, str(unusable), f"{delete} && {upgrade} && {restart}")
        return
    edit = f"kubectl -n {where.namespace} edit configmap {where.config_map}"
    for severity, problem, wanted in _wrong(config, snapshot):
        yield Finding(severity, name, problem, f"{edit}: set {wanted}; then {restart}")
    for pod in _older_pods(snapshot, config_map):
        problem = f"{CONTAINER} reads its configuration once, and {name} was changed since"
        yield error(titled("Pod", pod), problem, restart)


def _wrong(config: Configuration, snapshot: Snapshot) -> Iterator[_Wrong]:
    resource = installed.resource(snapshot)
    yield from _profiles(config, installed.scheduler_name(snapshot))
    extender = next((each for each in config.extenders if _manages(each, resource)), None)
    if extender is None:
        problem = f"no extender manages {resource}: nobody chooses GPUs"
        yield Severity.ERROR, problem, f"managedResources: [{{name: {resource}}}] in extenders"
    else:
        yield from _extender(extender, resource)


def _profiles(config: Configuration, wanted: str) -> Iterator[_Wrong]:
    names = [profile.scheduler_name for profile in config.profiles] or ["default-scheduler"]
    if wanted and wanted not in names:
        problem = f"no profile is {wanted}, which GPUJobs ask for: their pods wait for ever"
        yield Severity.ERROR, problem, f"schedulerName: {wanted} in profiles"
    for profile in config.profiles:
        percentage = profile.percentage_of_nodes_to_score
        if percentage is None:
            percentage = config.percentage_of_nodes_to_score
        if percentage != _WHOLE:
            problem = (
                f"percentageOfNodesToScore of {profile.scheduler_name} is {percentage}: from 100 "
                "nodes on the one with the best links may not be looked at"
            )
            yield Severity.WARNING, problem, f"percentageOfNodesToScore: {_WHOLE}"


def _extender(extender: Extender, resource: str) -> Iterator[_Wrong]:
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
            "preemptVerb is missing: preemption may free a node whose GPUs do not suit the pod"
        )
        yield Severity.WARNING, problem, "preemptVerb: preempt"
    if extender.ignorable:
        problem = "ignorable is true: pods are bound without GPUs when the extender fails"
        yield Severity.ERROR, problem, "ignorable: false"
    managed = [each for each in extender.managed_resources if each.name == resource]
    if any(each.ignored_by_scheduler for each in managed):
        problem = f"ignoredByScheduler is true: kube-scheduler itself does not count {resource}"
        yield Severity.ERROR, problem, "ignoredByScheduler: false"
    yield from _slow(extender)


def _slow(extender: Extender) -> Iterator[_Wrong]:
    if not extender.node_cache_capable:
        problem = "nodeCacheCapable is false: every request carries every node in full"
        yield Severity.WARNING, problem, "nodeCacheCapable: true"
    timeout = seconds(extender.http_timeout)
    if timeout is None or not _LEAST_TIMEOUT_S <= timeout <= _MOST_TIMEOUT_S:
        problem = (
            f"httpTimeout is {extender.http_timeout}: the extender takes up to 3 s, and a longer "
            "wait holds up every other pod"
        )
        yield Severity.WARNING, problem, f"httpTimeout: {_MOST_TIMEOUT_S}s"


def _manages(extender: Extender, resource: str) -> bool:
    return any(managed.name == resource for managed in extender.managed_resources)


def _older_pods(snapshot: Snapshot, config_map: Document) -> Iterator[Document]:
    """Yield pods of the scheduler that started before its ConfigMap was last changed."""
    changed = max(
        (entry.get("time", "") for entry in config_map["metadata"].get("managedFields") or ()),
        default="",
    )
    for pod in installed.parts(snapshot, Kind.PODS, "scheduler"):
        statuses = (pod.get("status") or {}).get("containerStatuses") or ()
        for status in statuses:
            running = (status.get("state") or {}).get("running") or {}
            # RFC 3339 in UTC, whole seconds: their order is that of their letters.
            if status["name"] == CONTAINER and "" < running.get("startedAt", "") < changed:
                yield pod


def _name(document: Document) -> str:
    name: str = document["metadata"]["name"]
    return name

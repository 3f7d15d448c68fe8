"""Check that the pods of each component exist, are ready and respond."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gputopo_kube.document import Document
from gputopo_kube.endpoint import EndpointError, pod_url
from gputopo_operator.installtest.verdict import InstallCheck, InstallVerdict

COMPONENT_LABEL: Final = "app.kubernetes.io/component"
_MAX_NAMES: Final = 3


@dataclass(frozen=True, slots=True)
class Component:
    """A component of the chart.

    Attributes:
        name: value of its component label.
        port: of its probe.
        path: of its probe.
    """

    name: str
    port: int
    path: str


COMPONENTS: Final = (
    Component("operator", 8891, "/healthz"),
    Component("scheduler", 8889, "/readyz"),
    Component("deviceplugin", 8890, "/readyz"),
)


@dataclass(frozen=True, slots=True)
class PodProbe:
    """A pod of a component.

    Attributes:
        url: its probe; empty if the pod cannot be called.
        problem: why the pod is not ready; empty if kubelet reports that it is.
    """

    component: str
    name: str
    url: str
    problem: str


def probes(pods: Sequence[Document]) -> list[PodProbe]:
    """Return the probes of the pods of a release, without pods that are being deleted."""
    known = {component.name: component for component in COMPONENTS}
    return [
        _probe(known[name], pod)
        for pod in pods
        if (name := (pod["metadata"].get("labels") or {}).get(COMPONENT_LABEL)) in known
        and "deletionTimestamp" not in pod["metadata"]
    ]


def _probe(component: Component, pod: Document) -> PodProbe:
    status = pod.get("status") or {}
    problem, url = _not_ready(status), ""
    try:
        url = pod_url(status.get("podIP", ""), component.port, component.path)
    except EndpointError as error:
        problem = problem or str(error)
    return PodProbe(component.name, pod["metadata"]["name"], url, problem)


def _not_ready(status: Document) -> str:
    """Return why kubelet reports a pod as not ready; empty if the pod is ready.

    >>> _not_ready({"phase": "Pending", "conditions": [
    ...     {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}]})
    'Pending: 0/3 nodes are available'
    """
    conditions = {each["type"]: each for each in status.get("conditions") or ()}
    if conditions.get("Ready", {}).get("status") == "True":
        return ""
    reasons = [
        each.get("message") or each.get("reason") or kind
        for kind, each in conditions.items()
        if each.get("status") != "True"
    ]
    return ": ".join([status.get("phase", "Unknown"), *reasons[:1]])


def judge(
    found: Sequence[PodProbe], failures: Mapping[str, str], scheduler_pods: int, namespace: str
) -> list[InstallCheck]:
    """Return one check per component.

    Args:
        found: the pods of the release.
        failures: by URL, why a probe failed.
        scheduler_pods: number of pods that the scheduler must have.
        namespace: of the release; it appears in remedies.
    """
    expected = {"operator": 1, "scheduler": scheduler_pods, "deviceplugin": 1}
    checks = []
    for name, least in expected.items():
        pods = [probe for probe in found if probe.component == name]
        problem = _problem(pods, least, failures)
        if problem:
            look = f"kubectl -n {namespace} describe pods -l {COMPONENT_LABEL}={name}"
            checks.append(InstallCheck(name, InstallVerdict.FAILED, f"{problem}; see {look}"))
        elif pods:
            checks.append(InstallCheck(name, InstallVerdict.PASSED, _summary(pods)))
        else:
            text = "the release has no such pod, as its values request"
            checks.append(InstallCheck(name, InstallVerdict.SKIPPED, text))
    return checks


def _problem(pods: Sequence[PodProbe], least: int, failures: Mapping[str, str]) -> str:
    problems = [
        f"{pod.name}: {problem}"
        for pod in pods
        if (problem := pod.problem or failures.get(pod.url, ""))
    ]
    if problems:
        more = len(problems) - _MAX_NAMES
        text = "; ".join(problems[:_MAX_NAMES]) + (f"; and {more} more" if more > 0 else "")
        return f"{len(problems)} of {len(pods)} pods are not ready: {text}"
    if len(pods) < least:
        return f"{len(pods)} pods found, {least} expected"
    return ""


def _summary(pods: Sequence[PodProbe]) -> str:
    more = len(pods) - _MAX_NAMES
    names = ", ".join(pod.name for pod in pods[:_MAX_NAMES])
    noun = "pod is" if len(pods) == 1 else "pods are"
    return f"{len(pods)} {noun} ready: {names}" + (f" and {more} more" if more > 0 else "")

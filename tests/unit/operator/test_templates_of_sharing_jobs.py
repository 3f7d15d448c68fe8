"""What the pods of a GPUJob have if the job may share its GPU."""

import re
from typing import Any

import pytest

from gputopo.api.names import (
    RESOURCE,
    SHARING_IF_SLOW_ANNOTATION,
    SHARING_MAX_SLOWDOWN_ANNOTATION,
    SHARING_MEMORY_ANNOTATION,
    SHARING_TERMINATION_ANNOTATION,
)
from gputopo.api.v1alpha1 import GPUJobSpec
from gputopo.placement.model import PlacementRequest, PolicyName
from gputopo_kube.document import Document
from gputopo_kube.pods import parse_gpu_pod
from gputopo_operator.decision.pod_template import pod_template
from gputopo_operator.decision.spec_error import SpecError
from gputopo_operator.model.jobs import PodDefaults
from gputopo_scheduling.request import placement_request
from support.builders.shares import SHARES

SLEEP = {"preStop": {"sleep": {"seconds": 2}}}


SHARING = PodDefaults(RESOURCE, "gputopo", shares=True)


def made(
    sharing: Document | None = None,
    container: Document | None = None,
    defaults: PodDefaults = SHARING,
    **template: Any,
) -> Document:
    """Return the pod template of a GPUJob with one container."""
    containers = [{"name": "main", "image": "x", **(container or {})}]
    spec = GPUJobSpec.model_validate(
        {
            "gpusPerReplica": 1,
            "sharing": {"mode": "Allowed"} if sharing is None else sharing,
            "template": {"spec": {"containers": containers, **template}},
        }
    )
    return pod_template("job", spec, None, defaults)


def main_of(template: Document) -> Document:
    found: Document = template["spec"]["containers"][0]
    return found


def test_job_that_shares_requests_a_share_that_the_extender_accepts() -> None:
    sharing = {
        "mode": "Allowed",
        "memory": "4Gi",
        "maxSlowdownPercent": 20,
        "termination": "Program",
        "ifSlow": "Move",
    }
    template = made(sharing)
    assert main_of(template)["resources"] == {"limits": {SHARES: "1"}, "requests": {SHARES: "1"}}
    annotations = template["metadata"]["annotations"]
    assert annotations[SHARING_MEMORY_ANNOTATION] == "4Gi"
    assert annotations[SHARING_MAX_SLOWDOWN_ANNOTATION] == "20"
    assert annotations[SHARING_TERMINATION_ANNOTATION] == "Program"
    assert annotations[SHARING_IF_SLOW_ANNOTATION] == "Move"
    metadata = {**template["metadata"], "name": "p", "namespace": "d", "uid": "u"}
    view = parse_gpu_pod({**template, "metadata": {**metadata, "resourceVersion": "1"}}, RESOURCE)
    assert view is not None
    request = placement_request(view, resource=RESOURCE, default_policy=PolicyName.PRESERVE)
    assert isinstance(request, PlacementRequest)


def test_job_with_the_gpu_alone_has_nothing_of_sharing() -> None:
    template = made({"mode": "Exclusive"})
    assert main_of(template)["resources"] == {
        "limits": {RESOURCE: "1"},
        "requests": {RESOURCE: "1"},
    }
    assert "lifecycle" not in main_of(template)
    assert not [name for name in template["metadata"]["annotations"] if "sharing" in name]


@pytest.mark.parametrize(
    ("termination", "lifecycle", "expected"),
    [
        ("Client", None, SLEEP),
        ("Client", {}, SLEEP),
        ("Client", {"preStop": None}, SLEEP),
        ("Client", {"postStart": {"exec": {}}}, {"postStart": {"exec": {}}, **SLEEP}),
        ("Client", {"preStop": {"exec": {}}}, {"preStop": {"exec": {}}}),
        ("Client", "wrong", "wrong"),
        ("Program", {}, None),
        ("Program", {"preStop": {"exec": {}}}, {"preStop": {"exec": {}}}),
    ],
)
def test_node_ends_the_work_on_the_gpu_before_sigterm(
    termination: str, lifecycle: object, expected: object
) -> None:
    template = made({"mode": "Allowed", "termination": termination}, {"lifecycle": lifecycle})
    assert main_of(template).get("lifecycle") == expected


@pytest.mark.parametrize("seconds", [0, 1])
def test_hook_is_left_out_where_the_pod_has_no_time_for_it(seconds: int) -> None:
    assert "lifecycle" not in main_of(made(terminationGracePeriodSeconds=seconds))
    assert main_of(made(terminationGracePeriodSeconds=2))["lifecycle"] == SLEEP


def test_container_without_a_lifecycle_gets_one() -> None:
    assert main_of(made())["lifecycle"] == SLEEP
    assert "lifecycle" not in main_of(made({"mode": "Allowed", "termination": "Program"}))


@pytest.mark.parametrize("resource", [RESOURCE, SHARES])
@pytest.mark.parametrize("mode", ["Exclusive", "Allowed"])
def test_template_may_not_request_gpus_or_shares_itself(resource: str, mode: str) -> None:
    own = {"resources": {"limits": {resource: "1"}}}
    with pytest.raises(SpecError, match=rf"limits\[{resource}\]: '1' is not allowed"):
        made({"mode": mode}, own)


def test_job_may_not_share_where_the_nodes_offer_no_shares() -> None:
    """No node could run its pod, and its GPU would count as used in the queue for ever."""
    message = (
        "spec.sharing.mode: 'Allowed' needs sharing.enabled in the installation; use Exclusive"
    )
    with pytest.raises(SpecError, match=re.escape(message)):
        made(defaults=PodDefaults(RESOURCE, "gputopo"))
    assert main_of(made({"mode": "Exclusive"}, defaults=PodDefaults(RESOURCE, "gputopo")))

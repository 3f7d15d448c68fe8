"""The pod of a manifest has the request of the pod that the cluster would create."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from gputopo.api.names import RESOURCE
from gputopo.api.v1alpha1 import GPUJobSpec
from gputopo.placement.model import PlacementRequest, PolicyName
from gputopo_explain.templates import ManifestError, pod_of
from gputopo_kube.pods import parse_gpu_pod
from gputopo_kube.priorities import priorities_of
from gputopo_operator.decision.pod_template import pod_template
from gputopo_operator.model.jobs import PodDefaults
from gputopo_scheduling.request import placement_request

EXAMPLES = Path(__file__).parents[3] / "examples"
CONTAINERS = [{"name": "main", "resources": {"limits": {RESOURCE: "2"}}}]
TEMPLATE = {"metadata": {"annotations": {"gputopo.io/pattern": "Tree"}}, "spec": {}}


def request(document: dict[str, Any]) -> object:
    pod = parse_gpu_pod(document, RESOURCE)
    assert pod is not None
    return placement_request(pod, resource=RESOURCE, default_policy=PolicyName.PRESERVE)


def template() -> dict[str, Any]:
    return {**copy.deepcopy(TEMPLATE), "spec": {"containers": copy.deepcopy(CONTAINERS)}}


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        *((kind, {"template": template()}) for kind in ("Deployment", "StatefulSet", "Job")),
        ("CronJob", {"jobTemplate": {"spec": {"template": template()}}}),
    ],
)
def test_every_workload_gives_the_pod_of_its_template(kind: str, spec: dict[str, Any]) -> None:
    workload = {"kind": kind, "metadata": {"name": "web", "namespace": "ml"}, "spec": spec}
    before = copy.deepcopy(workload)
    found = pod_of(workload)
    assert workload == before
    metadata = found["metadata"]
    assert (metadata["namespace"], metadata["name"]) == ("ml", "web")
    assert metadata["annotations"] == {"gputopo.io/pattern": "Tree"}
    found_request = request(found)
    assert isinstance(found_request, PlacementRequest)
    assert found_request.size == 2


def test_pod_is_itself_with_its_own_identity() -> None:
    own = {"kind": "Pod", "metadata": {"generateName": "p-"}, "spec": {"containers": CONTAINERS}}
    found = pod_of(own)
    assert found["metadata"]["name"] == "p-"
    assert found["metadata"]["namespace"] == "default"
    assert pod_of({"kind": "Pod", "spec": {"containers": CONTAINERS}})["metadata"]["name"] == "pod"


def test_priority_is_that_of_the_class_or_of_the_default_class() -> None:
    classes = [
        {"metadata": {"name": "high"}, "value": 100},
        {"metadata": {"name": "usual"}, "value": 7, "globalDefault": True},
    ]
    values = priorities_of(classes)
    for fields, expected in (
        ({"priorityClassName": "high"}, 100),
        ({}, 7),
        ({"priorityClassName": "unknown"}, None),
        ({"priority": 3, "priorityClassName": "high"}, 3),
    ):
        own = {"kind": "Pod", "spec": {"containers": CONTAINERS, **fields}}
        assert pod_of(own, priorities=values)["spec"]["priority"] == expected


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("gpujob-*.yaml")), ids=lambda it: it.name)
def test_gpujob_has_the_request_of_the_pod_that_the_operator_makes(path: Path) -> None:
    document = yaml.safe_load(path.read_text())
    spec = GPUJobSpec.model_validate(document["spec"])
    made = pod_template("job", spec, None, PodDefaults(RESOURCE, "gputopo", shares=True))
    made = {"kind": "Pod", **made}
    found, expected = pod_of(document), pod_of(made)
    assert request(found) == request(expected)
    assert found["spec"]["schedulerName"] == "gputopo"


def test_gpujob_names_container_and_priority_class() -> None:
    job = {
        "kind": "GPUJob",
        "spec": {
            "gpusPerReplica": 3,
            "priorityClassName": "high",
            "resources": {"container": "b"},
            "template": {"spec": {"containers": [{"name": "a"}, {"name": "b"}]}},
        },
    }
    found = pod_of(job, priorities={"high": 9})
    assert found["spec"]["priority"] == 9
    assert found["spec"]["containers"][1]["resources"]["limits"] == {RESOURCE: "3"}


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        ({"kind": "Service"}, "kind: 'Service' is not one of Pod, GPUJob"),
        ({}, "kind: None is not one of"),
        ({"kind": "Pod", "metadata": []}, r"metadata: \[\] is not an object"),
        (
            {"kind": "Pod", "spec": {"containers": [], "tolerations": ["x"]}},
            r"spec.tolerations\[0\]: 'x'",
        ),
        ({"kind": "Job", "spec": {"template": 3}}, "template: 3 is not an object"),
        (
            {
                "kind": "Pod",
                "spec": {
                    "affinity": {
                        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}
                    }
                },
            },
            "spec.affinity.nodeAffinity.requiredDuring.*: is required",
        ),
        ({"kind": "GPUJob", "spec": {}}, "spec.gpusPerReplica: is required"),
        (
            {"kind": "GPUJob", "spec": {"gpusPerReplica": 1, "template": {"spec": 1}}},
            "spec.template.spec: 1 is not an object",
        ),
        (
            {
                "kind": "GPUJob",
                "spec": {"gpusPerReplica": 1, "template": {"spec": {"containers": 7}}},
            },
            "spec.template.spec.containers: 7 is not a list",
        ),
        (
            {"kind": "GPUJob", "spec": {"gpusPerReplica": 1, "template": {}}},
            "spec.template.spec.containers: no container None",
        ),
        (
            {
                "kind": "GPUJob",
                "spec": {"gpusPerReplica": 1, "template": {"spec": {"containers": [1]}}},
            },
            "spec.template.spec.containers",
        ),
    ],
)
def test_invalid_manifest_names_the_field(workload: dict[str, Any], message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        pod_of(workload)


@pytest.mark.parametrize("mode", ["Allowed", "Exclusive"])
def test_gpu_job_that_shares_its_gpu_has_the_pod_of_the_operator(mode: str) -> None:
    sharing = {"mode": mode, "memory": "4Gi", "maxSlowdownPercent": 20, "ifSlow": "Move"}
    spec = {
        "gpusPerReplica": 1,
        "sharing": sharing if mode == "Allowed" else {"mode": mode},
        "template": {"spec": {"containers": [{"name": "main"}]}},
    }
    defaults = PodDefaults(RESOURCE, "gputopo", shares=True)
    expected = pod_template("train", GPUJobSpec.model_validate(spec), None, defaults)
    found = pod_of({"kind": "GPUJob", "metadata": {"name": "train"}, "spec": spec})
    assert found["metadata"]["annotations"] == expected["metadata"]["annotations"]
    [container] = expected["spec"]["containers"]
    assert found["spec"]["containers"][0]["resources"] == container["resources"]

"""The child Job of a GPUJob, and the templates that are rejected."""

from typing import Any

import pytest

from gputopo.api.avoid import AvoidRule
from gputopo.api.known_facts import FactsAnnotation, KnownPattern, KnownSlowdown
from gputopo.api.measuring import MeasuringRequest, MetricsEndpoint, parse_measuring
from gputopo.api.names import FACTS_ANNOTATION, PATTERN_ANNOTATION, PROFILE_ANNOTATION, TUNED_LABEL
from gputopo.api.profile import GPUProfile, GPUProfileSpec, GPUProfileStatus
from gputopo.api.request import parse_request
from gputopo.api.tuning import ResourcesMode, TuningRequest, parse_tuning_request
from gputopo.patterns.declared import DeclaredPattern
from gputopo.placement.model import PolicyName
from gputopo.sensitivity.resolve import Sensitivity
from gputopo_kube.document import Document
from gputopo_operator.decision.child_job import child_job
from gputopo_operator.decision.spec_error import SpecError
from gputopo_operator.model.jobs import PodDefaults
from gputopo_operator.parse.jobs import QUEUE_LABEL, parse_child_job, parse_gpu_job, parse_profile
from support.builders.gpujobs import container, gpu_job, requested_gpus, template

DECLARED = FactsAnnotation.declared("bert", 90).dump()
MEASURED = FactsAnnotation(
    profile="bert",
    source="Measured",
    links={2: KnownSlowdown(percent=3, low=1, high=5, samples=8)},
).dump()


def _child(
    profile: GPUProfile | None = None, defaults: PodDefaults | None = None, **fields: Any
) -> Document:
    raw = gpu_job(**fields)
    raw["metadata"] |= {"uid": "uid-train"}
    job = parse_gpu_job(raw)
    assert job.spec is not None, job.spec_error
    return child_job(job, job.spec, profile, defaults or PodDefaults())


def test_pod_annotations_repeat_the_spec_of_the_gpujob() -> None:
    edges = [{"from": 0, "to": 2, "weight": 5}, {"from": 2, "to": 1}]
    communication = {"pattern": "Custom", "edges": edges}
    avoid = [{"matchLabels": {"app": "noisy"}, "level": "Node"}]
    child = _child(communication=communication, placement={"policy": "Greedy", "avoid": avoid})
    request = parse_request(child["spec"]["template"]["metadata"]["annotations"])
    assert (request.pattern, request.policy) == (DeclaredPattern.CUSTOM, PolicyName.GREEDY)
    assert request.edges == ((0, 2, 5), (2, 1, 1))
    assert request.avoid == (AvoidRule((("app", "noisy"),), "Node"),)


@pytest.mark.parametrize(
    ("percent", "measured", "expected"),
    [
        (90, None, DECLARED),
        (90, MEASURED, DECLARED),
        (None, MEASURED, MEASURED),
        (None, None, None),
    ],
)
def test_pod_gets_the_facts_of_its_profile_and_the_word_of_the_user_comes_first(
    percent: int | None, measured: str | None, expected: str | None
) -> None:
    profile = GPUProfile(
        spec=GPUProfileSpec(bandwidth_sensitivity_percent=percent),
        status=GPUProfileStatus(pod_annotation=measured),
    )
    child = _child(profile, workload={"profile": "bert"})
    annotations = child["spec"]["template"]["metadata"]["annotations"]
    assert annotations.get(FACTS_ANNOTATION) == expected
    assert annotations[PROFILE_ANNOTATION] == "bert"
    assert parse_request(annotations).sensitivity is Sensitivity.AUTO


def test_declared_slowdown_keeps_the_learnt_patterns() -> None:
    learnt = {2: KnownPattern(kind="Star", confidence=900, windows=30)}
    known = FactsAnnotation(profile="bert", source="Measured", patterns=learnt).dump()
    profile = GPUProfile(
        spec=GPUProfileSpec(bandwidth_sensitivity_percent=90),
        status=GPUProfileStatus(pod_annotation=known),
    )
    child = _child(profile, workload={"profile": "bert"})
    annotations = child["spec"]["template"]["metadata"]["annotations"]
    assert annotations[FACTS_ANNOTATION] == FactsAnnotation.declared("bert", 90, learnt).dump()


@pytest.mark.parametrize("communication", [{}, {"pattern": "Auto"}])
def test_pod_of_a_job_without_a_pattern_has_no_annotation_of_it(
    communication: dict[str, str],
) -> None:
    child = _child(communication=communication)
    annotations = child["spec"]["template"]["metadata"]["annotations"]
    assert PATTERN_ANNOTATION not in annotations
    assert parse_request(annotations).pattern is DeclaredPattern.AUTO


def test_pod_says_how_its_steps_are_counted_and_what_to_measure() -> None:
    child = _child(
        profiling={
            "measure": ["CPUs"],
            "maxSeconds": 90,
            "throughput": {"source": "Metrics", "metrics": "9090/metrics steps_total"},
        }
    )
    annotations = child["spec"]["template"]["metadata"]["annotations"]
    assert parse_measuring(annotations) == MeasuringRequest(
        source="Metrics",
        metrics=MetricsEndpoint(9090, "/metrics", "steps_total"),
        targets=("CPUs",),
        profiling_seconds=90,
    )


def test_invalid_endpoint_of_metrics_is_rejected_with_its_field() -> None:
    with pytest.raises(SpecError, match=r"spec\.profiling\.throughput\.metrics: '9090'"):
        _child(profiling={"throughput": {"source": "Metrics", "metrics": "9090"}})


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, {"main": "3", "logger": None}),
        ({"container": "logger"}, {"main": None, "logger": "3"}),
    ],
)
def test_gpus_go_to_the_first_container_unless_one_is_named(
    resources: dict[str, str], expected: dict[str, str | None]
) -> None:
    two = template(container("main"), container("logger"))
    assert requested_gpus(_child(template=two, resources=resources)) == expected


def test_configured_resource_and_scheduler_are_used() -> None:
    defaults = PodDefaults(resource="example.org/gpu", scheduler_name="mine")
    pod = _child(defaults=defaults)["spec"]["template"]["spec"]
    assert pod["schedulerName"] == "mine"
    assert pod["containers"][0]["resources"]["requests"] == {"example.org/gpu": "3"}


def test_rest_of_the_template_is_unchanged() -> None:
    mine = template(container("main", resources={"limits": {"cpu": "4"}}), nodeSelector={"a": "b"})
    mine["metadata"] = {"labels": {"team": "vision"}, "annotations": {"note": "x"}}
    child = _child(template=mine)["spec"]["template"]
    assert child["spec"]["nodeSelector"] == {"a": "b"}
    assert child["spec"]["containers"][0]["resources"]["limits"]["cpu"] == "4"
    assert child["metadata"]["labels"]["team"] == "vision"
    assert child["metadata"]["annotations"]["note"] == "x"


def test_limits_and_priority_reach_the_job() -> None:
    limits = {"backoffLimit": 2, "maxAdmissionRetries": 5, "activeDeadlineSeconds": 60}
    child = _child(limits=limits, priorityClassName="high")
    assert child["spec"]["activeDeadlineSeconds"] == 60
    assert child["spec"]["backoffLimit"] > 2 + 5
    assert child["spec"]["template"]["spec"]["priorityClassName"] == "high"


def test_queued_job_starts_suspended_with_the_labels_of_kueue() -> None:
    labels = {QUEUE_LABEL: "research", "kueue.x-k8s.io/priority-class": "low", "team": "vision"}
    child = _child(labels=labels)
    assert child["spec"]["suspend"] is True
    assert child["metadata"]["labels"][QUEUE_LABEL] == "research"
    assert child["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] == "low"
    assert "team" not in child["metadata"]["labels"]


def _resources_of_main(child: Document) -> dict[str, dict[str, str]]:
    resources: dict[str, dict[str, str]] = child["spec"]["template"]["spec"]["containers"][0][
        "resources"
    ]
    return {
        kind: {name: amount for name, amount in amounts.items() if name in {"cpu", "memory"}}
        for kind, amounts in resources.items()
    }


TEMPLATE_AMOUNTS = {"requests": {"cpu": "2", "memory": "8Gi"}, "limits": {"cpu": "4"}}
LEAST = {"cpu": "500m", "memory": "4Gi"}


@pytest.mark.parametrize(
    ("mode", "least", "expected"),
    [
        ("Auto", LEAST, {"requests": LEAST, "limits": LEAST}),
        ("Proportional", LEAST, {"requests": LEAST, "limits": LEAST}),
        (
            "Auto",
            {"cpu": 1},
            {"requests": {"cpu": "1", "memory": "8Gi"}, "limits": {"cpu": "1"}},
        ),
        (
            "Auto",
            {"memory": 2**32},
            {
                "requests": {"cpu": "2", "memory": "4294967296"},
                "limits": {"cpu": "4", "memory": "4294967296"},
            },
        ),
        ("Auto", None, TEMPLATE_AMOUNTS),
    ],
)
def test_pod_starts_with_its_least_amounts_else_with_those_of_the_template(
    mode: str, least: dict[str, Any] | None, expected: dict[str, dict[str, str]]
) -> None:
    mine = template(container("main", resources=TEMPLATE_AMOUNTS))
    resources = {"mode": mode} | ({"min": least} if least else {})
    child = _child(template=mine, resources=resources)
    assert _resources_of_main(child) == expected
    assert requested_gpus(child) == {"main": "3"}


def test_least_amounts_suffice_without_amounts_in_the_template() -> None:
    two = template(container("logger"), container("main"))
    child = _child(template=two, resources={"mode": "Auto", "container": "main", "min": LEAST})
    first, second = child["spec"]["template"]["spec"]["containers"]
    assert first["resources"] == {"requests": {}, "limits": {}}
    assert second["resources"]["requests"] == {**LEAST, "gputopo.io/gpu": "3"}


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (None, TuningRequest(ResourcesMode.AUTO)),
        ({"cpu": 8}, TuningRequest(ResourcesMode.AUTO, 8000)),
        ({"memory": "64Gi"}, TuningRequest(ResourcesMode.AUTO, None, 64 * 2**30)),
        ({"cpu": "0.5m", "memory": 7}, TuningRequest(ResourcesMode.AUTO, 1, 7)),
    ],
)
def test_pod_says_who_decides_about_its_cpus_and_the_most_that_it_may_get(
    most: dict[str, Any] | None, expected: TuningRequest
) -> None:
    mine = template(container("main", resources={"limits": {"cpu": "1m"}}))
    child = _child(template=mine, resources={"mode": "Auto"} | ({"max": most} if most else {}))
    metadata = child["spec"]["template"]["metadata"]
    assert parse_tuning_request(metadata["annotations"]) == expected
    assert metadata["labels"][TUNED_LABEL] == "true"


def test_fixed_job_has_the_amounts_of_its_template_and_no_annotation_or_label() -> None:
    child = _child(template=template(container("main", resources={"limits": {"cpu": "4"}})))
    assert _resources_of_main(child) == {"requests": {}, "limits": {"cpu": "4"}}
    metadata = child["spec"]["template"]["metadata"]
    assert not [name for name in metadata["annotations"] if "resources" in name]
    assert TUNED_LABEL not in metadata["labels"]


def _with_limits(kind: str) -> dict[str, Any]:
    return {"template": template(container("main", resources={kind: {"gputopo.io/gpu": 2}}))}


def _with_metadata(field: str, name: str) -> dict[str, Any]:
    return {"template": {**template(), "metadata": {field: {name: "x"}}}}


A = {"name": "A", "value": "all"}
ALL = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}
HIDDEN = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}
ORDER = {"name": "CUDA_VISIBLE_DEVICES", "value": "1,0"}
FROM_FIELD = {"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}


def _tuned(most: dict[str, Any] | None = None, **resources: Any) -> dict[str, Any]:
    """Return a job with the mode Proportional, and with these amounts in its template."""
    return {
        "template": template(container("main", resources=resources)),
        "resources": {"mode": "Proportional", **({"max": most} if most else {})},
    }


REJECTED: dict[str, dict[str, Any]] = {
    "spec.template.spec.containers[0].resources.limits[gputopo.io/gpu]: 2": _with_limits("limits"),
    "spec.template.spec.containers[0].resources.requests[gputopo.io/gpu]: 2": _with_limits(
        "requests"
    ),
    "spec.template.spec.initContainers[0].resources.limits[gputopo.io/gpu]": {
        "template": template(
            initContainers=[container("setup", resources={"limits": {"gputopo.io/gpu": 1}})]
        )
    },
    "spec.template.spec.schedulerName: 'other'": {"template": template(schedulerName="other")},
    "spec.template.spec.restartPolicy: 'OnFailure' is not yet supported": {
        "template": template(restartPolicy="OnFailure")
    },
    "spec.template.spec.nodeName: 'n1'": {"template": template(nodeName="n1")},
    "spec.template.spec.priorityClassName: 'low'": {
        "template": template(priorityClassName="low"),
        "priorityClassName": "high",
    },
    "spec.template.metadata.annotations[gputopo.io/gpus]": _with_metadata(
        "annotations", "gputopo.io/gpus"
    ),
    "spec.template.metadata.labels[gputopo.io/job]": _with_metadata("labels", "gputopo.io/job"),
    "spec.resources.container: 'sidecar' is not a container of the template; use one of main": {
        "resources": {"container": "sidecar"}
    },
    "spec.resources.mode: 'Auto' needs a CPU request and a CPU limit, but container 'main' has "
    "the CPU limit None; set spec.resources.min.cpu": {"resources": {"mode": "Auto"}},
    "container 'main' has the CPU limit None": _tuned(requests={"cpu": "4"}),
    "container 'main' has the CPU limit 0": _tuned(limits={"cpu": 0}),
    "container 'main' has the CPU request 'many'": _tuned(
        requests={"cpu": "many"}, limits={"cpu": 4}
    ),
    "spec.resources.max.cpu: '2' is less than '4', the limit with which the pod is created; raise "
    "it, or set a lower spec.resources.min.cpu": _tuned(limits={"cpu": "4"}, most={"cpu": 2}),
    "spec.resources.max.memory: '1Gi' is less than '2Gi'": _tuned(
        limits={"cpu": "4", "memory": "2Gi"}, most={"memory": "1Gi"}
    ),
    "spec.resources.max.cpu: 1000000 is not a quantity that a node can have": _tuned(
        limits={"cpu": "4"}, most={"cpu": 1_000_000}
    ),
    "spec.resources.max.memory: '999999999999999999999' is not a quantity": _tuned(
        limits={"cpu": "4"}, most={"memory": "9" * 21}
    ),
    "spec.template.spec.containers: [] is empty; add a container": {"template": {"spec": {}}},
    "spec.template.spec.containers: 'main' is not a list": {
        "template": {"spec": {"containers": "main"}}
    },
    "spec.template.spec.containers[0]: 'main' is not an object": {
        "template": {"spec": {"containers": ["main"]}}
    },
    "spec.template.spec: 5 is not an object": {"template": {"spec": 5}},
    "spec.template.spec.containers[0].resources: 5 is not an object": {
        "template": template(container("main", resources=5))
    },
    "spec.template.spec.containers[0].env[NVIDIA_VISIBLE_DEVICES]: 'all'": {
        "template": template(container("main", env=[A, ALL]))
    },
    "spec.template.spec.containers[0].env[CUDA_VISIBLE_DEVICES]: '1,0'": {
        "template": template(container("main", env=[ORDER]))
    },
    "spec.template.spec.containers[0].env[NVIDIA_VISIBLE_DEVICES]: 'void'": {
        "template": template(container("main", env=[HIDDEN]))
    },
    "spec.template.spec.containers[1].env[NVIDIA_VISIBLE_DEVICES]: 'all'": {
        "template": template(container("main"), container("logger", env=[ALL]))
    },
    "spec.template.spec.initContainers[0].env[NVIDIA_VISIBLE_DEVICES]: {'fieldRef'": {
        "template": template(initContainers=[container("setup", env=[HIDDEN | FROM_FIELD])])
    },
    "spec.template.spec.containers[0].env: 5 is not a list": {
        "template": template(container("main", env=5))
    },
    "spec.template.spec.containers[0].env[1]: 5 is not an object": {
        "template": template(container("main", env=[A, 5]))
    },
}


@pytest.mark.parametrize("message", REJECTED)
def test_template_is_rejected_with_field_and_value(message: str) -> None:
    with pytest.raises(SpecError) as rejected:
        _child(**REJECTED[message])
    assert message in str(rejected.value)


def test_a_container_without_gpus_may_hide_them() -> None:
    child = _child(template=template(container("main"), container("logger", env=[A, HIDDEN])))
    assert child["spec"]["template"]["spec"]["containers"][1]["env"] == [A, HIDDEN]


@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize(
    "status",
    [
        {"podAnnotation": '{"v":2}'},
        {"podAnnotation": "{", "samples": [{"source": "Counters"}]},
    ],
)
def test_status_of_a_newer_operator_gives_the_job_no_facts(
    status: Document, *, complete: bool
) -> None:
    known = {"podAnnotation": MEASURED}
    profile = parse_profile({"status": status | known}, complete=complete)
    assert profile.status.pod_annotation == MEASURED
    profile = parse_profile({"status": status}, complete=complete)
    manifest = _child(profile, workload={"profile": "bert"})
    assert FACTS_ANNOTATION not in manifest["spec"]["template"]["metadata"]["annotations"]


def test_job_with_facts_of_a_newer_operator_is_parsed() -> None:
    manifest = _child(GPUProfile(), workload={"profile": "bert"})
    manifest["spec"]["template"]["metadata"]["annotations"][FACTS_ANNOTATION] = '{"v":2}'
    assert parse_child_job(manifest).facts is None


@pytest.mark.parametrize(
    ("mode", "label"), [("Fixed", None), ("Proportional", "true"), ("Auto", "true")]
)
def test_pods_that_are_sized_have_the_label_by_which_the_operator_finds_them(
    mode: str, label: str | None
) -> None:
    mine = template(container("main", resources=TEMPLATE_AMOUNTS))
    child = _child(template=mine, resources={"mode": mode})
    labels = child["spec"]["template"]["metadata"]["labels"]
    assert labels.get("gputopo.io/tuned") == label

"""Each GPUJob in ``examples/`` gets the placement request that it describes."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from gputopo.api.measuring import MeasuringRequest, MetricsEndpoint, parse_measuring
from gputopo.api.names import RESOURCE
from gputopo.api.shares import SharingLimits, parse_sharing
from gputopo.api.tuning import Amounts, ResourcesMode, TuningRequest, parse_tuning_request
from gputopo.patterns.model import Pattern, PatternEdge, chain, custom, ring, star
from gputopo.placement.model import PlacementRequest, PolicyName
from gputopo.tuning.pods import floor_of, left_alone_because
from gputopo_kube.document import ObjectKey
from gputopo_kube.pods import parse_gpu_pod
from gputopo_kube.tuned_node import parse_node_pods
from gputopo_operator.decision.child_job import child_job
from gputopo_operator.model.jobs import PodDefaults
from gputopo_operator.parse.jobs import parse_gpu_job
from gputopo_scheduling.request import placement_request

EXAMPLES = Path(__file__).parents[2] / "examples"
EXPECTED: dict[str, tuple[Pattern, bool]] = {
    "gpujob-ring": (ring(3), True),
    "gpujob-pipeline": (chain(4), True),
    "gpujob-parameter-server": (star(4), True),
    "gpujob-custom-edges": (
        custom(4, [PatternEdge(0, 1, 1), PatternEdge(1, 2, 2), PatternEdge(2, 3, 1)]),
        True,
    ),
    "gpujob-insensitive": (ring(2), False),
    "gpujob-measured": (ring(2), True),
    "gpujob-auto": (ring(2), True),
    "gpujob-queued": (ring(2), True),
    "gpujob-sharing": (ring(1), False),
}


def request_of(job: dict[str, Any]) -> PlacementRequest:
    """Return the placement request of the pod that the operator creates for a GPUJob."""
    job["metadata"] |= {"uid": "uid-job", "namespace": "default"}
    known = parse_gpu_job(job)
    assert known.spec is not None, known.spec_error
    pod = child_job(known, known.spec, None, PodDefaults(shares=True))["spec"]["template"]
    pod["metadata"] |= {"uid": "uid-pod", "name": "pod", "namespace": "default"}
    pod["metadata"]["resourceVersion"] = "1"
    view = parse_gpu_pod(pod, RESOURCE)
    assert view is not None
    request = placement_request(view, resource=RESOURCE, default_policy=PolicyName.PRESERVE)
    assert isinstance(request, PlacementRequest), request
    return request


def test_every_gpujob_example_is_tested() -> None:
    assert {path.stem for path in EXAMPLES.glob("gpujob-*.yaml")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_example_requests_the_pattern_that_it_describes(name: str) -> None:
    pattern, sensitive = EXPECTED[name]
    request = request_of(yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text()))
    assert request == PlacementRequest(pattern, sensitive)


def test_sharing_examples_request_one_share_with_limits() -> None:
    job = yaml.safe_load((EXAMPLES / "gpujob-sharing.yaml").read_text())
    job["metadata"] |= {"uid": "uid-job", "namespace": "default"}
    known = parse_gpu_job(job)
    assert known.spec is not None, known.spec_error
    of_job = child_job(known, known.spec, None, PodDefaults(shares=True))["spec"]["template"]
    deployment = yaml.safe_load((EXAMPLES / "deployment-sharing.yaml").read_text())
    limits = []
    for template in (of_job, deployment["spec"]["template"]):
        template["metadata"] |= {"uid": "uid-pod", "name": "pod", "namespace": "default"}
        template["metadata"]["resourceVersion"] = "1"
        view = parse_gpu_pod(template, RESOURCE)
        assert view is not None
        request = placement_request(view, resource=RESOURCE, default_policy=PolicyName.PRESERVE)
        assert isinstance(request, PlacementRequest), request
        assert (view.shares, request.size) == (True, 1)
        limits.append(parse_sharing(view.annotations))
    assert limits == [
        SharingLimits(6 * 2**30, 60, moves=True),
        SharingLimits(4 * 2**30, 50, moves=True, ends_itself=True),
    ]


def test_measured_deployment_names_its_workload_and_a_counter_of_steps() -> None:
    template = yaml.safe_load((EXAMPLES / "deployment-measured.yaml").read_text())["spec"][
        "template"
    ]
    assert parse_measuring(template["metadata"]["annotations"]) == MeasuringRequest(
        profile="fine-tuning",
        source="Metrics",
        metrics=MetricsEndpoint(9090, "/metrics", "training_steps_total"),
    )


def test_example_with_the_mode_auto_starts_with_its_least_amounts() -> None:
    job = yaml.safe_load((EXAMPLES / "gpujob-auto.yaml").read_text())
    job["metadata"] |= {"uid": "uid-job", "namespace": "default"}
    known = parse_gpu_job(job)
    assert known.spec is not None
    template = child_job(known, known.spec, None, PodDefaults(shares=True))["spec"]["template"]
    least = {"cpu": "2", "memory": "16Gi", RESOURCE: "2"}
    assert template["spec"]["containers"][0]["resources"] == {"requests": least, "limits": least}
    request = parse_tuning_request(template["metadata"]["annotations"])
    assert request == TuningRequest(ResourcesMode.AUTO, 24_000)


def test_pod_of_the_deployment_with_the_mode_auto_is_sized_above_its_requests() -> None:
    template = yaml.safe_load((EXAMPLES / "deployment-auto.yaml").read_text())["spec"]["template"]
    template["metadata"] |= {"uid": "uid-pod", "name": "pod", "namespace": "default"}
    template["status"] = {"phase": "Running"}
    (pod,) = parse_node_pods([template], RESOURCE, (), datetime(2026, 1, 1, tzinfo=UTC))
    assert pod.tuned is not None
    assert not left_alone_because(pod.tuned)
    assert (pod.tuned.mode, pod.tuned.gpus) == (ResourcesMode.AUTO, 2)
    assert floor_of(pod.tuned) == Amounts(2000, 16 * 2**30)
    assert pod.tuned.most_milli_cpu == 24_000
    assert pod.profile == ObjectKey("default", "fine-tuning")


def test_weights_of_a_gpujob_are_in_the_placed_pattern() -> None:
    weights = {(0, 1): 1000, (1, 2): 7, (0, 2): None}
    edges = [
        {"from": start, "to": end} | ({} if weight is None else {"weight": weight})
        for (start, end), weight in weights.items()
    ]
    job = yaml.safe_load((EXAMPLES / "gpujob-ring.yaml").read_text())
    job["spec"]["communication"] = {"pattern": "Custom", "edges": edges}
    placed = request_of(job).pattern
    assert {(edge.a, edge.b): edge.weight for edge in placed.edges} == weights | {(0, 2): 1}

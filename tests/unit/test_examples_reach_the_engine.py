"""A GPUJob in ``examples/`` becomes the pattern that it speaks of, by operator and extender."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from gputopo.api.names import RESOURCE
from gputopo.patterns.model import Pattern, PatternEdge, chain, custom, ring, star
from gputopo.placement.model import PlacementRequest, PolicyName
from gputopo_extender.verbs.request import placement_request
from gputopo_kube.pods import parse_gpu_pod
from gputopo_operator.decision.child_job import child_job
from gputopo_operator.model import PodDefaults
from gputopo_operator.parse import parse_gpu_job

EXAMPLES = Path(__file__).parents[2] / "examples"
MEANT: dict[str, tuple[Pattern, bool]] = {
    "gpujob-ring": (ring(3), True),
    "gpujob-pipeline": (chain(4), True),
    "gpujob-parameter-server": (star(4), True),
    "gpujob-custom-edges": (
        custom(4, [PatternEdge(0, 1, 1), PatternEdge(1, 2, 2), PatternEdge(2, 3, 1)]),
        True,
    ),
    "gpujob-insensitive": (ring(2), False),
}


def asked(job: dict[str, Any]) -> PlacementRequest:
    """Return what the extender reads from the pod that the operator makes of a GPUJob."""
    job["metadata"] |= {"uid": "uid-job", "namespace": "default"}
    known = parse_gpu_job(job)
    assert known.spec is not None, known.spec_error
    pod = child_job(known, known.spec, None, PodDefaults())["spec"]["template"]
    pod["metadata"] |= {"uid": "uid-pod", "name": "pod", "namespace": "default"}
    pod["metadata"]["resourceVersion"] = "1"
    record = parse_gpu_pod(pod, RESOURCE)
    assert record is not None
    request = placement_request(record, resource=RESOURCE, default_policy=PolicyName.PRESERVE)
    assert isinstance(request, PlacementRequest), request
    return request


def test_every_example_of_a_gpujob_is_spoken_of_here() -> None:
    assert {path.stem for path in EXAMPLES.glob("gpujob-*.yaml")} == set(MEANT)


@pytest.mark.parametrize("name", MEANT)
def test_an_example_asks_for_the_pattern_that_it_speaks_of(name: str) -> None:
    pattern, sensitive = MEANT[name]
    request = asked(yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text()))
    assert request == PlacementRequest(pattern, sensitive)


def test_every_weight_of_a_gpujob_is_in_the_pattern_that_is_placed() -> None:
    weights = {(0, 1): 1000, (1, 2): 7, (0, 2): None}
    edges = [
        {"from": start, "to": end} | ({} if weight is None else {"weight": weight})
        for (start, end), weight in weights.items()
    ]
    job = yaml.safe_load((EXAMPLES / "gpujob-ring.yaml").read_text())
    job["spec"]["communication"] = {"pattern": "Custom", "edges": edges}
    placed = asked(job).pattern
    assert {(edge.a, edge.b): edge.weight for edge in placed.edges} == weights | {(0, 2): 1}

"""The least utility of a job, in annotations and in a GPUJob."""

import pytest

from gputopo.api.annotations import AnnotationError
from gputopo.api.request import RequestAnnotations, format_request, parse_request
from gputopo.api.utility import UtilityFigures
from gputopo.api.v1alpha1 import GPUJobSpec
from gputopo.patterns.declared import DeclaredPattern
from gputopo.placement.model import PolicyName
from gputopo.utility.cost import Cost
from gputopo.utility.utility import PlacementCosts, placement_utility

UTILITY = {"gputopo.io/policy": "Utility"}
MINIMUM = "gputopo.io/min-utility-percent"


@pytest.mark.parametrize("percent", [0, 30, 100])
def test_least_utility_is_parsed_and_formatted(percent: int) -> None:
    annotations = {**UTILITY, MINIMUM: str(percent)}
    request = parse_request(annotations)
    assert (request.policy, request.min_utility_percent) == (PolicyName.UTILITY, percent)
    assert format_request(request).items() >= annotations.items()
    assert parse_request(format_request(request)) == request


def test_pod_without_the_annotation_has_no_least_utility() -> None:
    request = parse_request(UTILITY)
    assert request.min_utility_percent is None
    assert MINIMUM not in format_request(request)


def test_default_policy_of_the_installation_may_be_utility() -> None:
    assert parse_request({MINIMUM: "30"}).min_utility_percent == 30


@pytest.mark.parametrize("text", ["", "-1", "101", "0.3", "30%", "1000", " 30", "\u0663\u0660"])
def test_wrong_least_utility_is_rejected(text: str) -> None:
    with pytest.raises(AnnotationError) as rejected:
        parse_request({**UTILITY, MINIMUM: text})
    assert str(rejected.value) == f"{MINIMUM}: {text!r} is not a whole number from 0 to 100"


def test_least_utility_with_another_policy_is_rejected() -> None:
    with pytest.raises(AnnotationError) as rejected:
        parse_request({"gputopo.io/policy": "Greedy", MINIMUM: "30"})
    assert str(rejected.value) == (
        f"{MINIMUM}: allowed with gputopo.io/policy=Utility only, not Greedy"
    )


def test_request_of_a_gpujob_has_its_least_utility() -> None:
    spec = GPUJobSpec.model_validate(
        {
            "gpusPerReplica": 2,
            "communication": {"pattern": "Custom", "edges": [{"from": 0, "to": 1, "weight": 4}]},
            "placement": {"policy": "Utility", "minUtilityPercent": 50},
            "template": {},
        }
    )
    request = RequestAnnotations.of_job(spec)
    assert (request.pattern, request.edges[0].weight) == (DeclaredPattern.CUSTOM, 4)
    assert (request.policy, request.min_utility_percent) == (PolicyName.UTILITY, 50)


def test_figures_are_the_terms_in_per_mille() -> None:
    costs = PlacementCosts(
        communication=Cost(3, best=1, worst=5),
        interference=Cost(1.1, best=1, worst=1.2),
        suffered=Cost(1.2, best=1, worst=1.2),
        fragmentation=Cost(0, best=0, worst=0.5),
    )
    figures = UtilityFigures.of(placement_utility(costs))
    assert figures.to_json() == {
        "utilityPermille": 670,
        "jobUtilityPermille": 258,
        "communicationPermille": 505,
        "interferencePermille": 505,
        "sufferedPermille": 10,
        "fragmentationPermille": 1000,
    }
    assert str(figures) == "0.670 (communication 0.505, interference 0.505, fragmentation 1.000)"

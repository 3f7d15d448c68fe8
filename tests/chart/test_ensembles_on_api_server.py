"""The GPUEnsembles that the API server accepts, and its messages for the others."""

import itertools
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.control_plane.api_server import ApiServer
from support.control_plane.ensemble_work import ENSEMBLES
from support.operator.ensembles import ensemble, member

EXAMPLES = Path(__file__).parents[2] / "examples"
JOB: dict[str, Any] = {"template": {"spec": {"containers": [{"name": "main"}]}}}
_number = itertools.count()


def made(*members: dict[str, Any], name: str = "", **spec: Any) -> dict[str, Any]:
    document = ensemble(*(members or (member("a"),)), **spec)
    document["metadata"] = {"name": name or f"search-{next(_number)}", "namespace": "default"}
    return document


def with_job(**fields: Any) -> dict[str, Any]:
    return member("a", jobTemplate={"spec": {**JOB, **fields}})


PREPROCESSING = {"throughput": [{"cores": 1, "itemsPerSecond": "1.5"}], "template": JOB["template"]}
REJECTED = {
    "no members": (made() | {"spec": {"members": []}}, "spec.members: Invalid value: 0"),
    "GPUs of the job": (
        made(with_job(gpusPerReplica=2)),
        "gpusPerReplica: the ensemble chooses the number of GPUs; remove it and use maxGPUs",
    ),
    "a suspended job": (made(with_job(suspend=True)), "use spec.suspend of the GPUEnsemble"),
    "a workload": (made(with_job(workload={"profile": "x"})), "use profile of the member"),
    "a shared GPU": (made(with_job(sharing={"mode": "Allowed"})), "sharing: not yet supported"),
    "epochs and steps": (
        made(member("a", epochs=1, steps=2), itemsPerEpoch=5),
        "steps: 2: member a has epochs too; set one of them",
    ),
    "epochs without items": (
        made(member("a", epochs=1)),
        "itemsPerEpoch: required, because member a has epochs; set it or use steps",
    ),
    "a long name": (made(member("a" * 40), name="b" * 30), "at most 63 characters are allowed"),
    "a name that no Service may have": (
        made(name="1.search", preprocessing=PREPROCESSING),
        "metadata.name: 1.search is not possible with spec.preprocessing",
    ),
    "a member with the name of a Job of the preprocessing": (
        made(member("preprocessor-1"), preprocessing=PREPROCESSING),
        "members: with preprocessing, no name may begin with preprocessor",
    ),
    "two members of a name": (made(member("a"), member("a")), "spec.members[1]: Duplicate value"),
    "a word as a rate": (
        made(member("a") | {"rates": [{"gpus": 1, "itemsPerSecond": "fast"}]}),
        "spec.members[0].rates[0].itemsPerSecond",
    ),
}


@pytest.mark.parametrize("rate", [-5, 0, 1_000_000_001, "0.0009", "1000000000.1"])
def test_impossible_rate_is_rejected(server: ApiServer, rate: int | str) -> None:
    response = server.create(ENSEMBLES, made(member("a", {1: rate})))
    assert "itemsPerSecond: Invalid value" in response.message
    assert "must be 0.001 to 1000000000" in response.message
    throughput = {"throughput": [{"cores": 1, "itemsPerSecond": rate}]}
    response = server.create(ENSEMBLES, made(preprocessing=PREPROCESSING | throughput))
    assert "must be 0.001 to 1000000000" in response.message


@pytest.mark.parametrize("rate", [1, 1_000_000_000, "0.001", "1000000000"])
def test_extreme_rates_are_accepted(server: ApiServer, rate: int | str) -> None:
    response = server.create(ENSEMBLES, made(member("a", {1: rate})))
    assert response.accepted, response.message


@pytest.mark.parametrize("case", REJECTED)
def test_wrong_ensemble_is_rejected_with_field_and_value(server: ApiServer, case: str) -> None:
    document, message = REJECTED[case]
    response = server.create(ENSEMBLES, document)
    assert not response.accepted
    assert message in response.message


def test_example_is_accepted_and_gets_the_defaults(server: ApiServer) -> None:
    document = yaml.safe_load((EXAMPLES / "gpuensemble.yaml").read_text())
    response = server.create(ENSEMBLES, document)
    assert response.accepted, response.message
    spec = response.body["spec"]
    assert (spec["pace"], spec["restarts"], spec["rateDifferencePercent"]) == ("Rate", "Never", 20)
    assert server.table(f"{ENSEMBLES}/search")["rows"][0]["cells"][0] == "search"


def test_limits_can_be_changed_and_members_cannot(server: ApiServer) -> None:
    document = made(preprocessing=PREPROCESSING)
    assert server.create(ENSEMBLES, document).accepted
    path = f"{ENSEMBLES}/{document['metadata']['name']}"
    assert server.merge(path, {"spec": {"maxGPUs": 4, "suspend": True}}).accepted
    for part, wrong in (("members", [member("b")]), ("preprocessing", None)):
        response = server.merge(path, {"spec": {part: wrong}})
        assert f"{part}: immutable; delete the GPUEnsemble and create it again" in response.message

"""The GPUJobs, GPUProfiles and GPUTopologies that the API server accepts, and its messages."""

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from gputopo.api.profile import GPUProfileSpec
from gputopo.api.topology import to_spec
from gputopo.api.v1alpha1 import GPUJobSpec
from gputopo.catalogue import named, names
from gputopo.patterns.declared import DeclaredPattern
from gputopo.placement.model import PolicyName
from support.control_plane.api_server import (
    JOBS,
    PROFILES,
    TOPOLOGIES,
    ApiServer,
    service_account,
)

EXAMPLES = Path(__file__).parents[2] / "examples"
OPERATOR = service_account("gputopo-operator")
TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}
_number = itertools.count()


def gpu_job(spec: Mapping[str, Any], name: str = "") -> dict[str, Any]:
    return {
        "apiVersion": "gputopo.io/v1alpha1",
        "kind": "GPUJob",
        "metadata": {"name": name or f"job-{next(_number)}", "namespace": "default"},
        "spec": {"gpusPerReplica": 3, "template": TEMPLATE, **spec},
    }


def custom(*edges: tuple[int, int]) -> dict[str, Any]:
    listed = [{"from": start, "to": end} for start, end in edges]
    return {"communication": {"pattern": "Custom", "edges": listed}}


REJECTED = {
    "no GPU": ({"gpusPerReplica": 0}, "spec.gpusPerReplica: Invalid value: 0"),
    "99 GPUs": ({"gpusPerReplica": 99}, "spec.gpusPerReplica: Invalid value: 99"),
    "half a GPU": ({"gpusPerReplica": 0.5}, "spec.gpusPerReplica"),
    "an unknown pattern": (
        {"communication": {"pattern": "Donut"}},
        (
            'spec.communication.pattern: Unsupported value: "Donut": '
            'supported values: "Ring", "Tree", "RingTree", "Chain", "Star", "AllToAll", "Custom", '
            '"Auto"'
        ),
    ),
    "a least utility with another policy": (
        {"placement": {"policy": "Greedy", "minUtilityPercent": 30}},
        "placement: minUtilityPercent is allowed with policy Utility only, not with Greedy",
    ),
    "a least utility above 100 %": (
        {"placement": {"policy": "Utility", "minUtilityPercent": 101}},
        "spec.placement.minUtilityPercent: Invalid value: 101",
    ),
    "an unknown policy": (
        {"placement": {"policy": "Random"}},
        'spec.placement.policy: Unsupported value: "Random"',
    ),
    "an unknown sensitivity": (
        {"communication": {"bandwidthSensitivity": "Very"}},
        'spec.communication.bandwidthSensitivity: Unsupported value: "Very"',
    ),
    "an edge to a rank above the last": (
        custom((0, 1), (1, 7)),
        (
            "communication.edges: {from: 1, to: 7} is not an edge between ranks of the pod; "
            "with gpusPerReplica 3 its ranks are 0 to 2"
        ),
    ),
    "an edge from a rank above the last": (
        custom((3, 0)),
        "communication.edges: {from: 3, to: 0} is not an edge between ranks of the pod",
    ),
    "an edge without weight": (
        {"communication": {"pattern": "Custom", "edges": [{"from": 0, "to": 1, "weight": 0}]}},
        "spec.communication.edges[0].weight: Invalid value: 0",
    ),
    "an edge that weighs too much": (
        {"communication": {"pattern": "Custom", "edges": [{"from": 0, "to": 1, "weight": 1001}]}},
        "spec.communication.edges[0].weight: Invalid value: 1001",
    ),
    "edges without a pattern": (
        {"communication": {"edges": [{"from": 0, "to": 1}]}},
        "communication.edges: allowed with pattern Custom only, not with pattern Auto",
    ),
    "edges with a pattern that has its own": (
        {"communication": {"pattern": "Star", "edges": [{"from": 0, "to": 1}]}},
        "communication.edges: allowed with pattern Custom only, not with pattern Star",
    ),
    "a negative rank": (custom((0, -1)), "spec.communication.edges[0].to: Invalid value: -1"),
    "an edge from a rank to itself": (custom((1, 1)), "edges: rank 1 is connected with itself"),
    "an edge in both directions": (custom((0, 1), (1, 0)), "listed in both directions"),
    "an edge twice": (custom((0, 1), (0, 1)), "spec.communication.edges[1]: Duplicate value"),
    "Custom without edges": (
        {"communication": {"pattern": "Custom"}},
        "communication.edges: required with pattern Custom",
    ),
    "edges without Custom": (
        {"communication": {"pattern": "AllToAll", "edges": [{"from": 0, "to": 1}]}},
        "communication.edges: allowed with pattern Custom only, not with pattern AllToAll",
    ),
    "no retries allowed below zero": (
        {"limits": {"maxAdmissionRetries": -1}},
        "spec.limits.maxAdmissionRetries: Invalid value: -1",
    ),
    "a profile with a capital": (
        {"workload": {"profile": "ResNet"}},
        'spec.workload.profile: Invalid value: "ResNet"',
    ),
    "a field that does not exist": ({"gpus": 3}, 'unknown field "spec.gpus"'),
    "no template": ({"template": None}, "spec.template: Required value"),
    "two replicas": ({"replicas": 2}, "replicas: not yet supported other than 1"),
    "an unknown mode": (
        {"resources": {"mode": "Greedy"}},
        'spec.resources.mode: Unsupported value: "Greedy": supported values: "Fixed", "Pro',
    ),
    "a least amount of a fixed job": (
        {"resources": {"min": {"cpu": 1}}},
        "resources: min and max are allowed with mode Proportional or Auto only, not with Fixed",
    ),
    "a largest amount of a fixed job": (
        {"resources": {"mode": "Fixed", "max": {"memory": "1Gi"}}},
        "resources: min and max are allowed with mode Proportional or Auto only, not with Fixed",
    ),
    "less CPU at most than at least": (
        {"resources": {"mode": "Auto", "min": {"cpu": 2}, "max": {"cpu": "1500m"}}},
        "resources.max.cpu: 1500m is less than resources.min.cpu 2; raise max or lower min",
    ),
    "less memory at most than at least": (
        {"resources": {"mode": "Auto", "min": {"memory": "1Gi"}, "max": {"memory": "1G"}}},
        "resources.max.memory: 1G is less than resources.min.memory 1Gi; raise max or lower min",
    ),
    "no CPU at least": (
        {"resources": {"mode": "Auto", "min": {"cpu": "0m"}}},
        "resources.min.cpu: 0m is not more than 0; set a positive quantity or remove the field",
    ),
    "no memory at most": (
        {"resources": {"mode": "Auto", "max": {"memory": 0}}},
        "resources.max.memory: 0 is not more than 0; set a positive quantity or remove the field",
    ),
    "a negative amount": (
        {"resources": {"mode": "Auto", "max": {"cpu": -1}}},
        "resources.max.cpu: -1 is not more than 0",
    ),
    "half a byte": (
        {"resources": {"mode": "Auto", "min": {"memory": "0.5"}}},
        'spec.resources.min.memory: Invalid value: "0.5"',
    ),
    "a word as an amount": (
        {"resources": {"mode": "Auto", "min": {"cpu": "four"}}},
        'spec.resources.min.cpu: Invalid value: "four"',
    ),
    "no time": (
        {"expected": {"durationSeconds": 0}},
        "spec.expected.durationSeconds: Invalid value: 0",
    ),
    "no label to avoid": (
        {"placement": {"avoid": [{"matchLabels": {}}]}},
        "spec.placement.avoid[0].matchLabels in body should have at least 1 properties",
    ),
    "a wrong name of a label to avoid": (
        {"placement": {"avoid": [{"matchLabels": {"a b": "c"}}]}},
        "matchLabels: a b is not the name of a label",
    ),
    "a wrong value of a label to avoid": (
        {"placement": {"avoid": [{"matchLabels": {"app": "a b"}}]}},
        "spec.placement.avoid[0].matchLabels.app: Invalid value",
    ),
    "an unknown level of pods to avoid": (
        {"placement": {"avoid": [{"matchLabels": {"app": "a"}, "level": "Rack"}]}},
        'spec.placement.avoid[0].level: Unsupported value: "Rack": supported values: "S',
    ),
    "too many rules about pods to avoid": (
        {"placement": {"avoid": [{"matchLabels": {"app": f"a{it}"}} for it in range(9)]}},
        "spec.placement.avoid: Too many: 9: must have at most 8 items",
    ),
    "throughput": (
        {"profiling": {"throughput": {"source": "Metrics"}}},
        "metrics: required with source Metrics, rejected with other sources",
    ),
}


@pytest.mark.parametrize(("spec", "message"), REJECTED.values(), ids=REJECTED.keys())
def test_wrong_gpujob_is_rejected_with_field_and_value(
    server: ApiServer, spec: dict[str, Any], message: str
) -> None:
    response = server.create(JOBS, gpu_job(spec))
    assert not response.accepted
    assert message in response.message


def test_name_that_is_too_long_for_a_label_is_rejected(server: ApiServer) -> None:
    response = server.create(JOBS, gpu_job({}, name="x" * 64))
    assert f"metadata.name: {'x' * 64} has 64 characters; at most 63" in response.message


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("gpujob-*.yaml")), ids=lambda path: path.stem)
def test_every_example_of_a_gpujob_is_accepted(server: ApiServer, path: Path) -> None:
    response = server.create(JOBS, yaml.safe_load(path.read_text()))
    assert response.accepted, response.message


@pytest.mark.parametrize("policy", list(PolicyName))
@pytest.mark.parametrize("pattern", [each for each in DeclaredPattern if each != "Custom"])
def test_every_pattern_and_policy_is_accepted(
    server: ApiServer, pattern: DeclaredPattern, policy: PolicyName
) -> None:
    spec = {"communication": {"pattern": pattern}, "placement": {"policy": policy}}
    response = server.create(JOBS, gpu_job(spec))
    assert response.accepted, response.message
    assert response.body["spec"]["communication"]["pattern"] == pattern
    assert response.body["spec"]["placement"] == {"policy": policy}


def test_least_utility_is_accepted_with_utility_and_without_a_policy(server: ApiServer) -> None:
    for placement in ({"policy": "Utility", "minUtilityPercent": 30}, {"minUtilityPercent": 0}):
        response = server.create(JOBS, gpu_job({"placement": placement}))
        assert response.accepted, response.message
        assert response.body["spec"]["placement"] == placement


def test_weights_of_edges_are_kept_and_default_to_1(server: ApiServer) -> None:
    edges = [{"from": 0, "to": 1, "weight": 1000}, {"from": 1, "to": 2}]
    response = server.create(
        JOBS, gpu_job({"communication": {"pattern": "Custom", "edges": edges}})
    )
    assert response.accepted, response.message
    kept = response.body["spec"]["communication"]["edges"]
    assert [edge["weight"] for edge in kept] == [1000, 1]


def test_minimal_gpujob_gets_the_defaults_of_the_models(server: ApiServer) -> None:
    response = server.create(JOBS, gpu_job({}))
    assert response.accepted, response.message
    assert GPUJobSpec.model_validate(response.body["spec"]) == GPUJobSpec(
        gpus_per_replica=3, template=TEMPLATE
    )
    # No pattern is stored: an older operator rejects the value Auto, but not a missing value.
    assert response.body["spec"]["communication"] == {"bandwidthSensitivity": "Auto"}


AUTO = {"mode": "Auto", "min": {"cpu": 1, "memory": "4Gi"}, "max": {"cpu": "2500m"}}


def test_least_and_largest_amounts_may_be_changed_but_not_the_mode(server: ApiServer) -> None:
    created = server.create(JOBS, gpu_job({"resources": AUTO}))
    assert created.accepted, created.message
    spec = GPUJobSpec.model_validate(created.body["spec"])
    assert spec.resources.to_json() == AUTO
    path = f"{JOBS}/{created.body['metadata']['name']}"
    for change in (
        {"max": {"cpu": 8, "memory": "64Gi"}},
        {"min": {"cpu": "1500m"}},
        {"min": None},
        {"max": None},
    ):
        changed = server.merge(path, {"spec": {"resources": change}})
        assert changed.accepted, changed.message
    assert changed.body["spec"]["resources"] == {"mode": "Auto"}
    for mode in ("Proportional", "Fixed", None):
        rejected = server.merge(path, {"spec": {"resources": {"mode": mode}}})
        assert "resources: mode and container are immutable" in rejected.message


def test_expected_duration_may_be_added_changed_and_removed(server: ApiServer) -> None:
    created = server.create(JOBS, gpu_job({}))
    path = f"{JOBS}/{created.body['metadata']['name']}"
    for seconds in (60, 3600, None):
        changed = server.merge(path, {"spec": {"expected": {"durationSeconds": seconds}}})
        assert changed.accepted, changed.message
        assert GPUJobSpec.model_validate(changed.body["spec"]).expected.duration_seconds == seconds


CHANGES: dict[str, dict[str, Any]] = {
    "gpusPerReplica": {"gpusPerReplica": 2},
    "workload": {"workload": {"profile": "other"}},
    "communication": {"communication": {"pattern": "AllToAll"}},
    "placement": {"placement": {"policy": "Greedy"}},
    "resources": {"resources": {"container": "main"}},
    "limits": {"limits": {"activeDeadlineSeconds": 60}},
    "template": {"template": {"spec": {"nodeSelector": {"a": "b"}}}},
    "priorityClassName": {"priorityClassName": "high"},
}


@pytest.mark.parametrize("field", CHANGES)
def test_a_field_of_the_spec_cannot_be_changed_or_added(server: ApiServer, field: str) -> None:
    created = server.create(JOBS, gpu_job({}))
    path = f"{JOBS}/{created.body['metadata']['name']}"
    response = server.merge(path, {"spec": CHANGES[field]})
    assert response.status == 422, response.body
    assert f"spec.{field}" in response.message
    assert "delete the GPUJob and create it again" in response.message


@pytest.mark.parametrize("field", ["workload", "placement", "resources", "limits"])
def test_a_field_of_the_spec_cannot_be_removed(server: ApiServer, field: str) -> None:
    said = {
        "workload": {"profile": "resnet"},
        "placement": {"policy": "Greedy"},
        "resources": {"container": "main"},
        "limits": {"activeDeadlineSeconds": 60},
    }
    created = server.create(JOBS, gpu_job(said))
    response = server.merge(f"{JOBS}/{created.body['metadata']['name']}", {"spec": {field: None}})
    assert response.status == 422, response.body
    assert f"spec.{field}" in response.message


def test_a_job_is_suspended_and_resumed(server: ApiServer) -> None:
    path = f"{JOBS}/{server.create(JOBS, gpu_job({})).body['metadata']['name']}"
    for suspend in (True, False):
        response = server.merge(path, {"spec": {"suspend": suspend}})
        assert response.accepted, response.message
        assert response.body["spec"]["suspend"] is suspend


STATUS = {
    "phase": "Running",
    "failures": {"application": 1, "admission": 2},
    "failedPodUIDs": ["u0"],
    "placements": [
        {
            "pod": "ring-x",
            "podUID": "u1",
            "node": "n1",
            "intended": ["GPU-a", "GPU-b"],
            "observed": ["GPU-a", "GPU-b"],
            "model": "eq2",
            "effectiveMBps": 57857,
            "aggregateMBps": 125000,
        }
    ],
    "resources": {"milliCPU": 4500, "memory": "16Gi", "reason": "share", "gainPercent": -3},
}


def test_status_is_a_subresource(server: ApiServer) -> None:
    path = f"{JOBS}/{server.create(JOBS, gpu_job({})).body['metadata']['name']}"
    both = {"spec": {"suspend": True}, "status": STATUS}

    by_main = server.merge(path, both).body
    assert "status" not in by_main
    assert by_main["spec"]["suspend"] is True

    changes = {"spec": {"suspend": False}, "status": STATUS}
    by_status = server.merge(f"{path}/status", changes, OPERATOR).body
    assert by_status["spec"]["suspend"] is True
    assert by_status["status"] == STATUS


def test_a_table_of_jobs_shows_node_and_bandwidth(server: ApiServer) -> None:
    name = server.create(JOBS, gpu_job({})).body["metadata"]["name"]
    server.merge(f"{JOBS}/{name}/status", {"status": STATUS}, OPERATOR)
    table = server.table(f"{JOBS}/{name}")
    shown = [column["name"] for column in table["columnDefinitions"] if column["priority"] == 0]
    assert shown == ["Name", "Phase", "GPUs", "Node", "EffectiveMBps", "Age"]
    assert table["rows"][0]["cells"][1:5] == ["Running", 3, "n1", 57857]
    wide = {
        column["name"]: cell
        for column, cell in zip(table["columnDefinitions"], table["rows"][0]["cells"], strict=True)
    }
    assert wide["CPU"] == 4500


def test_short_names_and_the_category_find_the_kinds(server: ApiServer) -> None:
    resources = server.get("/apis/gputopo.io/v1alpha1").body["resources"]
    found = {each["name"]: each for each in resources if "/" not in each["name"]}
    assert {name: each["shortNames"] for name, each in found.items()} == {
        "gpuensembles": ["gens"],
        "gpujobs": ["gj"],
        "gpuprofiles": ["gprof"],
        "gputopologies": ["gtopo"],
    }
    assert all(each["categories"] == ["gputopo"] for each in found.values())
    assert [name for name, each in found.items() if not each["namespaced"]] == ["gputopologies"]


def topology_object(spec: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {
        "apiVersion": "gputopo.io/v1alpha1",
        "kind": "GPUTopology",
        "metadata": {"name": name},
        "spec": spec,
    }


@pytest.mark.parametrize("name", names())
def test_every_topology_of_the_catalogue_is_accepted(server: ApiServer, name: str) -> None:
    spec = to_spec(named(name, node=name)).to_json()
    response = server.create(TOPOLOGIES, topology_object(spec, name))
    assert response.accepted, response.message
    assert response.body["spec"] == spec


def test_status_names_each_kind_of_counters_once(server: ApiServer) -> None:
    name = "counters"
    assert server.create(TOPOLOGIES, topology_object({}, name)).accepted
    path = f"{TOPOLOGIES}/{name}/status"
    nvlink = {"kind": "NVLink", "source": "Fields", "gpus": 8, "message": "GPM: not supported"}
    load = {"kind": "Load", "source": "None", "gpus": 0}
    written = server.merge(path, {"status": {"counters": [nvlink, load]}})
    assert written.accepted, written.message
    assert written.body["status"]["counters"] == [nvlink, {**load, "message": ""}]
    doubled = server.merge(path, {"status": {"counters": [nvlink, nvlink]}})
    assert "status.counters[1]: Duplicate value" in doubled.message


def test_topology_that_contradicts_itself_is_rejected(server: ApiServer) -> None:
    good = to_spec(named("dgx-a100", node="n1")).to_json()
    gpus, links = good["gpus"], good["links"]
    doubled = {"gpus": [gpus[0], {**gpus[1], "index": 0}]}
    response = server.create(TOPOLOGIES, topology_object(doubled, "doubled"))
    assert "gpus: an index occurs twice" in response.message
    response = server.create(
        TOPOLOGIES, topology_object({"gpus": gpus[:1], "links": links}, "lost")
    )
    assert "links: a or b is not the UUID of a GPU in gpus" in response.message
    alone = {"gpus": gpus, "links": [{**links[0], "b": links[0]["a"]}]}
    response = server.create(TOPOLOGIES, topology_object(alone, "alone"))
    assert "links: a link connects a GPU with itself" in response.message


def profile(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "gputopo.io/v1alpha1",
        "kind": "GPUProfile",
        "metadata": {"name": f"profile-{next(_number)}", "namespace": "default"},
        "spec": spec,
    }


def test_profile_may_be_empty_and_changed_later(server: ApiServer) -> None:
    created = server.create(PROFILES, profile({}))
    assert created.accepted, created.message
    path = f"{PROFILES}/{created.body['metadata']['name']}"
    assert server.merge(path, {"spec": {"bandwidthSensitivityPercent": 80}}).accepted
    response = server.merge(path, {"spec": {"bandwidthSensitivityPercent": 101}})
    assert "spec.bandwidthSensitivityPercent: Invalid value: 101" in response.message


def test_unsupported_field_of_a_profile_is_rejected(server: ApiServer) -> None:
    response = server.create(PROFILES, profile({"communication": {"pattern": "Ring"}}))
    assert "communication: not yet supported" in response.message


DATASET = {"size": "150Gi", "storageMBps": 500, "bytesPerStep": 28_000_000}


def test_profile_may_describe_its_data_set(server: ApiServer) -> None:
    spec = {"memoryFloor": "4Gi", "dataset": DATASET}
    response = server.create(PROFILES, profile(spec))
    assert response.accepted, response.message
    assert GPUProfileSpec.model_validate(response.body["spec"]).to_json() == spec


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"memoryFloor": "4Gi"}, "dataset: required with memoryFloor; set both fields or none"),
        ({"dataset": DATASET}, "memoryFloor: required with dataset; set both fields or none"),
        (
            {"memoryFloor": "4Gi", "dataset": {**DATASET, "size": "0"}},
            "dataset.size: 0 is not more than 0",
        ),
        ({"memoryFloor": "4Gi", "dataset": {"size": "1Gi"}}, "dataset.storageMBps: Required"),
        (
            {"memoryFloor": "4Gi", "dataset": {**DATASET, "storageMBps": 0}},
            "spec.dataset.storageMBps: Invalid value: 0",
        ),
        ({"memoryFloor": "4.5Gi", "dataset": DATASET}, 'spec.memoryFloor: Invalid value: "4.5Gi"'),
    ],
)
def test_wrong_data_set_of_a_profile_is_rejected(
    server: ApiServer, spec: dict[str, Any], message: str
) -> None:
    response = server.create(PROFILES, profile(spec))
    assert not response.accepted
    assert message in response.message

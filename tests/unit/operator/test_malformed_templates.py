"""Any value in a pod template is either used or rejected by a condition that names the field.

The schemas of GPUJob and GPUEnsemble accept any object as template. An exception would be no
condition, and the operator would try again for ever.
"""

import copy
import re
from collections.abc import Iterator
from typing import Any

import pytest

from gputopo_operator.decision.decide import decide
from gputopo_operator.decision.pod_template import pod_template
from gputopo_operator.decision.spec_error import SpecError
from gputopo_operator.model.jobs import GpuJobState, PodDefaults
from gputopo_operator.parse.jobs import parse_gpu_job
from support.builders.gpujobs import gpu_job
from support.operator.ensembles import EnsembleCluster, ensemble, member

TEMPLATE: dict[str, Any] = {
    "metadata": {"annotations": {"team": "x"}, "labels": {"team": "x"}},
    "spec": {
        "schedulerName": "gputopo",
        "restartPolicy": "Never",
        "priorityClassName": "high",
        "terminationGracePeriodSeconds": 30,
        "nodeSelector": {"node": "n1"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {"key": "node", "operator": "In", "values": ["n1"]}
                            ],
                            "matchFields": [
                                {"key": "metadata.name", "operator": "NotIn", "values": ["n9"]}
                            ],
                        }
                    ]
                }
            }
        },
        "initContainers": [{"name": "first", "env": [{"name": "A", "value": "1"}]}],
        "containers": [
            {
                "name": "main",
                "image": "x",
                "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"x": {}}}],
                "lifecycle": {"preStop": {"exec": {"command": ["true"]}}},
                "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Gi"}},
            },
            {"name": "second", "env": [{"name": "CUDA_VISIBLE_DEVICES", "value": "void"}]},
        ],
    },
}
WRONG: tuple[Any, ...] = (
    *(None, True, 0, -1, 1.5, 10**30, "", "x"),
    *([], [None], [1], [[]], [{}], [{"name": ["A"]}], {}, {"name": {}}, {"x": 1}),
)
Path = tuple[str | int, ...]


def paths(node: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the path of each node below ``node``."""
    children: dict[Any, Any] = dict(enumerate(node)) if isinstance(node, list) else node
    for name, child in children.items() if isinstance(children, dict) else ():
        yield (*path, name)
        yield from paths(child, (*path, name))


def replaced(path: Path, value: Any) -> dict[str, Any]:
    """Return the template with another value at a path."""
    changed: Any = copy.deepcopy(TEMPLATE)
    node = changed
    for name in path[:-1]:
        node = node[name]
    node[path[-1]] = copy.deepcopy(value)
    found: dict[str, Any] = changed
    return found


every_node = pytest.mark.parametrize(
    "path", list(paths(TEMPLATE)), ids=lambda path: ".".join(map(str, path))
)

SPECS: tuple[dict[str, Any], ...] = (
    {"priorityClassName": "high", "gpusPerReplica": 2},
    {"gpusPerReplica": 1, "sharing": {"mode": "Allowed"}},
    {"resources": {"mode": "Auto", "max": {"cpu": 8}}},
    {"resources": {"container": "main"}},
    {"workload": {"profile": "x"}, "profiling": {"measure": ["Links"]}, "gpusPerReplica": 2},
)


@every_node
def test_any_value_in_the_template_of_a_job_is_used_or_rejected(path: Path) -> None:
    defaults = PodDefaults(shares=True)
    for value in WRONG:
        for fields in SPECS:
            spec = {"gpusPerReplica": 2, "template": replaced(path, value), **fields}
            job = parse_gpu_job(identified(gpu_job("train", **spec)))
            assert job.spec is not None, job.spec_error
            state = GpuJobState(job, None, (), {}, {}, None, "2026-01-01T00:00:00Z")
            plan = decide(state, defaults)
            assert plan.status is not None
            accepted = {each.type: each for each in plan.status.conditions}["Accepted"]
            if accepted.status == "False":
                assert accepted.reason == "SpecRefused"
                assert accepted.message.startswith("spec."), accepted.message
            else:
                assert plan.create_job or plan.create_link_run


@every_node
def test_any_value_in_the_template_of_a_member_is_used_or_rejected(path: Path) -> None:
    for value in WRONG:
        job = {"spec": {"template": replaced(path, value)}}
        decided(ensemble(member("a", {1: 10}, jobTemplate=job), preprocessing=preprocessing()))


@every_node
def test_any_value_in_the_template_of_the_preprocessor_is_used_or_rejected(path: Path) -> None:
    for value in WRONG:
        decided(ensemble(member("a", {1: 10}), preprocessing=preprocessing(replaced(path, value))))


def preprocessing(template: dict[str, Any] | None = None) -> dict[str, Any]:
    rates = [{"cores": 1, "itemsPerSecond": 60}]
    return {"throughput": rates, "template": TEMPLATE if template is None else template}


def decided(raw: dict[str, Any]) -> EnsembleCluster:
    """Decide twice: the members start when the Service of the preprocessor exists."""
    cluster = EnsembleCluster({"n1": 4}, raw)
    cluster.decide()
    cluster.decide()
    accepted = cluster.condition("Accepted")
    if accepted["status"] == "False":
        assert accepted["message"].startswith("spec."), accepted["message"]
    return cluster


def test_template_without_a_wrong_value_is_used() -> None:
    job = {"spec": {"template": TEMPLATE}}
    raw = ensemble(member("a", {1: 10}, jobTemplate=job), preprocessing=preprocessing())
    cluster = decided(raw)
    assert list(cluster.jobs) == ["search-a"]
    assert list(cluster.preprocessors) == ["search-preprocessor-1"]


@pytest.mark.parametrize(
    ("pod", "message"),
    [
        ({"containers": [1]}, "containers[0]: 1:"),
        ({"containers": 1.5}, "containers: 1.5:"),
        ({"containers": [{"env": 1.5}]}, "containers[0].env: 1.5:"),
        ({"initContainers": [{"env": ["A"]}]}, "initContainers[0].env[0]: 'A':"),
    ],
)
def test_message_about_the_template_of_a_member_names_field_and_value(
    pod: dict[str, Any], message: str
) -> None:
    job = {"spec": {"template": {"spec": pod}}}
    cluster = decided(ensemble(member("a", {1: 10}, jobTemplate=job)))
    prefix = "spec.members[a].jobTemplate.spec.template.spec."
    assert cluster.condition("Accepted")["message"].startswith(prefix + message)


@pytest.mark.parametrize("name", [["A"], {"x": 1}, 5, None])
def test_name_of_a_variable_is_a_string(name: object) -> None:
    template = {"spec": {"containers": [{"name": "main", "env": [{"name": name}]}]}}
    spec = parse_gpu_job(identified(gpu_job("train", template=template))).spec
    assert spec is not None
    message = f"spec.template.spec.containers[0].env[0].name: {name!r} is not a string"
    with pytest.raises(SpecError, match=re.escape(message)):
        pod_template("train", spec, None, PodDefaults())


def identified(raw: dict[str, Any]) -> dict[str, Any]:
    raw["metadata"] |= {"uid": "u", "generation": 1}
    return raw

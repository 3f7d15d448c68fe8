"""Objects that no operator has made, with names and labels of an ensemble, change nothing."""

import copy
from typing import Any

import pytest

from gputopo.api.names import (
    ENSEMBLE_LABEL,
    ENSEMBLE_MEMBER_LABEL,
    ENSEMBLE_NODE_ANNOTATION,
    ENSEMBLE_PREPROCESSOR_LABEL,
    JOB_LABEL,
)
from gputopo.runtime.times import timestamp
from gputopo_operator.parse.preprocessors import parse_preprocessors
from support.api.faults import Fault
from support.operator.ensembles import EnsembleCluster, ensemble, member
from support.operator.served_ensemble import Served

PREPROCESSOR = {ENSEMBLE_LABEL: "x", ENSEMBLE_PREPROCESSOR_LABEL: "1"}


def job(containers: list[dict[str, Any]], **metadata: Any) -> dict[str, Any]:
    known = {"name": "x", "namespace": "tenant", "uid": "u", "labels": PREPROCESSOR}
    return {
        "metadata": known | metadata,
        "spec": {"template": {"spec": {"containers": containers}}},
    }


def owned(containers: list[dict[str, Any]], **metadata: Any) -> dict[str, Any]:
    owner = {"uid": "uid-x", "kind": "GPUEnsemble", "controller": True}
    return job(containers, ownerReferences=[owner], **metadata)


def test_job_without_cpus_and_without_owner_is_left_alone(served: Served) -> None:
    served.api.create("jobs", job([{"name": "main", "resources": {}}]))
    served.reconcile()
    served.reconcile()
    assert served.of("a")["phase"] == "Starting"


def test_preprocessors_are_jobs_of_an_ensemble_also_if_they_were_changed() -> None:
    two = {"name": "main", "resources": {"limits": {"cpu": "2"}}}
    other = {"name": "main", "resources": {"limits": {"cpu": "1500m"}}}
    jobs = [owned([two]), owned([other]), owned([{}]), owned([]), job([two])]
    jobs += [owned([two], deletionTimestamp="now"), owned([two], labels={ENSEMBLE_LABEL: "x"})]
    found = parse_preprocessors(jobs)
    assert [each.cores for each in found["uid-x"]] == [2, 0, 0, 0, 2]
    assert [each.ended for each in found["uid-x"]] == [False] * 4 + [True]
    assert list(found) == ["uid-x"]


def test_copied_gpujob_does_not_replace_the_member() -> None:
    cluster = EnsembleCluster({"n1": 8}, ensemble(member("a", {1: 100, 2: 190}), maxGPUs=2))
    cluster.run_on()
    copied = copy.deepcopy(cluster.jobs["search-a"])
    copied["metadata"] |= {"name": "z-copy", "uid": "uid-copy", "ownerReferences": []}
    cluster.jobs["z-copy"] = copied
    writes = cluster.decide()
    assert (writes.status, writes.create, writes.delete) == (None, {}, ())
    assert cluster.phases() == {"a": "Running"}


def test_pod_of_a_gpujob_of_the_same_name_is_not_of_the_member() -> None:
    cluster = EnsembleCluster({"n1": 8}, ensemble(member("a", {1: 100})))
    cluster.decide()
    cluster.pods["search-a-xyz"] = {
        "metadata": {
            "name": "search-a-xyz",
            "namespace": "default",
            "uid": "uid-pod",
            "resourceVersion": "1",
            "labels": {JOB_LABEL: "search-a"},
            "ownerReferences": [{"uid": "uid-child", "controller": True}],
            "creationTimestamp": timestamp(cluster.now),
        },
        "spec": {"nodeName": "n1", "containers": [{"name": "main"}]},
    }
    found = cluster.found()
    assert found.remains == {}
    assert found.jobs["a"].pod is None


@pytest.mark.parametrize(
    ("taken", "text"),
    [
        (True, "this GPUEnsemble does not own it"),
        (False, "GPUJob search-a was rejected: the quota has been modified"),
    ],
)
def test_only_an_existing_gpujob_is_a_name_clash(served: Served, *, taken: bool, text: str) -> None:
    if taken:
        raw = {"metadata": {"name": "search-a", "namespace": "default"}, "spec": {}}
        served.api.create("gpujobs", raw)
    else:
        served.api.faults.append(Fault("POST", "/gpujobs", 409, "the quota has been modified"))
    assert served.reconcile() == 60
    assert text in served.of("a")["message"]
    assert served.of("a")["phase"] == "Waiting"


@pytest.mark.parametrize("owned", [False, True])
def test_only_gpujobs_of_an_ensemble_reserve_gpus(served: Served, *, owned: bool) -> None:
    other = ensemble(member("y", {1: 10}))
    other["metadata"] |= {"name": "x", "namespace": "tenant"}
    served.api.create("gpuensembles", other)
    created = served.api.get("gpuensembles", "x", "tenant")
    assert created is not None
    owner = {"uid": created["metadata"]["uid"], "kind": "GPUEnsemble", "controller": True}
    metadata = {
        "name": "x-y",
        "namespace": "tenant",
        "labels": {ENSEMBLE_LABEL: "x", ENSEMBLE_MEMBER_LABEL: "y"},
        "annotations": {ENSEMBLE_NODE_ANNOTATION: "n1"},
        **({"ownerReferences": [owner]} if owned else {}),
    }
    served.api.create("gpujobs", {"metadata": metadata, "spec": {"gpusPerReplica": 4}})
    served.reconcile()
    assert (served.api.get("gpujobs", "search-a") is None) is owned

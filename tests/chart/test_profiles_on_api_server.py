"""Samples of agents become facts of new pods: operator, CRDs and policy on a real API server."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gputopo.api.known_facts import parse_facts
from gputopo.api.names import PROFILE_ANNOTATION
from gputopo_kube.credentials import connected
from gputopo_kube.document import ObjectKey
from gputopo_operator.controller.job_api import JobApi, ProfileLimitError
from support.builders.node_reports import measurement, node_sample, reporting
from support.builders.samples import BEST, WORST
from support.control_plane.api_server import (
    PODS,
    PROFILES,
    START_SECONDS,
    TOPOLOGIES,
    ApiServer,
    service_account,
)
from support.control_plane.components import running_operator
from support.control_plane.scheduler_pairs import wait_until

AGENT = service_account("gputopo-deviceplugin", node="measured")


@pytest.fixture(scope="module", autouse=True)
def operator(server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("operator")
    with running_operator(server, folder, resync_seconds=300.0) as log:
        yield log
    assert "Traceback" not in log.read_text()


def runs_of(profile: str) -> dict[str, Any]:
    """Return measurements and samples of six running pods, three of them on the worst links."""
    samples = [
        node_sample(number, profile=profile, podUID=f"{profile}-{number}")
        | ({"effectiveMBps": WORST, "microStepsPerSecond": 6_900_000} if number % 2 else {})
        for number in range(6)
    ]
    pods = [f"{profile}-{number}" for number in range(6)]
    return {
        "measurements": [measurement(pod, podUID=pod, profile=profile) for pod in pods],
        "samples": samples,
    }


def publish(server: ApiServer, **report: Any) -> None:
    """Write the GPUTopology of the node ``measured`` with the rights of its agent."""
    topology = reporting("measured", **report)
    server.request("POST", TOPOLOGIES, {**topology, "status": {}}, user=AGENT)
    path = f"{TOPOLOGIES}/measured/status"
    written = server.merge(path, {"status": topology["status"]}, AGENT)
    assert written.accepted, written.message
    assert written.body["status"]["samples"] == topology["status"]["samples"]


@pytest.mark.usefixtures("mutating_policies")
def test_pod_of_a_measured_workload_gets_the_facts_of_all_its_runs(server: ApiServer) -> None:
    publish(server, **runs_of("fast-links"))
    status = wait_status(server, "fast-links")
    [links] = status["facts"]["links"]
    assert (links["gpus"], links["sensitivity"]) == (2, "Sensitive")
    assert "Measured" in {each["type"] for each in status["conditions"]}
    facts = created_facts(server, "fast-links")
    assert facts == status["podAnnotation"]
    parsed = parse_facts({"gputopo.io/facts": facts})
    assert parsed is not None
    assert parsed.source == "Measured"
    events = server.get("/apis/events.k8s.io/v1/namespaces/default/events").body["items"]
    [note] = [each["note"] for each in events if each["reason"] == "SensitivityMeasured"]
    assert note.startswith("2 GPUs: Sensitive (was Unknown): ")


@pytest.mark.usefixtures("mutating_policies")
def test_pod_gets_what_counters_showed_of_one_run(server: ApiServer) -> None:
    traffic = {
        "source": "NVLinkPairs",
        "bytesPerStep": 10**6,
        "pattern": "AllToAll",
        "confidencePermille": 960,
        "windows": 20,
    }
    load = {"source": "GPM", "occupancyMicroseconds": 50_000, "dramMicroseconds": 20_000}
    report = runs_of("counted")
    for sample in report["samples"]:
        sample |= {"effectiveMBps": BEST, "microStepsPerSecond": 10_000_000}
        sample |= {"traffic": traffic, "load": load}
    publish(server, **report)
    status = wait_status(server, "counted")
    assert status["facts"].get("links", []) == []
    [seen] = status["facts"]["communication"]
    assert (seen["pattern"], seen["confidencePermille"], seen["windows"]) == ("AllToAll", 960, 120)
    assert status["facts"]["load"] == [{"gpus": 2, "samples": 6, **load}]
    parsed = parse_facts({"gputopo.io/facts": created_facts(server, "counted")})
    assert parsed is not None
    assert (parsed.source, str(parsed.patterns[2])) == (
        "Counters",
        "AllToAll, seen in 96 % of 120 windows",
    )
    assert parsed.links[2].source == "Counters"
    events = server.get("/apis/events.k8s.io/v1/namespaces/default/events").body["items"]
    [note] = [each["note"] for each in events if each["reason"] == "PatternMeasured"]
    assert note == "2 GPUs: AllToAll, seen in 96 % of 120 windows (was Unknown)"


def wait_status(server: ApiServer, profile: str) -> dict[str, Any]:
    """Wait until a GPUProfile has six samples; return its status."""

    def status() -> dict[str, Any]:
        found = server.get(f"{PROFILES}/{profile}")
        return found.body.get("status", {}) if found.accepted else {}

    wait_until(lambda: status().get("sampleCount") == 6, seconds=30)
    return status()


def created_facts(server: ApiServer, profile: str) -> str:
    """Return the facts of a new pod; the policy sees a GPUProfile shortly after its change."""
    pod = {
        "metadata": {"name": "next", "annotations": {PROFILE_ANNOTATION: profile}},
        "spec": {"containers": [{"name": "main", "image": "busybox"}]},
    }
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        response = server.request("POST", f"{PODS}?dryRun=All", pod)
        assert response.accepted, response.message
        annotations = response.body["metadata"]["annotations"]
        if "gputopo.io/facts" in annotations:
            return str(annotations["gputopo.io/facts"])
        time.sleep(0.1)
    raise AssertionError("the pod gets no facts")


def test_table_of_profiles_shows_sensitivity_and_samples(server: ApiServer) -> None:
    publish(server, **runs_of("slow-links"))
    wait_status(server, "slow-links")
    table = server.table(f"{PROFILES}/slow-links")
    columns = [column["name"] for column in table["columnDefinitions"]]
    shown = dict(zip(columns, table["rows"][0]["cells"], strict=True))
    assert shown["Measured"].startswith("45 % (")
    assert shown["Samples"] == 6


def test_operator_counts_the_profiles_of_a_namespace(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig))
    for namespace in ("full", "open"):
        assert server.create("/api/v1/namespaces", {"metadata": {"name": namespace}}).accepted
    with connected(10, "test") as connection:
        api = JobApi(connection, most_profiles=3)
        for number in range(3):
            api.create_profile(ObjectKey("full", f"run-{number}"))
        with pytest.raises(ProfileLimitError, match="namespace full has 3 GPUProfiles"):
            api.create_profile(ObjectKey("full", "run-3"))
        api.create_profile(ObjectKey("open", "run-3"))
    left = server.get("/apis/gputopo.io/v1alpha1/namespaces/full/gpuprofiles").body["items"]
    assert [each["metadata"]["name"] for each in left] == ["run-0", "run-1", "run-2"]

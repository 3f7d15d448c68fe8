"""``gputopo explain`` says why a pod without a node, or a GPUJob without a pod, is pending."""

import re
from pathlib import Path

import pytest

from support.api.static import StaticApi
from support.builders.live import installed
from support.builders.objects import condition, pod
from support.cli import live_cluster as cluster
from support.cli.command_line import Command
from support.cli.reachable import Serve

GUIDE = Path(__file__).parents[3] / "docs/use/explain.md"
DEFAULT = "/api/v1/namespaces/default/pods"
GPU_JOB = f"{cluster.OWN}/namespaces/default/gpujobs/finetune"


@pytest.fixture
def api(serve: Serve) -> StaticApi:
    return serve(cluster.live_cluster())


def test_guide_shows_a_pending_pod(api: StaticApi, gputopo: Command) -> None:
    assert api.url
    shown = re.search(r"\$ kubectl gputopo explain large\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert shown
    assert gputopo("explain large").out == shown[1]


def test_json_of_a_pending_pod_has_its_state_and_the_reasons(
    api: StaticApi, gputopo: Command
) -> None:
    assert api.url
    found = gputopo("explain pod/large -o json").document
    assert (found["kind"], found["state"], found["pod"]) == ("Pending", "Waiting", "large")
    assert [reason["nodes"] for reason in found["reasons"]] == [["n1", "n3"], ["n2"]]
    assert found["notes"] == []


def test_queued_gpujob_has_its_place_and_where_it_would_fit(
    api: StaticApi, gputopo: Command
) -> None:
    out = gputopo("explain finetune").out
    assert "waits in gputopo's queue at position 1: waiting for 4 free GPUs on one node\n" in out
    assert "1 GPUJob waits, order unknown\n" in out
    assert "if it started now:\nthe pod waits for 4 GPUs on one node" in out
    found = gputopo("explain gpujob/finetune -o json").document
    assert (found["kind"], found["state"], found["podExists"]) == ("GPUJob", "Queued", False)
    assert (found["queue"]["position"], found["queue"]["length"]) == (1, 1)
    assert found["pod"]["state"] == "Waiting"
    assert api.url


@pytest.mark.parametrize(
    ("queue", "text"),
    [
        ({"reservedNode": "n1"}, "node n1 is reserved for it: it starts when its GPUs are free\n"),
        ({"waitingSince": "2026-01-01T00:00:00Z"}, "it has waited longer than maxSkipSeconds and"),
        ({"waitingSince": "2100-01-01T00:00:00Z"}, "it comes before GPUJobs that have waited less"),
    ],
)
def test_place_in_the_queue_says_when_the_gpujob_comes_first(
    api: StaticApi, gputopo: Command, queue: dict[str, str], text: str
) -> None:
    job = cluster.queued_job()
    job["status"]["queue"] |= queue
    api.objects[GPU_JOB] = job
    api.lists[cluster.GPU_JOBS] = [job, job]
    api.lists[cluster.DEPLOYMENTS] = [installed("--queue-order=FIFO")]
    out = gputopo("explain finetune").out
    assert text in out
    assert "2 GPUJobs wait, order FIFO\n" in out


def test_suspended_gpujob_names_what_starts_it(api: StaticApi, gputopo: Command) -> None:
    job = cluster.queued_job()
    job["status"] = {"conditions": [condition("Suspended", "True", "SuspendedByUser")]}
    job["spec"]["template"] = {}
    api.objects[GPU_JOB] = job
    out = gputopo("explain finetune").out
    assert "spec.suspend: true: the user has suspended it\nwhat to do: `kubectl -n" in out
    assert gputopo("explain finetune -o json").document["pod"] is None


def test_gpujob_whose_pod_waits_shows_the_pod(api: StaticApi, gputopo: Command) -> None:
    job = cluster.queued_job()
    job["status"] = {}
    api.objects[GPU_JOB] = job
    waiting = pod("finetune-x", 16)
    waiting["metadata"]["labels"] = {"gputopo.io/job": "finetune"}
    api.lists[DEFAULT] = [waiting]
    assert gputopo("explain finetune").out.startswith(
        "pod default/finetune-x\nthe pod needs 16 GPUs, the largest node has 8\n"
    )


def test_pending_gpujob_of_an_ensemble_names_it(api: StaticApi, gputopo: Command) -> None:
    job = cluster.queued_job()
    job["metadata"]["labels"] = {"gputopo.io/ensemble": "search"}
    api.objects[GPU_JOB] = job
    title = "gpujob default/finetune: its GPUEnsemble search chose node and GPUs\n"
    assert gputopo("explain finetune").out.startswith(title)
    assert gputopo("explain finetune -o json").document["ensemble"] == "search"


@pytest.mark.parametrize(("type_", "header"), [("Ready", "gpujob"), ("Failed", "pod")])
def test_after_a_failed_pod_the_gpujob_is_explained_until_it_has_failed(
    api: StaticApi, gputopo: Command, type_: str, header: str
) -> None:
    job = cluster.queued_job()
    job["status"] = {"conditions": [condition(type_, "True", "Why")]}
    api.objects[GPU_JOB] = job
    ended = pod("finetune-x", 4, phase="Failed")
    ended["metadata"]["labels"] = {"gputopo.io/job": "finetune"}
    api.lists[DEFAULT] = [ended]
    assert gputopo("explain finetune").out.startswith(f"{header} default/finetune")


def test_missing_permissions_are_noted(api: StaticApi, gputopo: Command) -> None:
    api.forbid(cluster.NODES, "denied")
    assert "note: nodes: no permission: denied" in gputopo("explain large").out


def test_pod_that_cannot_be_parsed_is_an_error(api: StaticApi, gputopo: Command) -> None:
    api.objects[f"{DEFAULT}/large"]["spec"]["containers"] = 3
    done = gputopo("explain large")
    assert done.status == 2
    assert done.err.startswith("gputopo: pod spec.containers: 3:")

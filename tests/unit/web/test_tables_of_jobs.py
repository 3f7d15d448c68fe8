"""Rows of the table of jobs, the panel of a pod, and the history."""

import json

import pytest

from gputopo.api.names import EDGES_ANNOTATION, PATTERN_ANNOTATION, PLACEMENT_ANNOTATION
from gputopo_kube.document import ObjectKey
from gputopo_web.facts.decisions import MOST_DECISIONS, DecisionKind
from gputopo_web.facts.jobs import JobRow, search_rows
from gputopo_web.facts.pods import describe_placement, pod_gpus
from gputopo_web.pages.overview import ROWS_OF_PAGE, all_rows, shown_jobs
from gputopo_web.pages.queries import Selection
from gputopo_web.state.cluster import ClusterState
from support.builders import objects
from support.builders.objects import Document
from support.cli.healthy_cluster import pod, topology, uuids
from support.web.clusters import (
    NOW,
    PLACEMENT,
    cluster,
    placed_pod,
    set_gpu_job,
    set_pod,
    set_topology,
    two_nodes,
)


def rows(state: ClusterState) -> dict[str, JobRow]:
    return {str(row.key): row for row in all_rows(state)}


def waiting_pod(name: str, **status: object) -> Document:
    document = objects.pod(name, 2)
    document["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    document["status"] |= status
    return document


def gpu_job(name: str, **status: object) -> Document:
    return {
        "metadata": {
            "name": name,
            "namespace": "ml",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"gpusPerReplica": 4},
        "status": {"phase": "Pending", **status},
    }


def test_a_running_pod_has_its_gpus_in_rank_order_and_its_share_of_the_best_bandwidth() -> None:
    running = placed_pod("train", "n1", uuids("n1", 3, 0))
    row = rows(cluster(topologies=[topology("n1")], pods=[running]))["default/train"]
    assert (row.node, row.indices, row.gpus, row.state) == ("n1", (3, 0), 2, "Running")
    assert row.percent_of_best == 80
    assert row.since == "2026-01-02T03:04:05Z"
    assert row.reason == ""


def test_a_placement_without_figures_has_no_share() -> None:
    assert rows(two_nodes())["default/train"].percent_of_best is None


def test_a_placement_that_cannot_be_parsed_is_left_out() -> None:
    broken = placed_pod("train", "n1", uuids("n1", 0))
    broken["metadata"]["annotations"][PLACEMENT_ANNOTATION] = "{"
    assert rows(cluster(pods=[broken]))["default/train"].placement is None


def test_a_terminating_pod_is_shown_as_such_and_an_ended_pod_not_at_all() -> None:
    deleted = pod("deleted", "n1", uuids("n1", 0))
    deleted["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    ended = pod("ended", "n1", uuids("n1", 1))
    ended["status"]["phase"] = "Succeeded"
    found = rows(cluster(topologies=[topology("n1")], pods=[deleted, ended]))
    assert [(str(row.key), row.state) for row in found.values()] == [
        ("default/deleted", "Terminating")
    ]


@pytest.mark.parametrize(
    ("conditions", "reason"),
    [
        ([], "no scheduler has examined the pod yet"),
        (
            [
                objects.condition("Ready", "False", "x"),
                objects.condition("PodScheduled", "True", ""),
            ],
            "no scheduler has examined the pod yet",
        ),
        ([objects.condition("PodScheduled", "False", "Unschedulable")], "the message"),
        (
            [objects.condition("PodScheduled", "False", "Unschedulable") | {"message": ""}],
            "Unschedulable",
        ),
    ],
)
def test_a_waiting_pod_shows_the_schedulers_reason(conditions: list[Document], reason: str) -> None:
    row = rows(cluster(pods=[waiting_pod("w", conditions=conditions)]))["default/w"]
    assert (row.state, row.waiting, row.reason) == ("Waiting", True, reason)
    assert row.since == "2026-01-01T00:00:00Z"


def test_a_pod_with_scheduling_gates_shows_the_gates() -> None:
    gated = waiting_pod("w")
    gated["spec"]["schedulingGates"] = [{"name": "a"}, {"name": "b"}]
    assert rows(cluster(pods=[gated]))["default/w"].reason == "scheduling gates: a, b"


def test_a_gpu_job_has_a_row_until_it_has_a_pod_or_has_ended() -> None:
    state = cluster()
    queue = {"position": 3, "reason": "no node has 4 free GPUs", "waitingSince": NOW}
    set_gpu_job(state, gpu_job("waits", queue=queue))
    set_gpu_job(state, gpu_job("done", phase="Succeeded"))
    set_gpu_job(state, gpu_job("runs"))
    own = pod("runs-0", "n1", uuids("n1", 0), namespace="ml")
    own["metadata"]["labels"] = {"gputopo.io/job": "runs"}
    set_pod(state, own)
    found = rows(state)
    assert set(found) == {"ml/waits", "ml/runs-0"}
    assert found["ml/runs-0"].job == ObjectKey("ml", "runs")
    assert found["ml/waits"].reason == "position 3 in the queue: no node has 4 free GPUs"
    assert (found["ml/waits"].gpus, found["ml/waits"].since) == (4, NOW)


def test_a_gpu_job_outside_the_queue_shows_its_newest_condition() -> None:
    state = cluster()
    old = objects.condition("Accepted", "True", "Valid")
    new = objects.condition("Placed", "False", "Waiting")
    new["lastTransitionTime"] = "2026-02-01T00:00:00Z"
    set_gpu_job(state, gpu_job("a", conditions=[new, old]))
    set_gpu_job(state, gpu_job("b", phase=None))
    set_gpu_job(state, gpu_job("c", conditions="x") | {"spec": {"gpusPerReplica": "many"}})
    found = rows(state)
    assert found["ml/a"].reason == "Waiting: the message"
    assert (found["ml/b"].state, found["ml/b"].reason) == ("Unknown", "")
    assert found["ml/c"].reason.startswith("status.conditions: ")
    assert found["ml/c"].gpus == 0


def test_waiting_jobs_come_first_by_the_begin_of_their_wait() -> None:
    early, late = waiting_pod("a"), waiting_pod("b")
    early["metadata"]["creationTimestamp"] = "2026-01-03T00:00:00Z"
    state = cluster(pods=[early, late, pod("old", "n1", []), pod("run", "n1", uuids("n1", 0))])
    assert list(rows(state)) == ["default/b", "default/a", "default/run"]


def test_search_and_pages_of_jobs() -> None:
    found = all_rows(cluster(pods=[waiting_pod(f"p{n:03}") for n in range(ROWS_OF_PAGE + 5)]))
    shown = shown_jobs(found, Selection(job_page=2))
    assert [row.key.name for row in shown.rows] == [f"p{n}" for n in range(100, 105)]
    assert (shown.pages, shown.counts) == (2, "105 waiting, 0 running")
    assert [str(row.key) for row in search_rows(found, "WAITING p003")] == ["default/p003"]
    assert search_rows(found, "p003 other") == []


def test_the_figures_of_a_placement_are_described_with_their_model() -> None:
    assert dict(describe_placement(PLACEMENT)) == {
        "Pattern": "Ring",
        "Policy": "Preserve",
        "Sensitive to bandwidth": "yes (Default)",
        "Because of": "GPUProfile bert: 45 % (40..50) slower on the worst links, 8 samples",
        "Effective bandwidth": "57.857 GB/s, model eq2",
        "Of all GPU sets of the idle node": "40 GB/s (model physical); worst 10 GB/s, best 50 GB/s",
        "Aggregate bandwidth": "120 GB/s, at most 125 GB/s is possible",
        "Preserved for later jobs": "300 GB/s",
    }
    unknown = dict.fromkeys(
        (
            *("fact", "model", "physical_mb_per_s", "physical_worst_mb_per_s"),
            *("physical_best_mb_per_s", "aggregate_bound_mb_per_s"),
        )
    )
    found = dict(describe_placement(PLACEMENT.model_copy(update={**unknown, "sensitive": False})))
    assert found["Effective bandwidth"] == "57.857 GB/s"
    assert found["Sensitive to bandwidth"] == "no (Default)"
    assert "Because of" not in found
    half = PLACEMENT.model_copy(update={"physical_best_mb_per_s": None})
    text = dict(describe_placement(half))["Of all GPU sets of the idle node"]
    assert text.endswith("best unknown")
    learnt = PLACEMENT.model_copy(update={"pattern_fact": "GPUProfile bert: Ring"})
    assert dict(describe_placement(learnt))["Pattern because of"] == "GPUProfile bert: Ring"
    none = PLACEMENT.model_copy(update={"effective_mb_per_s": None})
    assert "Effective bandwidth" not in dict(describe_placement(none))


def _placed_as(pattern: str) -> str:
    return PLACEMENT.model_copy(update={"pattern": pattern}).dump()


@pytest.mark.parametrize(
    ("annotations", "edges"),
    [
        ({}, ((0, 3), (3, 2), (2, 0))),
        ({PATTERN_ANNOTATION: "Custom", EDGES_ANNOTATION: '[{"from": 0, "to": 2}]'}, ((0, 2),)),
        ({PATTERN_ANNOTATION: "nonsense"}, ((0, 3), (0, 2), (3, 2))),
        ({PLACEMENT_ANNOTATION: _placed_as("Star")}, ((0, 3), (0, 2))),
        ({PLACEMENT_ANNOTATION: _placed_as("Torus")}, ((0, 3), (0, 2), (3, 2))),
        ({PLACEMENT_ANNOTATION: "{"}, ((0, 3), (0, 2), (3, 2))),
        (
            {PLACEMENT_ANNOTATION: _placed_as("Star"), PATTERN_ANNOTATION: "Chain"},
            ((0, 3), (3, 2)),
        ),
    ],
)
def test_the_links_of_a_pod_are_those_of_its_pattern(
    annotations: dict[str, str], edges: tuple[tuple[int, int], ...]
) -> None:
    document = pod("p", "n1", [*uuids("n1", 0, 3, 2), "GPU-gone"])
    document["metadata"]["annotations"] |= annotations
    state = cluster(topologies=[topology("n1")], pods=[document])
    node = state.nodes.items[ObjectKey("", "n1")].topology
    assert node is not None
    found = pod_gpus(state.pods.items[ObjectKey("default", "p")].placed, node)
    assert found.chosen == (0, 3, 2)
    assert {frozenset(edge) for edge in found.edges} == {frozenset(edge) for edge in edges}


def test_the_history_has_one_entry_when_a_pod_gets_gpus_and_one_when_it_ends() -> None:
    state = cluster(topologies=[topology("n1")])
    running = placed_pod("train", "n1", uuids("n1", 3, 0))
    set_pod(state, running)
    set_pod(state, running)
    assert "history" in state.take_changes().sections
    set_pod(state, running, deleted=True)
    newest, oldest = state.history.newest_first()
    assert (newest.kind, newest.time) == (DecisionKind.ENDED, NOW)
    assert (oldest.kind, oldest.time) == (DecisionKind.PLACED, "2026-01-02T03:04:05Z")
    assert (oldest.node, oldest.gpus, oldest.placement) == ("n1", (3, 0), PLACEMENT)
    assert not state.history.seen


def test_the_history_shows_why_kubelet_rejected_a_pod() -> None:
    state = cluster()
    rejected = pod("p", "n1", uuids("n1", 1))
    rejected["status"] = {"phase": "Failed", "reason": "OutOfgpu", "message": "no GPU"}
    set_pod(state, rejected)
    [entry] = state.history.newest_first()
    assert (entry.kind, entry.reason) == (DecisionKind.REJECTED, "OutOfgpu: no GPU")


def test_the_history_of_a_pod_that_succeeds_and_is_deleted_later_has_one_end() -> None:
    state = cluster(topologies=[topology("n1")])
    document = pod("p", "n1", uuids("n1", 1))
    set_pod(state, document)
    document["status"]["phase"] = "Succeeded"
    set_pod(state, document)
    set_pod(state, document, deleted=True)
    kinds = [entry.kind for entry in state.history.newest_first()]
    assert kinds == [DecisionKind.ENDED, DecisionKind.PLACED]


def test_pods_that_are_listed_before_the_topologies_have_the_indices_of_their_gpus() -> None:
    state = cluster(pods=[pod("train", "n1", uuids("n1", 3, 2)), pod("other", "n2", ["GPU-gone"])])
    assert {entry.gpus for entry in state.history.newest_first()} == {()}
    for name, sections in (("n1", {"map", "history"}), ("n2", {"map"})):
        set_topology(state, topology(name))
        assert state.take_changes().sections == sections
    gpus = {entry.pod.name: entry.gpus for entry in state.history.newest_first()}
    assert gpus == {"train": (3, 2), "other": ()}
    set_topology(state, topology("n1"), deleted=True)
    state.take_changes()
    assert (3, 2) in {entry.gpus for entry in state.history.newest_first()}


def test_waiting_pods_and_pods_that_had_ended_before_the_start_have_no_history() -> None:
    ended = pod("p", "n1", uuids("n1", 1))
    ended["status"]["phase"] = "Succeeded"
    state = cluster(pods=[ended, waiting_pod("w"), pod("other", "n1", [])])
    assert state.history.newest_first() == []


def test_the_history_is_bounded() -> None:
    state = cluster()
    for number in range(MOST_DECISIONS + 7):
        set_pod(state, placed_pod(f"p{number}", "n1", uuids("n1", 1)))
    assert len(state.history.newest_first()) == MOST_DECISIONS


def test_the_history_keeps_the_newest_decisions_in_any_order_of_the_pods() -> None:
    newest = placed_pod("a-new", "n1", uuids("n1", 1))
    newest["status"]["startTime"] = "2026-01-02T09:00:00Z"
    others = [placed_pod(f"p{at}", "n1", uuids("n1", 1)) for at in range(MOST_DECISIONS + 7)]
    found = cluster(pods=[newest, *others]).history.newest_first()
    assert found[0].pod.name == "a-new"
    assert len(found) == MOST_DECISIONS


def test_the_history_shows_the_end_of_a_pod_whose_name_another_pod_has_now() -> None:
    state = cluster(topologies=[topology("n1")])
    first = pod("p", "n1", uuids("n1", 1))
    second = json.loads(json.dumps(first).replace(first["metadata"]["uid"], "second"))
    set_pod(state, first)
    set_pod(state, second)
    kinds = sorted(entry.kind for entry in state.history.newest_first())
    assert kinds == [DecisionKind.ENDED, DecisionKind.PLACED, DecisionKind.PLACED]
    assert list(state.history.seen) == ["second"]


def test_members_of_an_ensemble_have_its_name_and_are_found_by_it() -> None:
    running = placed_pod("train", "n1", uuids("n1", 0))
    running["metadata"]["labels"] = {"gputopo.io/ensemble": "search"}
    found = rows(cluster(topologies=[topology("n1")], pods=[running]))
    assert found["default/train"].ensemble == "search"
    assert [row.key.name for row in search_rows(found.values(), "search")] == ["train"]
    waiting = gpu_job("search-b")
    waiting["metadata"]["labels"] = {"gputopo.io/ensemble": "search"}
    state = two_nodes()
    set_gpu_job(state, waiting)
    assert rows(state)["ml/search-b"].ensemble == "search"
    assert rows(state)["default/train"].ensemble == ""

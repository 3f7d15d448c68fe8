"""The explanations of pods and GPUJobs in their panels."""

import asyncio
import re
import threading
from datetime import UTC, datetime

import pytest
from markupsafe import Markup

from gputopo.errors import InvalidInputError
from gputopo_kube.document import ObjectKey
from gputopo_web.facts.explained import WhatIfResult
from gputopo_web.pages.render import Pages
from gputopo_web.server import explainer
from gputopo_web.server.explainer import Explainer
from gputopo_web.state.cluster import ClusterState
from support.builders import objects
from support.builders.objects import topology_object
from support.cli.healthy_cluster import pod, topology, uuids
from support.explain.by_utility import pod_by_utility
from support.explain.placed import DGX1, placed_pod
from support.web.clusters import cluster, set_gpu_job, set_pod, set_topology


async def panel(state: ClusterState, name: str) -> str:
    key = ObjectKey("default", name)
    shown = Pages(state, "here").pod(key, await Explainer(state).pod(key))
    assert shown is not None
    return in_words(shown)


def in_words(shown: Markup) -> str:
    words = " ".join(re.sub("<[^>]+>", " ", shown).split())
    return re.sub(" ([.;])", r"\1", words)


async def test_a_placed_pod_shows_its_request_its_alternatives_and_the_repeated_decision() -> None:
    placed = placed_pod(2, busy=[0, 3])
    state = cluster(topologies=[topology_object("n1", DGX1)], pods=[placed])
    text = await panel(state, placed["metadata"]["name"])
    assert "Decision repeated with what was recorded: same choice" in text
    assert "pattern Ring default" in text
    assert "on the idle node" in text
    assert "next" in text


async def test_a_pod_placed_by_utility_shows_the_terms_and_the_jobs_beside_it() -> None:
    placed = pod_by_utility()
    state = cluster(topologies=[topology_object("n1", DGX1)], pods=[placed])
    text = await panel(state, placed["metadata"]["name"])
    assert "communication 34 % 1.000 1.000 path length 2; best 2, worst 104" in text
    assert "utility 0.792 0.703 for the job 0.598, at least 0.50" in text
    assert "beside default/noisy: slows the pod by 24 % (Measured)" in text
    assert "Utility 0.792 (communication 1.000, interference 0.369, fragmentation 1.000)" in text
    assert "Utility for the job 0.598" in text
    alone = pod_by_utility(minimum=None)
    without = await panel(cluster(topologies=[topology_object("n1", DGX1)], pods=[alone]), "train")
    assert "for the job 0.598" in without
    assert "at least" not in without


async def test_a_pod_of_an_older_version_shows_what_is_unknown() -> None:
    state = cluster(topologies=[topology("n1")], pods=[pod("train", "n1", uuids("n1", 0))])
    text = await panel(state, "train")
    assert "unknown; the pod has no annotation gputopo.io/placement" in text


async def test_a_pod_on_a_node_without_a_topology_shows_that_it_is_missing() -> None:
    text = await panel(cluster(pods=[placed_pod(2)]), placed_pod(2)["metadata"]["name"])
    assert "unknown; the node has no GPUTopology any more" in text


async def test_a_waiting_pod_shows_each_nodes_reason_and_which_pods_would_have_to_end() -> None:
    running = pod("train", "n1", uuids("n1", 0, 1, 2, 3))
    waiting = objects.pod("waits", 8)
    state = cluster(topologies=[topology("n1", running)], pods=[running, waiting])
    text = await panel(state, "waits")
    assert "Why it waits" in text
    assert "1 too few free GPUs 4 n1" in text
    assert "default/train (4 GPUs)" in text
    assert "nodes: not read by this page, but by `gputopo explain`" in text
    assert "priorityclasses: not read by this page, but by `gputopo explain`" in text


async def test_pods_of_namespaces_that_are_not_read_would_have_to_end_too() -> None:
    other = pod("other", "n1", uuids("n1", 0, 1, 2, 3), namespace="ml")
    waiting = objects.pod("waits", 8)
    state = cluster(topologies=[topology("n1", other)], pods=[waiting], namespace="default")
    text = await panel(state, "waits")
    assert "ml/other (4 GPUs)" in text
    assert "pods: only those of namespace default are read" in text
    unread = ClusterState()
    set_topology(unread, topology("n1"))
    assert "pods: not read yet: " in unread.objects(datetime.now(UTC)).notes[1]


@pytest.mark.parametrize(
    "volume", [{"persistentVolumeClaim": {"claimName": "data"}}, {"ephemeral": {"a": 1}}]
)
async def test_rules_of_volumes_for_nodes_are_named_as_not_considered(
    volume: objects.Document,
) -> None:
    waiting = objects.pod("waits", 2)
    waiting["spec"]["volumes"] = [{"name": "conf", "configMap": {"name": "c"}}, {"name": "v"}]
    state = cluster(topologies=[topology("n1")], pods=[waiting])
    assert "Not considered" not in await panel(state, "waits")
    waiting["spec"]["volumes"][1] |= volume
    set_pod(state, waiting)
    assert "Not considered: nodes of its volumes" in await panel(state, "waits")


async def test_a_waiting_pod_that_fits_shows_where() -> None:
    state = cluster(topologies=[topology("n1")], pods=[objects.pod("waits", 2)])
    assert "It fits now on n1." in await panel(state, "waits")


async def test_a_rejected_pod_shows_the_annotation_and_the_remedy() -> None:
    wrong = objects.pod("wrong", 2, annotations={"gputopo.io/pattern": "Star-ish"})
    text = await panel(cluster(topologies=[topology("n1")], pods=[wrong]), "wrong")
    assert "gputopo.io/pattern" in text
    assert "What to do:" in text


async def test_a_waiting_gpu_job_shows_its_place_in_the_queue() -> None:
    state = cluster(topologies=[topology("n1")])
    container = {"name": "main", "image": "busybox"}
    queued = objects.condition("Suspended", "True", "Queued")
    set_gpu_job(
        state,
        {
            "metadata": {"name": "j", "namespace": "ml", "uid": "u"},
            "spec": {"gpusPerReplica": 2, "template": {"spec": {"containers": [container]}}},
            "status": {
                "phase": "Queued",
                "conditions": [queued],
                "queue": {"position": 1, "reason": "waits for GPUs", "reservedNode": "n1"},
            },
        },
    )
    key = ObjectKey("ml", "j")
    shown = Pages(state, "here").gpu_job(key, await Explainer(state).gpu_job(key))
    assert shown is not None
    text = in_words(shown)
    assert "position 1 of 1. waits for GPUs GPUs of n1 are kept free for it." in text
    assert "It fits now on n1." in text


async def test_an_explanation_that_is_not_possible_shows_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise InvalidInputError("spec: not valid")

    monkeypatch.setattr("gputopo_web.server.explainer.explain_pod", fail)
    assert "spec: not valid" in await panel(cluster(pods=[objects.pod("waits", 2)]), "waits")


async def test_objects_that_do_not_exist_have_no_explanation() -> None:
    explainer = Explainer(cluster())
    missing = ObjectKey("a", "b")
    assert (await explainer.pod(missing)).error == ""
    assert (await explainer.gpu_job(missing)).gpu_job is None


async def test_more_explanations_than_can_wait_are_rejected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    go_on = threading.Event()

    def place(*_: object) -> WhatIfResult:
        go_on.wait()
        return WhatIfResult()

    monkeypatch.setattr(explainer, "_place", place)
    found = Explainer(cluster())
    waiting = [
        asyncio.create_task(found.what_if({"gpus": "1"})) for _ in range(explainer.MOST_WAITING)
    ]
    await asyncio.sleep(0)
    rejected = await found.what_if({"gpus": "1"})
    go_on.set()
    assert rejected.error == "explanations: 20 are being computed; try again"
    assert await asyncio.gather(*waiting) == [WhatIfResult()] * explainer.MOST_WAITING
    assert await found.what_if({"gpus": "1"}) == WhatIfResult()


async def test_an_explanation_uses_the_state_at_its_turn() -> None:
    state = cluster(topologies=[topology("n1")])
    found = Explainer(state)
    async with found._turn:
        waiting = asyncio.create_task(found.what_if({"gpus": "8"}))
        await asyncio.sleep(0)
        set_pod(state, pod("new", "n1", uuids("n1", 7)))
    result = (await waiting).found
    assert result is not None
    assert result.chosen is None

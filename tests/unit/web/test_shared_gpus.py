"""The page shows all pods of a shared GPU, and why pods share GPUs."""

import re

import pytest

from gputopo_kube.document import ObjectKey
from gputopo_kube.listwatch import WatchEvent
from gputopo_web.facts.cards import CellState
from gputopo_web.facts.whatif_form import FormError, WhatIfForm
from gputopo_web.pages.curves import shown_profile
from gputopo_web.pages.overview import all_rows
from gputopo_web.pages.queries import Selection
from gputopo_web.pages.render import Pages
from gputopo_web.pages.tiles import Tile
from gputopo_web.server.explainer import Explainer
from gputopo_web.state.cluster import ClusterState
from support.builders.live import gpu_user, installed
from support.shares import (
    LARGE,
    SMALL,
    share,
    sharing_pod,
    sharing_topology,
    two_on_one_gpu,
)
from support.web.clusters import cluster, set_gpu_job, set_pod

FIRST, SECOND = ObjectKey("default", "first"), ObjectKey("default", "second")


def two_pods() -> ClusterState:
    first, second, topology = two_on_one_gpu()
    return with_facts(cluster(topologies=[topology], pods=[first, second]))


def with_facts(state: ClusterState) -> ClusterState:
    for profile in (SMALL, LARGE):
        key = ObjectKey.of(profile)
        state.profiles.apply(WatchEvent((key, profile), deleted=False))
    deployment = installed()
    state.deployments.apply(WatchEvent((ObjectKey.of(deployment), deployment), deleted=False))
    return state


def words(text: str | None) -> str:
    assert text is not None
    return " ".join(re.sub("<[^>]+>", " ", text).split())


def test_a_shared_gpu_has_all_its_pods() -> None:
    state = two_pods()
    card = state.cards["n1"]
    cell = card.cells[0]
    assert (cell.state, cell.shared, cell.pods) == (CellState.USED, True, (FIRST, SECOND))
    assert card.pods == (FIRST, SECOND)
    tile = Tile(card)
    assert tile.sign(cell) == "A+1"
    assert tile.title(cell) == "GPU 0: used, shared by default/first and default/second, rank 0"
    assert tile.spoken == ["default/first: GPU 0", "default/second: GPU 0"]
    pages = Pages(state, "here")
    node = pages.node("n1")
    assert "default/first , default/second (shared)" in words(node)
    assert "A+1" in (node or "")
    assert (card.free, card.differs) == (7, False)


def test_a_pod_that_shares_its_gpu_with_none_has_its_letter() -> None:
    state = cluster(
        topologies=[sharing_topology({share(0): "first"})], pods=[sharing_pod("first", share(0))]
    )
    cell = state.cards["n1"].cells[0]
    assert (Tile.sign(cell), cell.beside) == ("A", ())
    assert Tile.title(cell) == "GPU 0: used, shared by default/first, rank 0"


def test_a_pod_that_was_deleted_is_known_by_its_share() -> None:
    gone = sharing_topology({share(0): "first", share(1): "gone"})
    gone["status"]["gpus"][0]["shares"][1]["podDeleted"] = True
    state = cluster(topologies=[gone], pods=[sharing_pod("first", share(0))])
    assert state.cards["n1"].cells[0].pods == (FIRST, ObjectKey("default", "gone"))


def test_jobs_and_history_show_shares() -> None:
    state = two_pods()
    rows = {str(row.key): row for row in all_rows(state)}
    assert rows["default/second"].shares
    assert rows["default/second"].indices == (0,)
    pages = Pages(state, "here")
    assert "1 shared" in words(pages.section("jobs", Selection()))
    assert "share beside default/first" in words(pages.section("history", Selection()))
    assert "share beside no other pod" in words(pages.section("history", Selection()))


def test_a_gpu_job_without_pod_shows_that_it_shares_its_gpu() -> None:
    state = two_pods()
    spec = {"gpusPerReplica": 1, "sharing": {"mode": "Allowed"}, "template": {}}
    metadata = {"namespace": "default", "name": "job", "resourceVersion": "2"}
    set_gpu_job(state, {"metadata": metadata, "spec": spec})
    pages = Pages(state, "here")
    assert "1, shared with other jobs" in words(pages.gpu_job(ObjectKey("default", "job")))


async def test_the_panel_of_a_placed_pod_explains_its_share() -> None:
    state = two_pods()
    pages, found = Pages(state, "here"), await Explainer(state).pod(SECOND)
    text = words(pages.pod(SECOND, found))
    assert "The share of the GPU" in text
    assert "same choice" in text
    assert "a share of 1" in text
    assert "Beside default/first" in text
    assert "Predicted slowdowns 25 %, 25 % (the last is of this pod)" in text
    first = words(pages.pod(FIRST, await Explainer(state).pod(FIRST)))
    assert "Beside no other pod: the GPU was idle" in first


async def test_the_panel_of_a_pending_pod_shows_the_shared_gpus() -> None:
    whole = gpu_user("whole", "n1", 1, 7)
    first = sharing_pod("first", share(0), profile="large")
    new = sharing_pod("new")
    state = with_facts(
        cluster(topologies=[sharing_topology({share(0): "first"})], pods=[whole, first, new])
    )
    key = ObjectKey("default", "new")
    text = words(Pages(state, "here").pod(key, await Explainer(state).pod(key)))
    assert "GPUs that pods share" in text
    assert "no idle GPU, and on shared GPUs sharing would not pay" in text
    assert "default/first no 1.00 predicted summed speed 1.00" in text


async def test_the_form_can_request_a_share() -> None:
    state = two_pods()
    result = await Explainer(state).what_if({"gpus": "1", "share": "1", "profile": "large"})
    text = words(Pages(state, "here").what_if(result))
    assert "The pod would get a share of GPU 3 of n1" in text
    assert "default/first, default/second no" in text
    state = cluster(
        topologies=[sharing_topology({share(0): "first"})], pods=[sharing_pod("first", share(0))]
    )
    parameters = {"gpus": "1", "share": "1", "profile": "default/small"}
    result = await Explainer(with_facts(state)).what_if(parameters)
    text = words(Pages(state, "here").what_if(result))
    assert "It would share the GPU with default/first: predicted summed speed 1.60" in text


def test_a_share_is_of_one_gpu() -> None:
    with pytest.raises(FormError, match="gpus: 2 is not allowed with share; must be 1"):
        WhatIfForm.parse({"gpus": "2", "share": "1"})
    assert not WhatIfForm.parse({"gpus": "2", "share": ""}).share


def test_profiles_show_the_speed_beside_others() -> None:
    shown = shown_profile(ObjectKey("default", "small"), SMALL)
    assert "on one GPU with default/large: 70 % of the speed alone" in shown.lines
    assert "on one GPU with default/small and default/small: 50 % of the speed alone" in shown.lines


def test_a_pod_that_requests_a_share_is_watched() -> None:
    state = cluster(topologies=[sharing_topology()])
    document = sharing_pod("new")
    set_pod(state, document)
    assert [str(row.key) for row in all_rows(state)] == ["default/new"]

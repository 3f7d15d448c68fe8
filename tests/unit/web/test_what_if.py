"""The what-if form: results, and values that are not valid."""

import re
from urllib.parse import urlencode

import pytest

from gputopo.patterns.model import PatternKind
from gputopo.placement.model import PolicyName
from gputopo.sensitivity.resolve import Sensitivity
from gputopo_kube.document import ObjectKey
from gputopo_web.facts.whatif_form import FormError, WhatIfForm
from gputopo_web.pages.render import Pages
from gputopo_web.server.app import application
from gputopo_web.server.explainer import Explainer
from gputopo_web.server.hub import Hub
from gputopo_web.state.cluster import ClusterState
from support.cli.healthy_cluster import pod, topology, uuids
from support.web.asgi import send_request
from support.web.clusters import cluster, two_nodes


async def result_of(state: ClusterState, **parameters: object) -> str:
    app = application(
        Pages(state, "here"), Hub(), Explainer(state), hosts=["h"], is_ready=lambda: True
    )
    url = f"/what-if?{urlencode(parameters)}"
    found = await send_request(app, url, host="h", headers={"X-Part": "1"})
    assert found.status == 200
    words = " ".join(re.sub("<[^>]+>", " ", found.text).split())
    return re.sub(" ([.;,:])", r"\1", words)


def full_node() -> ClusterState:
    running = pod("train", "n1", uuids("n1", *range(8)))
    return cluster(topologies=[topology("n1", running)], pods=[running])


async def test_policy_utility_shows_the_utility_of_each_node() -> None:
    text = await result_of(two_nodes(), gpus=2, policy="Utility")
    assert "Preserved Utility Free GPUs Score" in text
    assert "Utility" not in (await result_of(two_nodes(), gpus=2)).partition("Nodes GPUs")[2]


async def test_the_result_names_node_gpus_and_figures() -> None:
    text = await result_of(two_nodes(), gpus=2)
    assert "The pod would get GPUs" in text
    assert "of n1." in text
    assert "GB/s" in text
    assert "n2" in text


async def test_only_one_node_is_considered_if_the_form_names_it() -> None:
    text = await result_of(two_nodes(), gpus=2, node="n2")
    assert "of n2." in text


async def test_the_cluster_after_the_end_of_a_pod() -> None:
    assert "it fits n1 when 1 pod ends" in await result_of(full_node(), gpus=4)
    assert "of n1." in await result_of(full_node(), gpus=4, after_end="default/train")
    assert "of n1." in await result_of(full_node(), gpus=4, after_end="train")


async def test_the_cluster_without_a_node() -> None:
    text = await result_of(two_nodes(), gpus=2, without_node="n1")
    assert "of n2." in text


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "gpus: '' is not a number from 1 to 16"),
        ({"gpus": "17"}, "gpus: '17' is not a number from 1 to 16"),
        ({"gpus": "9" * 900}, "is not a number from 1 to 16"),
        ({"gpus": "²"}, "is not a number from 1 to 16"),
        ({"gpus": "2", "pattern": "Custom"}, "pattern: 'Custom' is not one of Ring, "),
        ({"gpus": "2", "sensitivity": "<b>"}, "sensitivity: '&lt;b&gt;' is not one of Sensitive"),
        ({"gpus": "2", "policy": "Fast"}, "policy: 'Fast' is not one of Baseline"),
        ({"gpus": "2", "node": "n9"}, "node: 'n9': the cluster has no node of this name"),
        ({"gpus": "2", "without_node": "n9"}, "without_node: 'n9': the cluster has no node"),
        (
            {"gpus": "2", "after_end": "a/b"},
            "after_end: 'a/b': no pod of this name has GPUs; write NAMESPACE/NAME",
        ),
    ],
)
async def test_wrong_values_name_the_field(parameters: dict[str, object], message: str) -> None:
    text = (await result_of(two_nodes(), **parameters)).replace("&#39;", "'")
    assert message in text.replace("&quot;", '"').replace('"', "'")


def test_all_fields_of_the_form() -> None:
    found = WhatIfForm.parse(
        {
            "gpus": " 3 ",
            "pattern": "Tree",
            "sensitivity": "Insensitive",
            "policy": "Greedy",
            "node": "n1",
            "after_end": "ml/p",
            "without_node": "n2",
        }
    )
    assert found == WhatIfForm(
        3,
        PatternKind.TREE,
        Sensitivity.INSENSITIVE,
        PolicyName.GREEDY,
        "n1",
        ObjectKey("ml", "p"),
        "n2",
    )


def test_a_missing_number_of_gpus_is_an_error() -> None:
    with pytest.raises(FormError, match="gpus"):
        WhatIfForm.parse({})

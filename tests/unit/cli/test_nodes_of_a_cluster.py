"""Topologies of the nodes of a cluster, read over HTTP from an API server in this process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gputopo import catalogue
from gputopo.api.topology import to_spec
from support.api.faults import Fault
from support.api.server import ApiServer, serving_in_thread
from support.api.store import Document
from support.cli.command_line import Command

TOPOLOGY = catalogue.named("dgx1-v100", node="n1")


def document() -> Document:
    uuids = TOPOLOGY.uuid_of
    return {
        "apiVersion": "gputopo.io/v1alpha1",
        "kind": "GPUTopology",
        "metadata": {"name": "n1"},
        "spec": to_spec(TOPOLOGY).to_json(),
        "status": {
            "gpus": [
                {"uuid": uuids[TOPOLOGY.gpus[0].index], "healthy": False},
                {"uuid": uuids[TOPOLOGY.gpus[1].index], "healthy": True},
                {"uuid": uuids[TOPOLOGY.gpus[2].index], "healthy": True},
                {
                    "uuid": uuids[TOPOLOGY.gpus[3].index],
                    "healthy": True,
                    "podUID": "u-3",
                    "namespace": "default",
                    "pod": "train",
                },
                {"uuid": uuids[TOPOLOGY.gpus[4].index], "healthy": True},
                {"uuid": uuids[TOPOLOGY.gpus[5].index], "healthy": True},
                {"uuid": uuids[TOPOLOGY.gpus[6].index], "healthy": True, "podUID": "u-6"},
                {"uuid": uuids[TOPOLOGY.gpus[7].index], "healthy": True},
                {"uuid": "GPU-gone", "healthy": False},
            ]
        },
    }


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gputopo: Command) -> Iterator[ApiServer]:
    del gputopo  # it hides the machine's kubeconfig, which this fixture replaces
    with serving_in_thread(ApiServer()) as api:
        api.create("gputopologies", document())
        config = tmp_path / "kubeconfig"
        config.write_text(
            f"""\
apiVersion: v1
kind: Config
current-context: here
clusters: [{{name: c, cluster: {{server: "{api.url}"}}}}]
users: [{{name: u, user: {{}}}}]
contexts:
- {{name: here, context: {{cluster: c, user: u}}}}
- {{name: there, context: {{cluster: c, user: u}}}}
"""
        )
        monkeypatch.setenv("KUBECONFIG", str(config))
        yield api


@pytest.mark.parametrize("argument", ["n1", "node/n1", "n1 --context there"])
def test_topology_of_a_node_shows_the_users_of_its_gpus(
    api: ApiServer, gputopo: Command, argument: str
) -> None:
    assert api.url
    lines = gputopo(f"topology show {argument}").out.splitlines()
    assert lines[0] == "node/n1: 8 GPUs, Tesla V100-SXM2-32GB"
    states = [" ".join(line.split()[17:]) for line in lines[3:11]]
    assert states == ["unhealthy", "", "", "default/train", "", "", "u-6", ""]


def test_topology_of_a_node_is_exported(api: ApiServer, gputopo: Command) -> None:
    assert api.url
    graph = gputopo("topology export n1 --format json").document
    assert graph["graph"]["name"] == "node/n1"
    assert sum(vertex["kind"] == "GPU" for vertex in graph["nodes"]) == 8


def test_job_is_placed_on_the_free_gpus_of_a_node(api: ApiServer, gputopo: Command) -> None:
    assert api.url
    result = gputopo("place --topology n1 --gpus 3 -o json").document
    assert result["busy"] == [0, 3, 6]
    assert result["gpus"] == [4, 5, 7]


@pytest.mark.parametrize(
    ("report", "state"),
    [
        ({"healthy": True, "wholeFault": "MPS still serves the GPU"}, "served by MPS"),
        ({"healthy": True, "namespace": "default", "pod": "old"}, "default/old"),
        (None, "unhealthy"),
    ],
    ids=["MPS", "pod without UID", "no report"],
)
def test_gpu_that_the_extender_gives_to_no_pod_is_not_free(
    api: ApiServer, gputopo: Command, report: Document | None, state: str
) -> None:
    def change(found: Document) -> None:
        gpu = found["status"]["gpus"].pop(1)
        if report is not None:
            found["status"]["gpus"].append({"uuid": gpu["uuid"], **report})

    api.change("gputopologies", "n1", change)
    states = gputopo("topology show n1 -o json").document["states"]
    assert states == {"0": "unhealthy", "1": state, "3": "default/train", "6": "u-6"}
    assert gputopo("place --topology n1 --gpus 1 -o json").document["busy"] == [0, 1, 3, 6]


def test_node_without_a_topology_is_reported(api: ApiServer, gputopo: Command) -> None:
    assert api.url
    done = gputopo("topology show node/n9")
    assert done.status == 2
    assert done.err == ("gputopo: node: 'n9': the cluster has no GPUTopology of this name\n")


def test_empty_node_name_is_rejected(api: ApiServer, gputopo: Command) -> None:
    assert api.url
    assert gputopo("topology show node/").err == "gputopo: node: the name is empty\n"


def test_rejection_of_the_api_server_is_shown(api: ApiServer, gputopo: Command) -> None:
    api.faults.append(Fault("GET", "/gputopologies/", 403, "you may not"))
    assert gputopo("topology show node/n1").err == "gputopo: node: 'n1': you may not\n"


def test_invalid_topology_object_is_rejected(api: ApiServer, gputopo: Command) -> None:
    def spoil(found: Document) -> None:
        found["spec"]["gpus"][0]["index"] = 99

    api.change("gputopologies", "n1", spoil)
    done = gputopo("topology show node/n1")
    assert done.status == 2
    assert done.err.startswith("gputopo: node/n1: spec.gpus")
    assert done.err.count("\n") == 1


def test_invalid_status_is_rejected(api: ApiServer, gputopo: Command) -> None:
    def spoil(found: Document) -> None:
        found["status"]["gpus"][0]["healthy"] = "perhaps"

    api.change("gputopologies", "n1", spoil)
    done = gputopo("topology show node/n1")
    assert done.status == 2
    assert done.err.startswith("gputopo: node/n1: status.gpus")


def test_unknown_context_is_reported(api: ApiServer, gputopo: Command) -> None:
    assert api.url
    done = gputopo("topology show node/n1 --context nowhere")
    assert done.status == 2
    assert done.err.startswith("gputopo: kubeconfig: has no context 'nowhere', but '")


def test_unreachable_server_is_reported(
    api: ApiServer, gputopo: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = tmp_path / "silent"
    config.write_text((tmp_path / "kubeconfig").read_text().replace(api.url, "http://127.0.0.1:9"))
    monkeypatch.setenv("KUBECONFIG", str(config))
    done = gputopo("topology show node/n1")
    assert done.status == 2
    assert done.err.startswith("gputopo: API server: http://127.0.0.1:9: ")


def test_response_without_a_message_is_reported_by_its_code(
    api: ApiServer, gputopo: Command
) -> None:
    api.faults.append(Fault("GET", "/gputopologies/", 500, ""))
    done = gputopo("topology show node/n1")
    assert done.err == "gputopo: API server: 500: Internal Server Error\n"

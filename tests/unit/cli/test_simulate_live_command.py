"""``gputopo simulate --live`` starts from the GPUs that a cluster uses now."""

import pytest

from support.api.static import StaticApi
from support.cli import live_cluster as cluster
from support.cli.command_line import Command
from support.cli.reachable import Serve

JOBS = b"id,gpus,service\na,2,100\nb,4,100\n"


@pytest.fixture
def api(serve: Serve) -> StaticApi:
    return serve(cluster.live_cluster())


def test_jobs_start_on_free_gpus_and_when_pods_end(api: StaticApi, gputopo: Command) -> None:
    assert api.url
    run = gputopo("simulate --live --jobs - -o json", stdin=JOBS).document
    first, second = run["jobs"]
    assert (first["node"], first["gpus"], first["start"]) == ("n1", [6, 7], 0)
    assert (second["node"], sorted(second["gpus"])) == ("n1", [0, 1, 2, 3])
    train, batch = (use for use in run["live"]["inUse"] if use["seconds"] is not None)
    assert second["start"] == train["seconds"]
    assert (train["pod"], batch["source"]) == ("default/train-x", "spec.activeDeadlineSeconds")
    assert run["live"]["nodes"] == ["n1", "n3"]
    assert run["live"]["leftOut"] == {"n2": "the node is cordoned"}
    assert run["live"]["waitingPods"] == 1


def test_text_says_what_is_assumed(api: StaticApi, gputopo: Command) -> None:
    api.forbid(cluster.JOBS, "denied")
    out = gputopo("simulate --live --jobs - --assume-seconds 60", stdin=JOBS).out
    assert out.startswith("2 jobs of - on 2 nodes of the cluster, times by bandwidth")
    rows = [" ".join(line.split()) for line in out.splitlines()]
    assert "n1 4,5 default/serve 60 assumed" in rows
    assert "not simulated: n2: the node is cordoned" in rows
    assert "not simulated: pending pods with GPUs: 1" in rows
    assert "note: jobs: no permission: denied: deadlines of Jobs are not considered" in rows
    forever = gputopo("simulate --live --jobs -", stdin=JOBS).out
    assert "default/serve          -  never, because no end is known" in forever


def test_idle_cluster_of_one_node_has_no_gpus_in_use(api: StaticApi, gputopo: Command) -> None:
    api.lists[cluster.PODS] = []
    api.lists[cluster.TOPOLOGIES] = api.lists[cluster.TOPOLOGIES][:1]
    out = gputopo("simulate --live --jobs -", stdin=JOBS).out
    assert "2 jobs of - on 1 node of the cluster" in out
    assert "in use" not in out
    assert "not simulated" not in out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--live --topology dgx-2", "topology: --topology is not possible with --live"),
        ("--live --nodes 2", "nodes: --nodes is not possible with --live"),
        ("--live --as-released", "as-released: --as-released is not possible with --live"),
        ("--topology dgx-2 --assume-seconds 3", "live: --assume-seconds and --context need --live"),
        ("", "topology: is required"),
    ],
)
def test_options_that_contradict_each_other_are_rejected(
    api: StaticApi, gputopo: Command, line: str, message: str
) -> None:
    assert api.url
    done = gputopo(f"simulate --jobs - {line}", stdin=JOBS)
    assert done.status == 2
    assert message in done.err


def test_job_that_never_fits_and_cluster_without_nodes_are_errors(
    api: StaticApi, gputopo: Command
) -> None:
    done = gputopo("simulate --live --jobs -", stdin=b"gpus,service\n16,1\n")
    assert done.status == 2
    assert "fits on no node: needs 16 GPUs" in done.err
    assert "; GPUs of pods without a known end are never free, unless --assume-s" in done.err
    with_end = "simulate --live --jobs - --assume-seconds 60"
    assert "never free" not in gputopo(with_end, stdin=b"gpus,service\n16,1\n").err
    del api.lists[cluster.TOPOLOGIES]
    done = gputopo("simulate --live --jobs -", stdin=JOBS)
    assert done.status == 2
    assert "live: no node of the cluster can run jobs: gputopologies: the cluster does" in done.err

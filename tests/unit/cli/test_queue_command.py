"""``gputopo queue`` shows the waiting GPUJobs in their order."""

import re
from pathlib import Path

import pytest

from support.api.static import StaticApi
from support.cli.command_line import Command
from support.cli.healthy_cluster import DEPLOYMENTS
from support.cli.reachable import Serve
from support.cli.sized_cluster import JOBS, SINCE, operator, waiting_job

GUIDE = Path(__file__).parents[3] / "docs/use/cli.md"
TURN_ON = "docs/use/queue.md shows how to turn it on"
SRTF = {"queue_order": "SRTF", "queue_max_skip_seconds": "3600"}


@pytest.fixture
def api(serve: Serve) -> StaticApi:
    running = waiting_job("running", 1)
    running["status"]["queue"] = {"waitedSeconds": 7}
    new = waiting_job("new", 1)
    del new["status"]
    small = waiting_job("small", 2, 4)
    del small["spec"]["expected"]
    lists = {
        JOBS: [small, running, new, waiting_job("large", 1, reservedNode="n1")],
        DEPLOYMENTS: [operator(**SRTF)],
    }
    return serve(StaticApi(lists=lists))


def test_guide_shows_jobs_by_position_with_the_order(api: StaticApi, gputopo: Command) -> None:
    assert api.url
    shown = re.search(r"\$ kubectl gputopo queue\n([^`]*)```", GUIDE.read_text())
    assert shown
    assert gputopo("queue").out == shown[1]


def test_json_has_the_settings_and_all_fields(api: StaticApi, gputopo: Command) -> None:
    assert api.url
    found = gputopo("queue -o json").document
    large, small = found.pop("jobs")
    assert found == {"order": "SRTF", "maxSkipSeconds": 3600.0, "settingsUnknown": None}
    assert large == {
        "position": 1,
        "namespace": "default",
        "name": "large",
        "gpus": 8,
        "expectedSeconds": 7200,
        "waitingSince": SINCE,
        "reservedNode": "n1",
        "reason": "waiting for 8 free GPUs on one node",
    }
    assert (small["expectedSeconds"], small["reservedNode"]) == (None, None)


def test_only_one_namespace_is_read(api: StaticApi, gputopo: Command) -> None:
    path = "/apis/gputopo.io/v1alpha1/namespaces/ml/gpujobs"
    api.lists[path] = [waiting_job("only", 3, waitingSince=None, reason=None)]
    out = gputopo("queue -n ml").out
    assert out.endswith("\n\n1 GPUJob waits\n")
    assert out.splitlines()[3].split() == [*["3", "default/only", "8", "7200", "s", "-", "-", "-"]]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, f"the queue is off, all GPUJobs start at once; {TURN_ON}"),
        ({"queue_order": "FIFO"}, "order FIFO"),
    ],
)
def test_settings_of_the_queue_are_named(
    api: StaticApi, gputopo: Command, arguments: dict[str, str], expected: str
) -> None:
    api.lists |= {JOBS: [], DEPLOYMENTS: [operator(**arguments)]}
    assert gputopo("queue").out == f"{expected}\n\n0 GPUJobs wait\n"


def test_reason_is_named_if_the_settings_are_unknown(api: StaticApi, gputopo: Command) -> None:
    api.forbid(DEPLOYMENTS, "deployments are forbidden")
    first = gputopo("queue").out.splitlines()[0]
    assert first == "the order is unknown: no permission: deployments are forbidden"
    api.rejections.clear()
    api.lists[DEPLOYMENTS] = []
    found = gputopo("queue -o json").document
    assert found["order"] is None
    assert found["settingsUnknown"].startswith("no Deployment has the labels")
    assert len(found["jobs"]) == 2


def test_failed_requests_are_reported(api: StaticApi, gputopo: Command) -> None:
    api.rejections[DEPLOYMENTS] = (500, b"{}")
    assert gputopo("queue").status == 2
    del api.lists[JOBS]
    assert "cluster: gputopo is not installed" in gputopo("queue").err


def test_status_in_an_unknown_format_is_reported(api: StaticApi, gputopo: Command) -> None:
    api.lists[JOBS] = [waiting_job("odd", 0)]
    done = gputopo("queue")
    assert (done.status, done.out) == (2, "")
    assert "GPUJob default/odd: status.queue.position: 0: " in done.err

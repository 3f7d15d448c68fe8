"""The lines of an explanation show the scheduler's message, ends, and what was not considered."""

import pytest

from gputopo_cli.shared import output
from gputopo_cli.shared.pending import explanation_document, explanation_lines
from gputopo_explain.pending.pods import explain_pod
from support.builders.live import cluster, dgx, gpu_user
from support.builders.objects import Document, pod, topology_object


def waiting(gpus: int = 2) -> Document:
    document = pod("waiting", gpus)
    document["spec"]["resourceClaims"] = [{"name": "c"}]
    return document


def lines(document: Document, capsys: pytest.CaptureFixture[str], **kinds: object) -> str:
    output.show(explanation_lines(explain_pod(document, cluster(**kinds))))  # type: ignore[arg-type]
    return capsys.readouterr().out


def test_message_of_the_scheduler_is_shown_with_its_time(
    capsys: pytest.CaptureFixture[str],
) -> None:
    document = waiting()
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    when = "2026-01-01T11:00:00Z"
    document["status"]["conditions"] = [
        {**condition, "message": "0/2 nodes\nare available", "lastTransitionTime": when}
    ]
    text = lines(document, capsys)
    assert f"kube-scheduler says (since {when}): Unschedulable: 0/2 nodes are available\n" in text
    assert "not considered: resource claims of the pod\n" in text
    found = explanation_document(explain_pod(document, cluster()))
    assert found["schedulerMessage"] == {
        "reason": "Unschedulable",
        "message": "0/2 nodes\nare available",
        "since": when,
    }
    document["status"]["conditions"] = [condition]
    assert "kube-scheduler says: Unschedulable:" in lines(document, capsys)


def test_ends_of_pods_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    gone = topology_object("n1", dgx("n1"), used_by={0: "gone"}, deleted=[0])
    users = [
        gpu_user("a", "n1", 1, 2, activeDeadlineSeconds=3642),
        gpu_user("b", "n1", 3, 2, activeDeadlineSeconds=60),
        gpu_user("c", "n1", 5, 3),
    ]
    text = lines(waiting(8), capsys, pods=users, nodes=["n1"], topologies=[gone])
    table = text.partition("ENDS\n")[2].partition("\n\n")[0].splitlines()
    assert [" ".join(line.split()) for line in table] == [
        "n1 default/a 2 0 - in 42 s (spec.activeDeadlineSeconds)",
        "default/b 2 0 - overdue (spec.activeDeadlineSeconds)",
        "default/c 3 0 - unknown",
        "default/gone 1 - - is stopping",
    ]


def test_longest_wait_is_shown_if_there_is_a_bound(capsys: pytest.CaptureFixture[str]) -> None:
    users = [gpu_user(name, name, 0, 8, activeDeadlineSeconds=7200) for name in ("n1", "n2")]
    users[1]["spec"]["activeDeadlineSeconds"] = None
    users[1]["metadata"]["deletionTimestamp"] = "2026-01-01T12:00:30Z"
    text = lines(waiting(), capsys, pods=users)
    assert "n1: in 1 h 0 min at the latest, if no other pod takes the GPUs first\n" in text
    assert "n2: expected in 30 s\n" in text


def test_preemption_is_unknown_without_the_priority_of_the_pod(
    capsys: pytest.CaptureFixture[str],
) -> None:
    document = waiting()
    document["spec"]["priorityClassName"] = "high"
    text = lines(document, capsys, pods=[gpu_user("a", "n1", 0, 8)], nodes=["n1"])
    assert "whether preemption helps is unknown: the priority of the pod is unknown: " in text
    found = explanation_document(
        explain_pod(document, cluster([gpu_user("a", "n1", 0, 8)], nodes=["n1"]))
    )
    assert found["preemption"] == {
        "helps": None,
        "reason": "the priority of the pod is unknown: no PriorityClass 'high' was read",
        "release": None,
    }

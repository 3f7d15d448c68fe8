"""Events of the core API."""

import pytest

from gputopo_kube.document import Document
from gputopo_kube.events import core_event, pod_reference
from gputopo_kube.pods import parse_pod
from support.builders.objects import pod

NOW = "2026-01-01T12:30:00Z"


def event(about: Document, message: str = "GPU-1 is healthy", host: str = "") -> Document:
    return core_event(
        about,
        component="agent",
        reason="GPUHealthy",
        message=message,
        kind="Normal",
        now=NOW,
        host=host,
    )


def test_event_about_a_pod_is_in_its_namespace() -> None:
    about = pod_reference(parse_pod(pod("a", namespace="team")))
    assert event(about) == {
        "metadata": {"generateName": "a.", "namespace": "team"},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "a",
            "namespace": "team",
            "uid": "uid-a",
        },
        "reason": "GPUHealthy",
        "message": "GPU-1 is healthy",
        "type": "Normal",
        "source": {"component": "agent"},
        "firstTimestamp": NOW,
        "lastTimestamp": NOW,
        "count": 1,
        "reportingComponent": "agent",
        "reportingInstance": "",
    }


def test_event_about_a_node_is_in_the_default_namespace() -> None:
    found = event({"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "1"}, host="n1")
    assert found["metadata"] == {"generateName": "n1.", "namespace": "default"}
    assert (found["source"], found["reportingInstance"]) == (
        {"component": "agent", "host": "n1"},
        "n1",
    )


@pytest.mark.parametrize(("length", "kept"), [(1024, 1024), (1025, 1024)])
def test_long_message_is_shortened(length: int, kept: int) -> None:
    assert len(event({"name": "n1"}, "x" * length)["message"]) == kept

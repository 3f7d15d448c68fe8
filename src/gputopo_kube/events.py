"""Makes Events of the core API, ``v1``."""

from typing import Any, Final, Literal

from gputopo_kube.document import Document
from gputopo_kube.pods import PodView

_LONGEST_MESSAGE: Final = 1024

EventKind = Literal["Normal", "Warning"]


def core_event(
    about: Document,
    *,
    component: str,
    reason: str,
    message: str,
    kind: EventKind,
    now: str,
    host: str = "",
) -> dict[str, Any]:
    """Return an Event about an object; the API server completes its name.

    Args:
        about: reference to the object; without a namespace, the Event is in ``default``.
        component: the component that reports the Event.
        reason: why it is reported, in CamelCase.
        message: text for people; only the first 1,024 characters are used.
        kind: type of the Event.
        now: current time in RFC 3339.
        host: node of the component; empty for a component that is not part of a node.
    """
    return {
        "metadata": {
            "generateName": f"{about['name']}.",
            "namespace": about.get("namespace", "default"),
        },
        "involvedObject": about,
        "reason": reason,
        "message": message[:_LONGEST_MESSAGE],
        "type": kind,
        "source": {"component": component} | ({"host": host} if host else {}),
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
        "reportingComponent": component,
        "reportingInstance": host,
    }


def pod_reference(pod: PodView) -> Document:
    """Return the reference to a pod for an Event."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod.name,
        "namespace": pod.namespace,
        "uid": pod.uid,
    }

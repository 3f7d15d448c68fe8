"""What must not change of a running pod, and what has changed. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gputopo.api.names import GPUS_ANNOTATION, PLACEMENT_ANNOTATION

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PodRecord:
    """One pod.

    Attributes:
        containers: for each container, its ID, its number of restarts and when it started.
        annotations: those that the extender wrote.
    """

    uid: str
    node: str
    phase: str
    containers: tuple[tuple[str, int, str], ...]
    annotations: tuple[str, ...]


def record(pods: Sequence[Object]) -> dict[str, PodRecord]:
    """Return the records of pods, by name."""
    return {pod["metadata"]["name"]: _record(pod) for pod in pods}


def _record(pod: Object) -> PodRecord:
    annotations = pod["metadata"].get("annotations", {})
    return PodRecord(
        uid=pod["metadata"]["uid"],
        node=pod["spec"].get("nodeName", ""),
        phase=pod["status"].get("phase", ""),
        containers=tuple(
            (
                status.get("containerID", ""),
                status["restartCount"],
                status.get("state", {}).get("running", {}).get("startedAt", ""),
            )
            for status in pod["status"].get("containerStatuses", [])
        ),
        annotations=tuple(
            annotations.get(name, "") for name in (GPUS_ANNOTATION, PLACEMENT_ANNOTATION)
        ),
    )


def changes(before: Mapping[str, PodRecord], now: Mapping[str, PodRecord]) -> Iterator[str]:
    """Yield what has changed of pods that must not change, one line each."""
    for name in sorted(before.keys() | now.keys()):
        if name not in now:
            yield f"pod {name} is gone"
        elif name not in before:
            yield f"pod {name} is new"
        else:
            old, new = before[name], now[name]
            yield from (
                f"pod {name}: {field} was {getattr(old, field)}, is {getattr(new, field)}"
                for field in PodRecord.__slots__
                if getattr(old, field) != getattr(new, field)
            )

"""Write why a pod does not fit now, as lines and tables or as JSON."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from gputopo_cli.shared import output
from gputopo_cli.shared.shares import share_document, shares_table
from gputopo_explain.pending.model import (
    NodeGroup,
    PlacementWait,
    PodEnd,
    PodExplanation,
    PodToEnd,
    PreemptionOutlook,
    Release,
)

_MOST_NAMED = 3


def explanation_document(found: PodExplanation) -> dict[str, object]:
    """Return the explanation as JSON. Later versions must keep all keys."""
    message, preemption = found.message, found.preemption
    return {
        "namespace": found.pod.namespace,
        "pod": found.pod.name,
        "state": found.state,
        "summary": found.summary,
        "remedy": found.remedy,
        "schedulerMessage": message
        and {"reason": message.reason, "message": message.message, "since": message.since},
        "fitting": [*found.fitting],
        "reasons": [_group_document(group) for group in found.groups],
        "releases": [_release_document(release) for release in found.releases],
        "preemption": preemption and _preemption_document(preemption),
        "wait": found.wait and _wait_document(found.wait),
        "sharedGpus": [share_document(each) for each in found.shared_gpus],
        "notConsidered": [*found.unchecked],
    }


def _group_document(group: NodeGroup) -> dict[str, object]:
    return {
        "reason": group.reason,
        "permanent": group.permanent,
        "nodes": [*group.nodes],
        "freeGpus": None if group.free is None else [*group.free],
    }


def _release_document(release: Release) -> dict[str, object]:
    return {
        "node": release.node,
        "atMostSeconds": release.at_most_seconds,
        "expectedSeconds": release.expected_seconds,
        "pods": [_pod_document(pod) for pod in release.pods],
    }


def _pod_document(pod: PodToEnd) -> dict[str, object]:
    return {
        "pod": pod.pod,
        "uid": pod.uid,
        "gpus": pod.gpus,
        "priority": pod.priority,
        "owner": pod.owner,
        "stopping": pod.stopping,
        "ends": [
            {"kind": end.kind, "at": end.at.isoformat(), "seconds": end.seconds, "by": end.source}
            for end in pod.ends
        ],
    }


def _wait_document(wait: PlacementWait) -> dict[str, object]:
    return {
        "value": wait.value,
        "targetPermille": wait.target,
        "nowPermille": wait.now,
        "thenPermille": wait.then,
        "since": wait.since,
        "until": wait.until,
        "earlier": [str(pod) for pod in wait.earlier],
    }


def _preemption_document(outlook: PreemptionOutlook) -> dict[str, object]:
    release = outlook.release
    return {
        "helps": outlook.helps,
        "reason": outlook.reason,
        "release": release and _release_document(release),
    }


def explanation_lines(found: PodExplanation) -> Iterator[RenderableType]:
    """Yield the explanation as lines and tables."""
    yield Text(output.one_line(found.summary), "bold")
    if found.remedy:
        yield Text(f"what to do: {output.one_line(found.remedy)}")
    if found.wait:
        yield Text(output.one_line(_postponed_text(found.wait)))
    if found.message:
        since = f" (since {found.message.since})" if found.message.since else ""
        text = f"{found.message.reason}: {found.message.message}"
        yield Text(f"kube-scheduler says{since}: {output.one_line(text)}")
    if found.groups:
        yield Text()
        yield reasons_table(found.groups)
    if found.shared_gpus:
        yield Text()
        yield shares_table(found.shared_gpus)
    if found.releases:
        yield Text()
        yield Text("the pod fits if these pods end:")
        yield _releases_table(found.releases)
        yield from (Text(_wait_text(each)) for each in found.releases if _wait_text(each))
    if found.preemption:
        yield Text()
        yield Text(output.one_line(_preemption_text(found.preemption)))
    if found.unchecked:
        yield Text(f"not considered: {', '.join(found.unchecked)} of the pod")


def _postponed_text(wait: PlacementWait) -> str:
    began = f"postponed since {wait.since}" if wait.since else "not postponed yet"
    earlier = names([str(pod) for pod in wait.earlier])
    return f"{began}; " + (f"earlier pods: {earlier}" if earlier else "no pod comes first")


def reasons_table(groups: Sequence[NodeGroup]) -> RenderableType:
    """Return a table of the nodes by the reason why the pod does not fit."""
    columns = ("NODES>", "FREE GPUS>", "REASON", "FOR EXAMPLE")
    return output.table(
        *columns,
        rows=(
            (
                str(len(group.nodes)),
                "-" if group.free is None else _range(*group.free),
                output.one_line(group.reason) + (" (permanent)" if group.permanent else ""),
                names(group.nodes),
            )
            for group in groups
        ),
    )


def names(nodes: Sequence[str]) -> str:
    """Return the first names of a list.

    >>> names(["a", "b"]), names(["a", "b", "c", "d", "e"])
    ('a, b', 'a, b, c and 2 more')
    """
    shown = ", ".join(nodes[:_MOST_NAMED])
    more = len(nodes) - _MOST_NAMED
    return f"{shown} and {more} more" if more > 0 else shown


def duration(seconds: int) -> str:
    """Return a duration for people.

    >>> duration(42), duration(150), duration(3_700), duration(200_000)
    ('42 s', '2 min', '1 h 1 min', '2 d 7 h')
    """
    for unit, length, smaller, part in (("d", 86400, "h", 3600), ("h", 3600, "min", 60)):
        if seconds >= length:
            return f"{seconds // length} {unit} {seconds % length // part} {smaller}"
    return f"{seconds // 60} min" if seconds >= 60 else f"{seconds} s"  # noqa: PLR2004


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}-{high}"


def _releases_table(releases: Sequence[Release]) -> RenderableType:
    columns = ("NODE", "POD", "GPUS>", "PRIORITY>", "OWNER", "ENDS")
    return output.table(
        *columns,
        rows=(
            (
                release.node if position == 0 else "",
                pod.pod,
                str(pod.gpus),
                "-" if pod.priority is None else str(pod.priority),
                output.one_line(pod.owner or "-"),
                _ends_text(pod),
            )
            for release in releases
            for position, pod in enumerate(release.pods)
        ),
    )


def _wait_text(release: Release) -> str:
    """Return how long the pod waits for this node; empty if it is unknown."""
    if release.at_most_seconds is not None:
        latest = duration(release.at_most_seconds)
        return f"{release.node}: in {latest} at the latest, if no other pod takes the GPUs first"
    if release.expected_seconds is not None:
        return f"{release.node}: expected in {duration(release.expected_seconds)}"
    return ""


def _ends_text(pod: PodToEnd) -> str:
    if pod.stopping:
        return "is stopping"
    return "; ".join(map(_end_text, pod.ends)) or "unknown"


def _end_text(end: PodEnd) -> str:
    when = f"in {duration(end.seconds)}" if end.seconds >= 0 else "overdue"
    return f"{when} ({end.source})"


def _preemption_text(outlook: PreemptionOutlook) -> str:
    if outlook.helps is None:
        return f"whether preemption helps is unknown: {outlook.reason}"
    if outlook.release is None:
        return f"preemption does not help: {outlook.reason}"
    pods = ", ".join(pod.pod for pod in outlook.release.pods)
    return f"preemption may help: {outlook.reason}, for example {pods} on {outlook.release.node}"

"""Judges each change of a pod: restarts, QoS class, floor, and whether it is explained. Pure."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from resizetest.soaking.model import Expected, Finding, PodSize, Size

RESTARTS = "restarts of containers"
QOS = "changes of the QoS class"
FLOOR = "pods below their floor"
UNEXPLAINED = "unexplained resizes"
ENDLESS = "resizes without an end"
REJECTED = "pods for which a node had too few CPUs"

_TOO_LITTLE = ("OutOfcpu", "OutOfmemory")
"""Beginning of kubelet's reason. It rejects pods for other reasons, too, for example while the
agent of the node starts."""

CAUSE_SECONDS = 150.0
"""A resize follows a change of its node: within the wait of 60 s after the former resize, and the
60 s for which kubelet may defer it, and the time in which a part of the cluster is down."""

END_SECONDS = 180.0


@dataclass(slots=True)
class _History:
    """What was seen of one pod.

    Attributes:
        sizes: all sizes that its spec had.
        others: sizes that the soak itself has set.
        open_since: when its newest resize was first seen without an end.
    """

    pod: PodSize
    sizes: set[Size]
    others: set[Size] = field(default_factory=set)
    open_since: tuple[str, float] | None = None


class Changes:
    """The pods of the soak, judged at each event of a watch.

    Attributes:
        resizes: number of changes of a spec.
        applied: number of changes of the amounts in effect.
    """

    def __init__(self, expected: Mapping[str, Expected]) -> None:
        self._expected = expected
        self._histories: dict[str, _History] = {}
        self._stages: dict[str, tuple[str, str, bool, bool]] = {}
        self._causes: defaultdict[str, tuple[float, str]] = defaultdict(lambda: (-1e9, "nothing"))
        self.resizes = self.applied = 0

    def cause(self, at: float, node: str, text: str) -> None:
        """Note a change of a node for which gputopo may resize its pods."""
        self._causes[node] = (at, text)

    def resized_by_soak(self, uid: str, size: Size) -> None:
        """Note that the soak resizes a pod itself."""
        self._histories[uid].others.add(size)

    def see(self, at: float, pod: PodSize, *, deleted: bool = False) -> Iterator[Finding]:
        """Judge the new state of a pod."""
        self._note_cause(at, pod, deleted=deleted)
        history = self._histories.get(pod.uid)
        expected = self._expected.get(pod.owner)
        if expected is None:
            return
        if history is None:
            history = self._histories[pod.uid] = _History(pod, {expected.created})
            history.pod = _as_created(pod, expected)
        yield from _of_life(history.pod, pod)
        yield from _of_floor(pod, expected)
        yield from self._of_resize(at, history, pod, expected)
        yield from _of_applied(history, pod)
        yield from _of_end(at, history, pod)
        limits = {history.pod.applied, pod.applied} - {None}
        self.applied += len(limits) - 1 if limits else 0
        history.pod = pod

    def _note_cause(self, at: float, pod: PodSize, *, deleted: bool) -> None:
        """Note that a pod of a node was bound, has started, or begins to end or has ended."""
        stage = (pod.node, pod.phase, pod.deleting, deleted)
        if pod.node and self._stages.get(pod.uid) != stage:
            self.cause(at, pod.node, f"{pod.name} became {pod.phase}")
        self._stages[pod.uid] = stage

    def _of_resize(
        self, at: float, history: _History, pod: PodSize, expected: Expected
    ) -> Iterator[Finding]:
        if pod.size == history.pod.size:
            return
        self.resizes += 1
        history.sizes.add(pod.size)
        text = f"{pod.name}: {_text(history.pod.size)} to {_text(pod.size)}"
        if pod.size in history.others:
            self.cause(at, pod.node, f"the soak has resized {pod.name}")
            return
        if why := _unexplained(history, pod, expected):
            yield Finding(UNEXPLAINED, f"{text}: {why}")
        since, cause = self._causes[pod.node]
        if at - since > CAUSE_SECONDS and not pod.record.get("deferrals"):
            reason = pod.record.get("reason")
            yield Finding(
                UNEXPLAINED, f"{text} ({reason}): {at - since:.0f} s after the last cause, {cause}"
            )


def _as_created(pod: PodSize, expected: Expected) -> PodSize:
    """Return the pod as it was when the API server had just created it."""
    return PodSize(
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        owner=pod.owner,
        node="",
        phase="Pending",
        deleting=False,
        qos=pod.qos,
        restarts=0,
        gpus=pod.gpus,
        requests=expected.created.request,
        allocated=expected.created.request,
        size=expected.created,
        applied=None,
        record={},
    )


def _of_life(before: PodSize, pod: PodSize) -> Iterator[Finding]:
    if pod.restarts:
        yield Finding(RESTARTS, f"{pod.name}: {pod.restarts} restarts")
    if before.qos and pod.qos != before.qos:
        yield Finding(QOS, f"{pod.name}: {before.qos} became {pod.qos or 'empty'}")
    if pod.phase == "Failed" and pod.why.startswith(_TOO_LITTLE):
        yield Finding(REJECTED, f"{pod.name}: {pod.why}")


def _of_floor(pod: PodSize, expected: Expected) -> Iterator[Finding]:
    """Judge spec, allocated amounts and amounts in effect.

    The request of a Burstable pod is 1m below its limit, so that its QoS class stays.
    """
    least = expected.floor
    request = least - (expected.created.request != expected.created.limit)
    amounts = [("request", pod.size.request, request), ("allocated", pod.allocated, request)]
    if expected.created.limit:
        amounts.append(("limit", pod.size.limit, least))
    if pod.applied is not None:
        amounts.append(("limit in effect", pod.applied, least))
    for name, amount, floor in amounts:
        if amount < floor:
            yield Finding(FLOOR, f"{pod.name}: {name} is {amount}m, floor {floor}m")


def _unexplained(history: _History, pod: PodSize, expected: Expected) -> str:
    """Return why the annotation of the operator does not explain the spec; empty if it does."""
    record, size, created = pod.record, pod.size, expected.created
    distance = int(created.request != created.limit)
    known = [record[name]["milliCPU"] for name in _known(record)]
    reasons = {
        "its mode is Fixed": not expected.is_tuned,
        "another client had resized it, so it must be left alone": bool(history.others),
        "it has no record of this resize": record.get("uid") != pod.uid,
        "its record has no reason": not record.get("reason"),
        "its memory has changed": size[2:] != created[2:],
        f"its record has {' and '.join(map(str, known))}m": size[:2]
        not in [(each - distance, each) for each in known],
    }
    return next((reason for reason, applies in reasons.items() if applies), "")


def _known(record: Mapping[str, Any]) -> Sequence[str]:
    """Return the fields of the record that the spec may have.

    The operator writes the record before the spec, so a list of pods may have both states.
    """
    if not record:
        return ()
    return ("target",) if record.get("done") else ("target", "last")


def _of_applied(history: _History, pod: PodSize) -> Iterator[Finding]:
    """Judge whether kubelet has applied only amounts that the spec had."""
    record = [pod.record[name]["milliCPU"] for name in ("last", "target") if name in pod.record]
    limits = {size.limit for size in history.sizes} | set(record)
    if pod.applied is not None and pod.applied not in limits:
        yield Finding(UNEXPLAINED, f"{pod.name}: {pod.applied}m are in effect, no spec had them")
    requests = {size.request for size in history.sizes} | {
        each - less for each in record for less in (0, 1)
    }
    if pod.allocated not in requests:
        yield Finding(UNEXPLAINED, f"{pod.name}: {pod.allocated}m are allocated, no spec had them")


def _of_end(at: float, history: _History, pod: PodSize) -> Iterator[Finding]:
    """Judge whether the newest resize ends: it is applied, or withdrawn."""
    since = pod.record.get("since", "")
    if not since or pod.record.get("done") or not pod.live or pod.deleting:
        history.open_since = None
        return
    if history.open_since is None or history.open_since[0] != since:
        history.open_since = (since, at)
    elif at - history.open_since[1] > END_SECONDS:
        yield Finding(ENDLESS, f"{pod.name}: the resize of {since} has no end")


def _text(size: Size) -> str:
    return f"{size.request}m/{size.limit}m"

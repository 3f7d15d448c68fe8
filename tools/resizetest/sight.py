"""What a user sees of one sized pod: condition, events, annotation, amounts, restarts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gputopo.api.names import JOB_LABEL
from gputopo.api.tuning import TunedRecord, parse_tuned_record
from learntest.bench import Bench
from resizetest import amounts
from resizetest.amounts import PodAmounts
from showcase.kubectl import wait_for
from soaktest.client import Object

WAIT_SECONDS = 120.0
_OPERATOR = "gputopo.io/operator"


@dataclass(frozen=True, slots=True)
class Sight:
    """One pod at one time.

    Attributes:
        condition: status and reason of the condition Sized; empty for a pod without a GPUJob.
        message: of this condition.
        events: reason and note of the operator's events about the pod, by time.
        record: the annotation of the operator.
        pod: its amounts.
    """

    condition: str
    message: str
    events: Sequence[tuple[str, str]]
    record: TunedRecord | None
    pod: PodAmounts

    @property
    def reasons(self) -> list[str]:
        """Reasons of the events."""
        return [reason for reason, _ in self.events]

    @property
    def milli_cpu(self) -> int:
        """CPU limit in effect."""
        return self.pod.limits.milli_cpu

    @property
    def memory(self) -> int:
        """Memory limit in effect."""
        return self.pod.limits.memory


@dataclass(frozen=True, slots=True)
class Expected:
    """What must be true of a pod at the end of a step; None and empty fields are not checked.

    Attributes:
        events: reasons of all events of the pod. Their times are seconds, so the order is unknown.
        note: text in the note of one of them.
        condition: status and reason.
        record: fields of the annotation.
    """

    events: Sequence[str]
    note: str = ""
    condition: str = ""
    milli_cpu: int | None = None
    memory: int | None = None
    restarts: int = 0
    record: Mapping[str, Any] = field(default_factory=dict)


def differences(sight: Sight, expected: Expected) -> list[str]:
    """Return each difference in words."""
    pairs: list[tuple[str, object, object]] = [
        ("events", sorted(expected.events), sorted(sight.reasons)),
        ("restarts", expected.restarts, sight.pod.restarts),
        ("kubelet's problem", "", sight.pod.problem),
    ]
    if expected.condition and sight.condition:
        pairs.append(("condition Sized", expected.condition, sight.condition))
    if expected.milli_cpu is not None:
        pairs.append(("CPU limit", expected.milli_cpu, sight.milli_cpu))
    if expected.memory is not None:
        pairs.append(("memory limit", expected.memory, sight.memory))
    pairs += [
        (name, value, getattr(sight.record, name, None)) for name, value in expected.record.items()
    ]
    found = [
        f"{what}: {seen!r}, expected {wanted!r}" for what, wanted, seen in pairs if seen != wanted
    ]
    if sight.events and not any(expected.note in note for _, note in sight.events):
        found.append(f"no event has the note {expected.note!r}")
    return found


def parse(pod: Object, job: Object | None, events: Sequence[Object]) -> Sight:
    """Return what is seen of a pod, its GPUJob and the events of the namespace."""
    metadata = pod["metadata"]
    conditions = ((job or {}).get("status") or {}).get("conditions", [])
    sized = next((each for each in conditions if each["type"] == "Sized"), None)
    own = [
        event
        for event in events
        if event["regarding"].get("uid") == metadata["uid"]
        and event.get("reportingController") == _OPERATOR
    ]
    own.sort(key=lambda event: event["eventTime"])
    return Sight(
        condition=f"{sized['status']} {sized['reason']}" if sized else "",
        message=sized["message"] if sized else "",
        events=[(event["reason"], event["note"]) for event in own],
        record=parse_tuned_record(metadata.get("annotations", {}), metadata["uid"]),
        pod=amounts.read(pod),
    )


def look(bench: Bench, name: str) -> Sight:
    """Return what is seen of the newest pod of a GPUJob, or of the pod with this name.

    Raises:
        TimeoutError: there is no such pod.
    """
    pods = bench.client.get(bench.pods)["items"]
    found = [it for it in pods if it["metadata"].get("labels", {}).get(JOB_LABEL) == name]
    job = bench.client.get(f"{bench.jobs}/{name}") if found else None
    found = found or [it for it in pods if it["metadata"]["name"] == name]
    if not found:
        raise TimeoutError(f"pod {name} is gone")
    events = f"/apis/events.k8s.io/v1/namespaces/{bench.namespace}/events"
    # Pods that kubelet has rejected stay beside the pod that replaces them.
    newest = max(found, key=lambda pod: pod["metadata"]["creationTimestamp"])
    return parse(newest, job, bench.client.get(events)["items"])


def check(
    bench: Bench, step: str, name: str, expected: Expected, seconds: float = WAIT_SECONDS
) -> Sight:
    """Wait until a pod is as expected, and report what is seen; a difference is a finding."""
    try:
        wait_for(step, lambda: not differences(look(bench, name), expected), timeout_s=seconds)
    except TimeoutError:
        for each in differences(look(bench, name), expected):
            bench.finding("promise broken", f"{step}: {name}: {each}")
    seen = look(bench, name)
    report(bench, f"{step}: {name}", seen)
    return seen


def report(bench: Bench, what: str, seen: Sight) -> None:
    """Report a pod in the result of the experiment."""
    pod, record = seen.pod, seen.record
    bench.seen[f"{what}, amounts"] = (
        f"spec {pod.requests}, allocated {pod.allocated}, limits in effect {pod.limits}; "
        f"{pod.restarts} restarts"
    )
    bench.seen[f"{what}, events"] = "; ".join(f"{reason}: {note}" for reason, note in seen.events)
    if seen.condition:
        bench.seen[f"{what}, condition Sized"] = f"{seen.condition}: {seen.message}"
    bench.seen[f"{what}, annotation"] = record.dump() if record else "none"
    bench.report(f"{what}: {seen.reasons}, {pod.limits}, {seen.condition}")

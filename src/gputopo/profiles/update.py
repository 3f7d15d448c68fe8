"""Computes the status of a GPUProfile from its former status and new samples."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from gputopo.api.model import Condition
from gputopo.api.names import PROFILE_ANNOTATION
from gputopo.api.profile import (
    GPUProfileSpec,
    GPUProfileStatus,
    LinkFact,
    Sample,
    WorkloadFacts,
)
from gputopo.profiles.facts import workload_facts
from gputopo.profiles.known import facts_annotation
from gputopo.profiles.retention import current, retain
from gputopo.profiles.words import known_and_missing, sensitivity, summary, with_gpus
from gputopo.runtime.times import TIME_FORMAT, timestamp
from gputopo.sensitivity.resolve import SENSITIVE_FROM_PERCENT

MEASURED: Final = "Measured"
"""Condition: the slowdown on slow links was measured for at least one number of GPUs."""

SPEC_CONTRADICTED: Final = "SpecContradicted"
"""Condition: measurements contradict the sensitivity in ``spec``. The value in ``spec`` still
applies."""

_CLOCK_ERROR: Final = timedelta(hours=1)


class _State(NamedTuple):
    is_true: bool
    reason: str
    message: str


def updated_status(
    status: GPUProfileStatus,
    spec: GPUProfileSpec,
    new: Sequence[Sample],
    *,
    name: str,
    generation: int,
    now: str,
) -> GPUProfileStatus:
    """Return the status of a GPUProfile with new samples. A repeated sample changes nothing.

    A new sample that is more than an hour later than ``now`` is ignored, because the clock of its
    node is wrong. The newest sample determines the GPU model and image of the facts.

    Args:
        status: the current status.
        spec: values that the user declares; they have priority over measured ones.
        new: samples of this workload; ``status`` may contain some of them already.
        name: name of the GPUProfile.
        generation: ``metadata.generation`` of the GPUProfile.
        now: current time, RFC 3339 in UTC; the transition time of conditions that change.

    Raises:
        ValueError: if ``now`` does not have this form.
    """
    samples = retain([*status.samples, *_not_from_future(new, now)])
    facts = workload_facts(samples)
    links = facts.links if facts else []
    declared = spec.bandwidth_sensitivity_percent
    annotation = facts_annotation(name, declared, facts)
    states = {
        MEASURED: _measured(facts, samples),
        SPEC_CONTRADICTED: _contradicted(declared, links),
    }
    return GPUProfileStatus(
        observed_generation=generation,
        conditions=_conditions(status.conditions, states, generation, now),
        pod_annotation=annotation.dump() if annotation else None,
        sample_count=len(samples),
        summary=summary(declared, links, facts.communication if facts else ()),
        facts=facts,
        samples=samples,
    )


def _not_from_future(samples: Iterable[Sample], now: str) -> list[Sample]:
    latest = datetime.strptime(now, TIME_FORMAT).replace(tzinfo=UTC) + _CLOCK_ERROR
    # Texts of this form sort like their times, even those of days that do not exist.
    text = timestamp(latest)
    return [sample for sample in samples if sample.time <= text]


def _measured(facts: WorkloadFacts | None, samples: Sequence[Sample]) -> _State:
    if facts is None:
        return _State(
            False,
            "NoSamples",
            f"no run was measured; set the annotation {PROFILE_ANNOTATION} on pods that report "
            "their steps",
        )
    used = current(samples)
    if all(sample.gpus == 1 for sample in used):
        return _State(False, "SingleGPU", "all runs had one GPU, which uses no links")
    message = known_and_missing(facts, used)
    if not facts.links:
        return _State(False, "NotEnoughData", message)
    return _State(True, "LinksMeasured", message)


def _contradicted(declared: int | None, links: Sequence[LinkFact]) -> _State:
    if declared is None:
        return _State(False, "NotDeclared", "spec.bandwidthSensitivityPercent: not set")
    shown = "Sensitive" if declared < SENSITIVE_FROM_PERCENT else "Insensitive"
    other = [with_gpus(fact.gpus, sensitivity(fact)) for fact in links if fact.sensitivity == shown]
    if other:
        message = (
            f"spec.bandwidthSensitivityPercent: {declared} is declared and applies, but "
            f"measurements show {'; '.join(other)}; correct or remove the declared value"
        )
        return _State(True, "OtherSensitivityMeasured", message)
    return _State(
        False,
        "NotContradicted",
        f"spec.bandwidthSensitivityPercent: no measurement contradicts {declared}",
    )


def _conditions(
    present: Sequence[Condition], states: dict[str, _State], generation: int, now: str
) -> list[Condition]:
    """Return ``present`` with the new states. A transition time changes only with the status."""
    former = {condition.type: condition for condition in present}
    for kind, state in states.items():
        status, old = "True" if state.is_true else "False", former.get(kind)
        former[kind] = Condition(
            type=kind,
            status=status,
            reason=state.reason,
            message=state.message,
            last_transition_time=old.last_transition_time if old and old.status == status else now,
            observed_generation=generation,
        )
    return list(former.values())

"""The status of a GPUProfile after new samples."""

import json

import pytest

from gputopo.api.known_facts import parse_facts
from gputopo.api.model import Condition
from gputopo.api.names import FACTS_ANNOTATION
from gputopo.api.profile import GPUProfileSpec, GPUProfileStatus, LinkFact, Sample
from gputopo.profiles.facts import workload_facts
from gputopo.profiles.update import updated_status
from gputopo.profiles.words import summary
from support.builders.workload_runs import WORST_MB_PER_S, run_of, sample

NOW = "2026-03-01T00:00:00Z"
LATER = "2026-03-02T00:00:00Z"


def updated(
    samples: list[Sample],
    declared: int | None = None,
    status: GPUProfileStatus | None = None,
    now: str = NOW,
) -> GPUProfileStatus:
    return updated_status(
        status or GPUProfileStatus(),
        GPUProfileSpec(bandwidth_sensitivity_percent=declared),
        samples,
        name="bert",
        generation=3,
        now=now,
    )


def measured(slower: float, gpus: int = 2) -> list[Sample]:
    """Return eight runs; those on the worst links take ``exp(slower)`` times as long."""
    return [
        each
        for number in range(8)
        for each in run_of(
            f"run-{gpus}-{number}",
            [slower * (number % 2)] * 3,
            start=60 * number,
            gpus=gpus,
            effective_mb_per_s=WORST_MB_PER_S if number % 2 else 48_000,
        )
    ]


SENSITIVE, INSENSITIVE = measured(0.3716), measured(0.0)


def only_link(status: GPUProfileStatus) -> LinkFact:
    assert status.facts is not None
    (link,) = status.facts.links
    return link


def condition(status: GPUProfileStatus, kind: str) -> tuple[str, str, str]:
    found = next(each for each in status.conditions if each.type == kind)
    return found.status, found.reason, found.message


def fact(gpus: int = 2, **fields: object) -> LinkFact:
    document = {
        "gpus": gpus,
        "percent": 45,
        "low_percent": 40,
        "high_percent": 50,
        "samples": 8,
        "sensitivity": "Sensitive",
    }
    return LinkFact.model_validate(document | fields)


def test_status_has_samples_facts_annotation_and_summary() -> None:
    status = updated(SENSITIVE)
    link = only_link(status)
    assert status.samples == SENSITIVE
    assert status.sample_count == 24
    assert status.observed_generation == 3
    assert status.summary == f"45 % ({link.low_percent}..{link.high_percent})"
    assert json.loads(status.pod_annotation or "") == {
        "v": 1,
        "profile": "bert",
        "source": "Measured",
        "links": {
            "2": {
                "percent": 45,
                "low": link.low_percent,
                "high": link.high_percent,
                "samples": 24,
            }
        },
    }
    assert condition(status, "Measured") == (
        "True",
        "LinksMeasured",
        f"2 GPUs: {status.summary}",
    )


def test_same_samples_again_change_nothing() -> None:
    status = updated(SENSITIVE)
    assert updated(SENSITIVE[5:9], status=status, now=LATER) == status
    assert updated([], status=status, now=LATER) == status


def test_samples_in_two_parts_give_the_same_status_as_at_once() -> None:
    first = updated(SENSITIVE[:11])
    assert updated(SENSITIVE[11:], status=first).facts == updated(SENSITIVE).facts


def test_time_of_a_condition_is_that_of_its_change() -> None:
    empty = updated([])
    status = updated(SENSITIVE, status=empty, now=LATER)
    times = {each.type: each.last_transition_time for each in status.conditions}
    assert times == {"Measured": LATER, "SpecContradicted": NOW}


def test_conditions_of_other_types_stay() -> None:
    other = Condition(type="Other", status="True", reason="R", message="", last_transition_time=NOW)
    status = updated([], status=GPUProfileStatus(conditions=[other]))
    assert [each.type for each in status.conditions] == ["Other", "Measured", "SpecContradicted"]


def test_nothing_is_known_without_samples() -> None:
    status = updated([])
    assert (status.facts, status.pod_annotation, status.summary) == (None, None, "unknown")
    assert condition(status, "Measured") == (
        "False",
        "NoSamples",
        (
            "no run was measured; set the annotation gputopo.io/profile on pods that report "
            "their steps"
        ),
    )
    assert condition(status, "SpecContradicted")[:2] == ("False", "NotDeclared")


def test_missing_contrast_is_stated() -> None:
    status = updated(run_of("a", [0.0] * 4))
    assert status.pod_annotation is None
    assert condition(status, "Measured") == (
        "False",
        "NotEnoughData",
        "2 GPUs: all samples have similar links (48000..48000 MB/s); run once on other links",
    )


def test_missing_contrast_among_the_newest_runs_is_stated() -> None:
    old = sample("old", 0, effective_mb_per_s=26_000)
    fast = [sample(f"fast-{number}", 9 + number, effective_mb_per_s=24_000) for number in range(16)]
    slow = sample("slow", 99, effective_mb_per_s=20_000)
    assert condition(updated([old, *fast, slow]), "Measured") == (
        "False",
        "NotEnoughData",
        "2 GPUs: all samples have similar links (20000..24000 MB/s); run once on other links",
    )


def test_one_gpu_uses_no_links() -> None:
    status = updated([sample(gpus=1, effective_mb_per_s=None)])
    assert condition(status, "Measured")[:2] == ("False", "SingleGPU")


def test_condition_states_what_is_known_and_what_is_missing() -> None:
    status = updated([*INSENSITIVE, *run_of("x", [0.0], gpus=4), *run_of("y", [0.0], gpus=1)])
    state, _, message = condition(status, "Measured")
    assert state == "True"
    assert message.startswith("2 GPUs: insensitive, 0 % (")
    assert message.endswith(
        "; 4 GPUs: all samples have similar links (48000..48000 MB/s); run once on other links"
    )


@pytest.mark.parametrize(
    ("declared", "samples", "is_true", "reason"),
    [
        (2, SENSITIVE, "True", "OtherSensitivityMeasured"),
        (60, INSENSITIVE, "True", "OtherSensitivityMeasured"),
        (60, SENSITIVE, "False", "NotContradicted"),
        (2, INSENSITIVE, "False", "NotContradicted"),
        (2, [], "False", "NotContradicted"),
    ],
)
def test_declared_value_on_the_other_side_is_contradicted(
    declared: int, samples: list[Sample], is_true: str, reason: str
) -> None:
    found = condition(updated(samples, declared), "SpecContradicted")
    assert found[:2] == (is_true, reason)


def test_message_names_the_declared_and_the_measured_value() -> None:
    status = updated(SENSITIVE, 2)
    link = only_link(status)
    assert condition(status, "SpecContradicted")[2] == (
        "spec.bandwidthSensitivityPercent: 2 is declared and applies, but measurements show "
        f"2 GPUs: 45 % ({link.low_percent}..{link.high_percent}); correct or remove the declared "
        "value"
    )


def test_declared_value_has_priority_over_measurements() -> None:
    status = updated(SENSITIVE, 2)
    assert status.summary == "2 % (declared)"
    facts = parse_facts({FACTS_ANNOTATION: status.pod_annotation or ""})
    assert facts is not None
    assert facts.source == "Declared"
    known = facts.slowdown(7)
    assert known is not None
    assert (known.percent, known.low, known.high, known.samples) == (2, 2, 2, 0)


def test_sample_from_the_future_is_ignored() -> None:
    near, far = sample("a", 60), sample("b", 61)
    status = updated([near, far], now="2026-01-01T00:00:00Z")
    assert status.samples == [near]


def test_time_that_is_no_time_is_ignored_or_kept_without_an_error() -> None:
    odd = sample().model_copy(update={"time": "2026-02-31T25:61:61Z"})
    assert updated([odd]).samples == [odd]


def test_demand_of_cpus_decides_which_samples_of_links_count() -> None:
    curve = [
        sample("curve", 900 + number, -rate, milli_cpu=cpu)
        for number, (cpu, rate) in enumerate({1000: -1.0, 4000: 0.0, 8000: 0.0}.items())
    ]
    slow = run_of("x", [1.0] * 3, start=999, milli_cpu=1000, effective_mb_per_s=WORST_MB_PER_S)
    facts = workload_facts([*INSENSITIVE, *curve, *slow])
    assert facts is not None
    assert [each.demand_milli_cpu for each in facts.cpus] == [4000]
    assert facts.links[0].sensitivity == "Insensitive"


def test_summary_names_the_class_of_each_number_of_gpus() -> None:
    other = fact(4, percent=3, low_percent=0, high_percent=8, sensitivity="Insensitive")
    assert (
        summary(None, [fact(), other]) == "2 GPUs: 45 % (40..50); 4 GPUs: insensitive, 3 % (0..8)"
    )
    assert summary(None, [fact(sensitivity="Unknown")]) == "unknown, 45 % (40..50)"


def test_long_summary_is_cut() -> None:
    text = summary(None, [fact(gpus) for gpus in range(2, 17)])
    assert len(text) == 256
    assert text.endswith("...")

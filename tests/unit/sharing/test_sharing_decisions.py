"""A job shares a GPU only if this pays and no job becomes slower than it accepts."""

import pytest

from gputopo.sharing.choice import SharingReason, SharingSettings
from gputopo.sharing.decision import decide_sharing, judge_prediction
from gputopo.sharing.estimate import SpeedEstimate, SpeedSource
from gputopo.sharing.model import SharingJob
from gputopo.sharing.predictor import SetPrediction, SharingPredictor
from gputopo.sharing.speedup import GainMeasure
from support.sharing import gavel, measured, sharing_job, workload

A, B, C = (workload(name) for name in ("t/a", "t/b", "t/c"))
SETTINGS = SharingSettings()


def decided(
    newcomer: SharingJob,
    *present: SharingJob,
    speeds: tuple[float, float] = (0.8, 0.6),
    settings: SharingSettings = SETTINGS,
    mps: bool = True,
) -> tuple[bool, SharingReason, str]:
    """Decide with one measured pair of t/a and t/b."""
    predictor = SharingPredictor([measured(("t/a", speeds[0]), ("t/b", speeds[1]))], [A, B])
    found = decide_sharing(newcomer, present, predictor, settings, mps_available=mps)
    return found.shares, found.reason, found.text


def test_pair_that_gains_shares() -> None:
    found = decided(sharing_job(B), sharing_job(A))
    assert found[:2] == (True, SharingReason.GAIN)
    assert found[2] == (
        "predicted summed speed 1.40 (1.20..1.60), 1.40 times that without it, margin 1.05;"
        " pod-t/b takes 67 % longer"
    )


def test_gain_must_exceed_the_margin() -> None:
    pair = sharing_job(B), sharing_job(A)
    assert decided(*pair, speeds=(0.625, 0.4375))[1] is SharingReason.GAIN
    assert decided(*pair, speeds=(0.5, 0.5))[:2] == (False, SharingReason.NO_GAIN)
    found = decided(*pair, settings=SharingSettings(margin=1.5))
    assert found[:2] == (False, SharingReason.NO_GAIN)


def test_worst_case_of_the_thesis_is_rejected() -> None:
    """SE-ResNet-18 and ResNet-18 with a batch of 256 have a delta of 1.02; the steps are equal."""
    speeds = 1.02 / 2, 1.02 / 2
    for measure in GainMeasure:
        settings = SharingSettings(measure=measure)
        found = decided(sharing_job(B), sharing_job(A), speeds=speeds, settings=settings)
        assert found[1] is SharingReason.NO_GAIN


@pytest.mark.parametrize(
    ("own", "other", "reason"),
    [
        (67, 25, SharingReason.GAIN),
        (66, 25, SharingReason.TOO_SLOW),
        (67, 24, SharingReason.TOO_SLOW),
        (None, 0, SharingReason.TOO_SLOW),
    ],
)
def test_limit_of_newcomer_and_of_running_job_holds(
    own: int | None, other: int, reason: SharingReason
) -> None:
    assert decided(sharing_job(B, own), sharing_job(A, other))[1] is reason


def test_text_names_the_job_above_its_limit() -> None:
    """The other job is slower, but has no limit."""
    found = decided(sharing_job(B), sharing_job(A, 10))
    assert found[2].endswith("pod-t/a takes 25 % longer, at most 10 %")


def test_empty_gpu_takes_the_first_job() -> None:
    assert decided(sharing_job(C)) == (True, SharingReason.EMPTY_GPU, "the GPU is empty")


def test_jobs_with_several_gpus_do_not_share() -> None:
    found = decided(sharing_job(B, gpus=2), sharing_job(A))
    assert found == (False, SharingReason.SEVERAL_GPUS, "pod-t/b uses 2 GPUs; must be 1")
    found = decided(sharing_job(B), sharing_job(A, gpus=4))
    assert found[2] == "pod-t/a uses 4 GPUs; must be 1"


def test_nothing_is_shared_without_mps() -> None:
    found = decided(sharing_job(B), sharing_job(A), mps=False)
    assert found[:2] == (False, SharingReason.MPS_NOT_AVAILABLE)
    assert decided(sharing_job(B), mps=False)[0] is False


def test_number_of_jobs_is_limited() -> None:
    found = decided(sharing_job(B), sharing_job(A), settings=SharingSettings(max_jobs=1))
    assert found == (False, SharingReason.TOO_MANY_JOBS, "2 jobs on the GPU; at most 1")


def test_unknown_workload_does_not_share() -> None:
    found = decided(sharing_job(C), sharing_job(A))
    assert found[:2] == (False, SharingReason.UNKNOWN_SPEED)
    assert found[2].startswith("gain of pod-t/a, pod-t/c unknown: no measured pair")


def test_text_names_only_the_jobs_of_unknown_speed() -> None:
    known, unknown = (
        SpeedEstimate.of(0.8, 0.0, source) for source in (SpeedSource.PAIRS, SpeedSource.UNKNOWN)
    )
    alone, together = (
        SetPrediction(speeds, gain=None, least=None, most=None)
        for speeds in ((known,), (known, unknown))
    )
    found = judge_prediction(sharing_job(B), [sharing_job(A)], alone, together, SETTINGS)
    assert found.reason is SharingReason.UNKNOWN_SPEED
    assert found.text.startswith("gain of pod-t/b unknown: no measured pair")


def test_delta_needs_the_rates_alone() -> None:
    predictor = SharingPredictor([measured(("t/a", 0.8), ("t/b", 0.8))])
    jobs = sharing_job(A), sharing_job(workload("t/b", None))
    by_delta = SharingSettings(measure=GainMeasure.DELTA)
    found = decide_sharing(jobs[0], jobs[1:], predictor, by_delta, mps_available=True)
    assert found.reason is SharingReason.UNKNOWN_SPEED
    assert "pod-t/b, pod-t/a" in found.text
    assert decide_sharing(jobs[0], jobs[1:], predictor, SETTINGS, mps_available=True).shares


def test_third_job_must_raise_the_gain_of_the_two() -> None:
    facts = [
        measured(("t/a", 0.8), ("t/b", 0.8)),
        measured(("t/a", 0.6), ("t/b", 0.6), ("t/c", 0.3)),
    ]
    predictor = SharingPredictor(facts, [A, B, C])
    present = sharing_job(A), sharing_job(B)
    found = decide_sharing(sharing_job(C), present, predictor, SETTINGS, mps_available=True)
    assert found.gain is not None
    assert found.gain.summed_speed == pytest.approx(1.5)
    assert found.reason is SharingReason.NO_GAIN
    assert "0.94 times that without it" in found.text  # 1.5 / 1.6


def test_decision_has_the_slowdown_of_each_job_with_the_newcomer_last() -> None:
    predictor = SharingPredictor([measured(("t/a", 0.8), ("t/b", 0.5))], [A, B])
    found = decide_sharing(
        sharing_job(B, 200), [sharing_job(A)], predictor, SETTINGS, mps_available=True
    )
    assert [each.job for each in found.slowdowns] == ["pod-t/a", "pod-t/b"]
    assert [each.percent for each in found.slowdowns] == [pytest.approx(25), pytest.approx(100)]
    newcomer = found.slowdowns[1]
    assert newcomer.low < 100 < newcomer.high
    assert newcomer.limit == 200


def test_batch_256_that_loses_is_rejected_without_a_measurement() -> None:
    """Gavel measured a summed speed of 0.85 for this pair, which is not known here."""
    pairs = gavel()
    names = "ResNet-50 (batch size 16)", "Transformer (batch size 256)"
    facts = [fact for fact in pairs.facts() if fact.workloads != names]
    predictor = SharingPredictor(facts, pairs.models.values())
    jobs = [sharing_job(pairs.models[name]) for name in names]
    found = decide_sharing(jobs[0], jobs[1:], predictor, SETTINGS, mps_available=True)
    assert found.reason is SharingReason.NO_GAIN
    assert pairs.gain(*names).summed_speed == pytest.approx(0.846, abs=1e-3)

import json

import pytest

from gputopo.patterns.model import ring
from gputopo_simulate.errors import SimulationError
from gputopo_simulate.mapa.model import SimulatedJob
from gputopo_simulate.mapa.timelaw import (
    PUBLISHED,
    BandwidthTime,
    FixedTime,
    SlowdownCurve,
    normalized_name,
    parse_curves,
)


def job(workload: str | None = None, *, sensitive: bool = True) -> SimulatedJob:
    return SimulatedJob(0, ring(2), 0, 10, sensitive, workload)


def test_fixed_time_is_the_service_time_on_any_link() -> None:
    assert FixedTime().execution_time(job(), 1) == 10


@pytest.mark.parametrize(
    ("gb_per_s", "slowdown"),
    [(200, 1), (50, 1), (25, 1.5), (12.5, 2.5), (10, 3), (5, 3), (0, 3), (-130, 3)],
)
def test_vgg16_slows_down_between_50_and_10_gb_per_s(gb_per_s: float, slowdown: float) -> None:
    taken = BandwidthTime().execution_time(job("VGG-16"), round(gb_per_s * 1000))
    assert taken == pytest.approx(10 * slowdown)


def test_vgg16_on_pcie_takes_three_times_as_long_as_on_a_double_nvlink() -> None:
    law = BandwidthTime()
    ratio = law.execution_time(job("vgg16"), 10_371) / law.execution_time(job("vgg16"), 58_925)
    assert ratio == pytest.approx(3, rel=0.05)


def test_job_of_one_gpu_has_no_slowdown() -> None:
    assert BandwidthTime().execution_time(job("vgg16"), None) == 10


@pytest.mark.parametrize("workload", ["GoogLeNet", "caffenet.sh", "GMM", "cusimann"])
def test_insensitive_workloads_take_the_same_time_on_any_link(workload: str) -> None:
    assert BandwidthTime().execution_time(job(workload), 0) == 10


def test_jacobi_gains_less_than_three_percent() -> None:
    assert 10 < BandwidthTime().execution_time(job("jacobi"), 10_371) < 10.3


@pytest.mark.parametrize("workload", [None, "bert"])
@pytest.mark.parametrize(("sensitive", "taken"), [(True, 30), (False, 10)])
def test_unknown_workload_has_the_curve_of_its_sensitivity(
    workload: str | None, *, sensitive: bool, taken: float
) -> None:
    assert BandwidthTime().execution_time(job(workload, sensitive=sensitive), 10_000) == taken


@pytest.mark.parametrize("workload", PUBLISHED)
def test_published_workloads_have_normalized_names(workload: str) -> None:
    assert normalized_name(workload) == workload


def test_curves_of_the_user_replace_the_published_ones() -> None:
    text = {"VGG-16": {"communicationShare": 1, "saturationGBps": 100, "worst": 8}}
    law = parse_curves(json.dumps(text))
    assert law.execution_time(job("vgg16.sh"), 20_000) == 50
    assert law.execution_time(job("vgg16.sh"), 1) == 80
    assert law.execution_time(job("alexnet"), 10_000) == 30


def test_curves_of_the_user_may_be_for_all_other_jobs() -> None:
    text = {"sensitive": {"communicationShare": 0}, "insensitive": {"communicationShare": 0.5}}
    law = parse_curves(json.dumps(text))
    assert law.execution_time(job(), 10_000) == 10
    assert law.execution_time(job(sensitive=False), 10_000) == 30


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "curves: line 1"),
        ("[]", r"curves: value: \[\]"),
        ("[" * 100_000, "curves: invalid JSON"),
        ('{"v": {"communicationShare": ' + "9" * 5_000 + "}}", "curves: invalid JSON"),
        ('{"v": "' + "x" * 500 + '"}', r"curves: v: 'x{79}\.\.\.: "),
        ('{"v": {"communicationShare": 1, "worst": 1e308}}', "curves: v.worst: 1e.308"),
        ('{"vgg16": {}}', "curves: vgg16.communicationShare"),
        ('{"vgg16": {"communicationShare": 1.5}}', "curves: vgg16.communicationShare: 1.5"),
        ('{"vgg16": {"communicationShare": NaN}}', "curves: vgg16.communicationShare: nan"),
        ('{"v": {"communicationShare": 1, "worst": 0.5}}', "curves: v.worst: 0.5"),
        ('{"v": {"communicationShare": 1, "saturationGBps": 0}}', "curves: v.saturationGBps: 0"),
        ('{"v": {"communicationShare": 1, "slope": 2}}', "curves: v.slope: there is no such field"),
    ],
)
def test_invalid_curves_are_rejected_with_field_and_value(text: str, message: str) -> None:
    with pytest.raises(SimulationError, match=message):
        parse_curves(text)


def test_flat_curve_is_1_at_any_bandwidth() -> None:
    assert SlowdownCurve(communication_share=0).slowdown(-5) == 1

"""``tools/resize mix-gain``: its predictions, its figures, and the CPU time of the jobs."""

import json
from pathlib import Path

import pytest

from gputopo.api.profile import CpuFact
from gputopo.api.tuning import Amounts
from gputopo.tuning.model import Target
from resizetest import cputime, prediction, weight
from resizetest.cputime import CpuTime
from resizetest.gain import Comparison
from resizetest.mixes import (
    CAPACITY_MILLI_CPU,
    IMAGES,
    LANGUAGE,
    MIXES,
    WORKLOADS,
    Mix,
    measured_together,
)
from resizetest.phase import JobResult, Phase
from support.tuning.nodes import facts

IMAGE_SECONDS = 0.00033


def measured() -> dict[str, CpuFact]:
    """Return curves as gputopo measures them, if an image takes 0.33 ms of a CPU."""
    images = {limit: limit / 1000 / (96 * IMAGE_SECONDS) for limit in (50, 400, 600, 800)}
    curves = {
        "images": images,
        "language": {25: 10.0, 200: 10.0, 400: 10.0},
    }
    return {name: facts(points, gpus=2).cpus[0] for name, points in curves.items()}


@pytest.mark.parametrize("mix", MIXES, ids=lambda mix: mix.name)
def test_each_mix_is_predicted_to_gain_what_it_must(mix: Mix) -> None:
    decided = prediction.predicted(mix, measured())
    assert sum(target.amounts.milli_cpu for target in decided) <= CAPACITY_MILLI_CPU
    assert min(target.value for target in decided) >= 1
    assert sum(target.value for target in decided) / len(decided) >= mix.least_gain + 0.02


def test_the_simulator_predicts_the_same_gain(tmp_path: Path) -> None:
    profiles = tmp_path / "profiles.json"
    documents = [
        {
            "metadata": {"name": name},
            "status": {"facts": {"gpuModel": "any", "cpus": [fact.to_json()]}},
        }
        for name, fact in measured().items()
    ]
    profiles.write_text(json.dumps({"kind": "List", "items": documents}))
    (mix, *_) = MIXES
    simulated = prediction.simulated(tmp_path, mix, measured(), profiles)
    decided = [target.value for target in prediction.predicted(mix, measured())]
    assert sum(simulated) == pytest.approx(sum(decided), rel=0.05)
    assert simulated[2:] == pytest.approx(decided[2:])


def test_a_simulated_job_takes_100_s_with_its_share() -> None:
    mix = Mix("two", (IMAGES, LANGUAGE), 1)
    assert prediction.job_list(mix, measured()) == (
        "job,model,gpus,arrival_s,iterations\n0,images,2,300,947\n1,language,2,300,1000\n"
    )


def test_a_curve_with_one_point_gives_no_rate() -> None:
    with pytest.raises(ValueError, match="the curve has 1 points; two are needed"):
        prediction.share_rate(facts({400: 10.0}, gpus=2).cpus[0])


def test_workloads_are_measured_together_if_twice_their_limits_fit() -> None:
    assert measured_together() == [[IMAGES, LANGUAGE]]
    assert measured_together(WORKLOADS, 1199) == [[IMAGES], [LANGUAGE]]


def phase(*rates: float, idle: float = 0.5) -> Phase:
    results = [
        JobResult(f"job-{number}", (0.9 * rate, 1.1 * rate), 300, 290.0, 0.8)
        for number, rate in enumerate(rates)
    ]
    return Phase(tuple(results), idle)


def target(value: float) -> Target:
    return Target(Amounts(600, 0), "any", value)


def test_the_gain_is_relative_to_the_mean_of_the_proportional_runs() -> None:
    mix = Mix("two", (IMAGES, LANGUAGE), 1.3)
    decided = [target(2.0), target(1.0)]
    found = Comparison(mix, [phase(10, 10), phase(10, 6)], [phase(20, 8)], decided, [2, 1])
    assert found.normalised == [2, 1]
    assert found.gain == found.predicted == 1.5
    assert found.sums(found.proportional) == [1.125, 0.875]
    assert found.repeat_error == 0.25
    assert found.errors() == []
    lines = found.lines()
    assert lines["mix two"] == (
        "measured 1.500, predicted by the operator's decision 1.500, by the simulator 1.500;"
        " proportional runs 1.125, 0.875, repeat error 25.0%; Auto runs 1.500; idle CPUs"
        " of the machine 50%, 50%, 50%"
    )
    assert lines["mix two, job 1 (language)"] == (
        "1.000, predicted 1.000 with 600m, simulated 1.000; proportional:"
        " 10.00/s ±10.0% with 300m, received 290m, throttled in 80%,"
        " 6.00/s ±10.0% with 300m, received 290m, throttled in 80%; Auto:"
        " 8.00/s ±10.0% with 300m, received 290m, throttled in 80%"
    )


def test_a_small_gain_and_a_wrong_prediction_are_errors() -> None:
    mix = Mix("one", (IMAGES,), 1.3)
    found = Comparison(mix, [phase(10), phase(10)], [phase(12)], [target(1.5)], [1.25])
    assert found.errors() == [
        "gain 1.200 is below 1.3",
        "the operator predicts 1.500, measured 1.200",
    ]


def test_cpu_time_of_a_cgroup_of_version_1(tmp_path: Path) -> None:
    (tmp_path / "cpu" / "pod").mkdir(parents=True)
    (tmp_path / "cpuacct" / "own").mkdir(parents=True)
    (tmp_path / "cpu/pod/cpu.stat").write_text("nr_periods 50\nnr_throttled 40\n")
    (tmp_path / "cpuacct/own/cpuacct.usage").write_text("2500000000\n")
    found = cputime.read("2:cpuacct:/own\n1:cpu:/pod\n0::/\n", tmp_path)
    assert (found.seconds, found.periods, found.throttled) == (2.5, 50, 40)


def test_cpu_time_of_a_cgroup_of_version_2(tmp_path: Path) -> None:
    (tmp_path / "pod").mkdir()
    (tmp_path / "pod/cpu.stat").write_text("usage_usec 500\nnr_periods 5\nnr_throttled 4\n")
    found = cputime.read("0::/pod\n", tmp_path)
    assert (found.seconds, found.periods, found.throttled) == (0.0005, 5, 4)


def test_cpu_and_throttling_between_two_times() -> None:
    before, after = CpuTime(10, 1, 100, 50), CpuTime(20, 4, 200, 140)
    assert after.milli_cpu_since(before) == 300
    assert after.throttled_since(before) == 0.9
    assert before.throttled_since(before) == 0


@pytest.mark.parametrize("name", ["cpu/n1/cpu.shares", "n1/cpu.weight"])
def test_a_node_has_a_higher_weight_for_a_time(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.parent.mkdir(parents=True)
    file.write_text("100\n")
    with weight.preferred("n1", tmp_path):
        assert file.read_text() == "1600"
    assert file.read_text() == "100"

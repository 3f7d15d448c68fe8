"""Simulations with measured GPUProfiles."""

import json
from typing import Any

import pytest

from gputopo.patterns.model import ring
from gputopo_simulate.errors import SimulationError
from gputopo_simulate.mapa.joblists import parse_jobs
from gputopo_simulate.mapa.model import SimulatedJob
from gputopo_simulate.mapa.profiles import measured_time, parse_profiles
from support.builders.samples import BEST, WORST, sample


def link(gpus: int, percent: int, low: int, high: int) -> dict[str, Any]:
    return {
        "gpus": gpus,
        "percent": percent,
        "lowPercent": low,
        "highPercent": high,
        "samples": 8,
        "sensitivity": "Unknown",
    }


def profile(name: str, *links: dict[str, Any], declared: int | None = None, **bounds: Any) -> Any:
    samples = [sample(number, gpus=each["gpus"], **bounds) for number, each in enumerate(links)]
    return {
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {} if declared is None else {"bandwidthSensitivityPercent": declared},
        "status": {
            "facts": {"gpuModel": "V100", "links": list(links)},
            "samples": [each.to_json() for each in samples],
        },
    }


def export(*profiles: Any) -> str:
    return json.dumps({"kind": "List", "items": list(profiles)})


def job(workload: str | None, gpus: int = 2) -> SimulatedJob:
    return SimulatedJob("a", ring(gpus), 0, 100, sensitive=True, workload=workload)


def test_measured_job_runs_as_much_longer_as_its_profile_says() -> None:
    law = measured_time(parse_profiles(export(profile("bert", link(2, 60, 55, 65)))))
    assert law.execution_time(job("BERT.sh"), BEST) == pytest.approx(100)
    assert law.execution_time(job("bert"), WORST) == pytest.approx(160)
    # In between the time is linear in 1 / bandwidth: 1 - 0.2 + 0.2 * 48 / 24.
    assert law.execution_time(job("bert"), 24_000) == pytest.approx(120)


@pytest.mark.parametrize("unknown", [job(None), job("gpt"), job("bert", 4)])
def test_other_jobs_run_by_the_curves_of_mapa(unknown: SimulatedJob) -> None:
    law = measured_time(parse_profiles(export(profile("bert", link(2, 60, 55, 65)))))
    assert law.execution_time(unknown, 25_000) == pytest.approx(150)
    assert law.execution_time(unknown, None) == 100


@pytest.mark.parametrize(
    "bounds",
    [{"bestMBps": WORST}, {"bestMBps": None, "worstMBps": None, "effectiveMBps": None}],
)
def test_profile_without_contrast_of_bandwidths_has_no_curve(bounds: dict[str, Any]) -> None:
    law = measured_time(parse_profiles(export(profile("bert", link(2, 60, 55, 65), **bounds))))
    assert law.execution_time(job("bert"), 25_000) == pytest.approx(150)


def test_faster_on_the_worst_links_counts_as_equal() -> None:
    law = measured_time(parse_profiles(export(profile("bert", link(2, -4, -9, 1)))))
    assert law.execution_time(job("bert"), WORST) == 100


@pytest.mark.parametrize(
    ("given", "sensitive"),
    [
        (profile("bert", link(2, 45, 40, 50)), True),
        (profile("bert", link(2, 3, 1, 5)), False),
        (profile("bert", link(2, 12, 4, 20)), True),
        (profile("bert", link(4, 3, 1, 5)), True),
        (profile("bert", link(2, 45, 40, 50), declared=2), False),
        ({"metadata": {"name": "bert"}}, True),
    ],
)
def test_profile_decides_jobs_whose_list_does_not(given: Any, *, sensitive: bool) -> None:
    profiles = parse_profiles(export(given))
    rows = [{"gpus": 2, "service": 1, "workload": "bert"}]
    (found,) = parse_jobs(json.dumps(rows), profiles)
    assert found.sensitive is sensitive
    (stated,) = parse_jobs(json.dumps([rows[0] | {"sensitive": not sensitive}]), profiles)
    assert stated.sensitive is not sensitive


def test_one_profile_and_a_plain_list_are_read_too() -> None:
    one = profile("bert")
    assert (
        set(parse_profiles(json.dumps(one))) == set(parse_profiles(json.dumps([one]))) == {"bert"}
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "profiles: invalid JSON"),
        ("3", "expected the output of `kubectl get gpuprofiles -A -o json`"),
        ('[{"spec": {}}]', r"profiles: items\[0\].metadata.name: missing"),
        ("[3]", r"profiles: items\[0\].metadata.name: missing"),
        (
            '[{"metadata": {"name": "a"}, "spec": {"bandwidthSensitivityPercent": 101}}]',
            r"profiles: items\[0\].spec.bandwidthSensitivityPercent: 101",
        ),
        (export(profile("bert"), profile("BERT")), "'BERT' occurs twice; export one namespace"),
    ],
)
def test_invalid_profiles_are_rejected(text: str, message: str) -> None:
    with pytest.raises(SimulationError, match=message):
        parse_profiles(text)

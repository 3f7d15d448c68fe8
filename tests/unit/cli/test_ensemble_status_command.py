"""``gputopo ensemble status`` shows the plan of an ensemble and its members."""

from datetime import timedelta
from typing import Any

import pytest

from support.api.static import StaticApi
from support.cli.command_line import Command, Done
from support.cli.reachable import Serve
from support.operator.ensembles import EnsembleCluster, condition, ensemble, member

PATH = "/apis/gputopo.io/v1alpha1/namespaces/default/gpuensembles"


def running() -> dict[str, Any]:
    """Return an ensemble of which one member runs and another one waits."""
    fast, slow = member("fast", {1: 100}, steps=90_000), member("slow", {4: 80})
    cluster = EnsembleCluster({"n1": 4}, ensemble(fast, slow))
    cluster.run_on()
    cluster.measured["fast"] = 102.5
    cluster.now += timedelta(seconds=30)  # items are counted each 30 s
    cluster.run_on()
    return cluster.raw


def rejected(done: Done) -> str:
    """Return the error text of a command whose input was rejected."""
    assert done.status == 2
    return done.err


@pytest.fixture
def api(serve: Serve) -> StaticApi:
    return serve(StaticApi(objects={f"{PATH}/search": running()}, lists={PATH: [running()]}))


def test_table_has_the_members_and_what_they_wait_for(api: StaticApi, gputopo: Command) -> None:
    assert api.url
    lines = gputopo("ensemble status search").out.splitlines()
    assert lines[0] == "default/search: Running, 0 of 2 ended, 1 run, 1 GPUs"
    assert lines[1].startswith("plan of 2026-01-01T00:00:0")
    assert lines[1].endswith("its end is unknown")
    rows = [line.split() for line in lines if line.startswith(("fast", "slow"))]
    assert rows[0][:8] == ["fast", "Running", "1", "1", "n1", "100", "102.5", "3"]
    assert rows[1][:7] == ["slow", "Waiting", "2", "4", "-", "80", "-"]
    assert rows[1][8:] == [
        "waits",
        "in",
        "flotilla",
        "2",
        "for",
        "4",
        "free",
        "GPUs",
        "on",
        "one",
        "node",
    ]


def test_json_is_the_status(api: StaticApi, gputopo: Command) -> None:
    assert api.url
    found = gputopo("ensemble status search -o json").document
    assert (found["name"], found["phase"], found["gpus"]) == ("search", "Running", 1)
    assert [each["name"] for each in found["members"]] == ["fast", "slow"]


def test_preprocessor_and_conditions_are_shown(api: StaticApi, gputopo: Command) -> None:
    raw = running()
    raw["status"]["preprocessor"] = {
        "job": "search-preprocessor-1",
        "cores": 2,
        "demandMicroItemsPerSecond": 100_000_000,
        "message": "2 cores deliver 60 of 100 items per second",
    }
    raw["status"]["conditions"].append(condition("RatesKnown", "False", "RatesUnknown", "slow: x"))
    raw["status"]["plan"]["seconds"] = 900
    raw["status"]["spreadPercent"] = 20
    api.objects[f"{PATH}/search"] = raw
    out = gputopo("ensemble status search").out
    text = "2 CPUs for 100 items/s; 2 cores deliver 60 of 100 items per second"
    assert f"preprocessor search-preprocessor-1: {text}\n" in out
    assert "\nRatesKnown False: slow: x\n" in out
    assert "; ends 15 min later\n" in out
    assert ", spread 20 %\n" in out


def test_ended_ensemble_has_no_end_to_come(api: StaticApi, gputopo: Command) -> None:
    raw = running()
    raw["status"]["phase"] = "Succeeded"
    api.objects[f"{PATH}/search"] = raw
    out = gputopo("ensemble status search").out
    assert "plan of 2026-01-01T00:00:0" in out
    assert "its end" not in out


def test_new_ensemble_has_no_plan(api: StaticApi, gputopo: Command) -> None:
    api.objects[f"{PATH}/new"] = ensemble(member("a"))
    expected = "default/new: Pending, no plan yet, 0 GPUs\n"
    assert gputopo("ensemble status new").out == expected


def test_unknown_name_is_rejected_with_a_hint(api: StaticApi, gputopo: Command) -> None:
    assert api.url
    error = rejected(gputopo("ensemble status serch"))
    assert "name: 'serch' is not a GPUEnsemble in namespace default" in error
    assert "search" in error
    assert "--namespace" in rejected(gputopo("ensemble status other"))


def test_invalid_status_names_the_field(api: StaticApi, gputopo: Command) -> None:
    api.objects[f"{PATH}/bad"] = {"metadata": {"name": "bad"}, "status": {"gpus": -1}}
    error = rejected(gputopo("ensemble status bad"))
    assert "GPUEnsemble default/bad: status.gpus: -1" in error


def test_missing_installation_is_reported(serve: Serve, gputopo: Command) -> None:
    assert serve(StaticApi()).url
    assert "gputopo is not installed" in rejected(gputopo("ensemble status search"))

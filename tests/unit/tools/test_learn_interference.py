"""The pure parts of ``tools/learn interference``, on values, and its training job, in a folder."""

import json
import os
import random
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import neighbours
from faulttest import scenario
from faulttest.scenario import Outcome
from gputopo.api.measuring import MeasuringRequest
from gputopo.api.profile import GPUProfileStatus, NeighbourFact, WorkloadFacts
from gputopo.api.request import parse_request
from gputopo.api.v1alpha1 import GPUJobSpec
from learntest import arrivals, comparison, figure6, interference, manifests
from learntest.bench import steps_in
from learntest.comparison import Comparison, Round, Seen
from learntest.manifests import Run
from neighbours import Neighbours, Record

TRUTH: Mapping[str, Mapping[str, float]] = {
    "a": {"b": 30, "q": 20},
    "b": {"a": 25, "q": 10},
    "q": {"a": 0, "b": 0},
}
SOCKETS = {"0": 0, "1": 0, "4": 1, "5": 1}


def rng(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - repeatable on purpose


def law(folder: Path, workload: str) -> dict[str, Any]:
    return {
        "folder": str(folder),
        "workload": workload,
        "sockets": SOCKETS,
        "percents": TRUTH[workload],
    }


def test_slowdowns_are_those_of_figure_6() -> None:
    found = figure6.percents()
    # Two jobs with tiny batches: about 30 %. A big beside a tiny one: about 24 % for the tiny one.
    assert found["noisy-a"]["noisy-a"] == pytest.approx(30, abs=2)
    assert found["noisy-a"]["quiet"] == pytest.approx(24, abs=2)
    assert found["quiet"]["noisy-a"] == 0
    assert found["quiet"]["noisy-b"] < 2
    assert found["noisy-a"]["noisy-b"] > found["noisy-b"]["noisy-a"] > 25


def test_sockets_are_those_of_the_device_files_in_the_container() -> None:
    assert neighbours.sockets_of(["null", "nvidia1", "nvidiactl", "nvidia0"], SOCKETS) == {0}
    assert neighbours.sockets_of(["nvidia4", "nvidia1", "nvidia-uvm"], SOCKETS) == {0, 1}


def test_only_neighbours_on_a_shared_socket_slow_a_job_down() -> None:
    own = Record("a", frozenset({0}))
    others = [Record("b", frozenset({0, 1})), Record("q", frozenset({1})), Record("b", own.sockets)]
    assert neighbours.slowdown(own, others, TRUTH["a"]) == pytest.approx(1.3 * 1.3)
    assert neighbours.slowdown(own, [], TRUTH["a"]) == 1
    assert neighbours.slowdown(own, [Record("x", own.sockets)], TRUTH["a"]) == 1


def test_jobs_slow_each_other_down_until_one_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    first = Neighbours(law(tmp_path, "a"), "a-1", ["nvidia0", "nvidia1"])
    second = Neighbours(law(tmp_path, "b"), "b-2", ["nvidia1"])
    assert first.slowdown_now() == 1
    assert second.slowdown_now() == 1.25
    assert first.slowdown_now() == 1  # not read again yet
    now[0] += 0.5
    assert first.slowdown_now() == pytest.approx(1.3)
    second.remove()
    now[0] += 0.5
    assert first.slowdown_now() == 1


def test_file_of_a_killed_job_is_ignored(tmp_path: Path) -> None:
    killed = Neighbours(law(tmp_path, "b"), "b-1", ["nvidia1"])
    killed.slowdown_now()
    os.utime(tmp_path / "b-1.json", (0, 0))
    own = Neighbours(law(tmp_path, "a"), "a-2", ["nvidia1"])
    assert own.slowdown_now() == 1


def test_file_that_is_removed_while_it_is_read_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Neighbours(law(tmp_path, "b"), "b-1", ["nvidia1"])
    other.slowdown_now()
    own = Neighbours(law(tmp_path, "a"), "a-2", ["nvidia1"])
    read = Path.read_text

    def removed(path: Path) -> str:
        other.remove()
        return read(path)

    monkeypatch.setattr(Path, "read_text", removed)
    assert own.slowdown_now() == 1


def test_metrics_of_a_job_have_its_sockets(tmp_path: Path) -> None:
    job = Neighbours(law(tmp_path, "a"), "a-1", ["nvidia5", "nvidia0"])
    text = f"# TYPE training_steps_total counter\ntraining_steps_total 12\n{job.metrics()}"
    assert comparison.sockets_in(text) == (0, 1)
    assert steps_in(text) == 12
    assert "training_slowdown 1.0000\n" in text


@pytest.mark.parametrize("policy", interference.POLICIES)
def test_jobs_and_pods_of_the_rounds_are_valid(policy: str) -> None:
    run = Run("quiet-1", {}, "n1", policy=policy, measuring=MeasuringRequest(profile="quiet"))
    spec = GPUJobSpec.model_validate(manifests.job(run, "image")["spec"])
    request = parse_request(manifests.pod(run, "image")["metadata"]["annotations"])
    assert spec.placement.policy == request.policy == policy


def test_mixed_rounds_have_each_pair_twice_in_another_company() -> None:
    rounds = arrivals.mixed("abq", rng(3))
    assert Counter(map(len, rounds)) == {1: 3, 2: 3, 3: 3}
    firsts = Counter(frozenset(one[:2]) for one in rounds if len(one) > 1)
    assert firsts == {frozenset(pair): 2 for pair in ("ab", "aq", "bq")}
    assert rounds == arrivals.mixed("abq", rng(3))
    assert rounds != arrivals.mixed("abq", rng(4))


@pytest.mark.parametrize("count", [1, 6, 8, 12])
def test_every_order_occurs_before_one_occurs_again(count: int) -> None:
    found = list(arrivals.orders("abq", rng(1), count))
    assert len(found) == count
    assert len(set(found)) == min(count, 6)
    assert max(Counter(found).values()) == -(-count // 6)


def compared() -> Comparison:
    """Under Preserve a and b share a socket; under Utility a and q do."""
    made = Comparison({"a": 0.1, "b": 0.1, "q": 0.2}, TRUTH)
    preserve = {"a": Seen((0,), 0.13), "b": Seen((0,), 0.125), "q": Seen((1,), 0.2)}
    utility = {"a": Seen((0,), 0.12), "b": Seen((1,), 0.1), "q": Seen((0,), 0.202)}
    for policy, seen in (("Preserve", preserve), ("Utility", utility)):
        made.add(Round(("a", "b", "q"), policy, "Pod", seen, {}))
    return made


def test_rounds_have_sockets_and_slowdowns() -> None:
    first, second = compared().rows()
    assert first["arrivals"] == "a b q"
    assert (first["kind"], first["policy"], second["policy"]) == ("Pod", "Preserve", "Utility")
    assert first["a"] == {"socket": "0", "ms": 130.0, "slower %": 30.0}
    assert first["mean slower %"] == pytest.approx(18.3)
    assert second["mean slower %"] == pytest.approx(7.0)


def test_policies_are_summarised() -> None:
    preserve, utility = compared().summary()
    assert preserve == {
        "policy": "Preserve",
        "rounds": 1,
        "a beside b": 1,
        "a beside q": 0,
        "b beside q": 0,
        "a slower %": 30.0,
        "b slower %": 25.0,
        "q slower %": 0.0,
        "mean slower %": 18.3,
    }
    assert (utility["a beside b"], utility["a beside q"], utility["q slower %"]) == (0, 1, 1.0)
    assert compared().ratios("Utility", "Preserve") == {"a": 0.923, "b": 0.8, "q": 1.01}
    assert compared().together("Utility", "a", "b") == 0


def test_measured_slowdowns_are_compared_with_the_law() -> None:
    found = dict(compared().deviations())
    assert len(found) == 6
    assert found["q of a b q under Utility"] == pytest.approx(1)
    assert found["a of a b q under Preserve"] == pytest.approx(0)
    both = Round(
        ("a", "b", "q"),
        "Weakest",
        "Pod",
        {"a": Seen((0, 1), 0.1), "b": Seen((0,), 0.1), "q": Seen((1,), 0.1)},
        {},
    )
    assert both.expected_percent("a", TRUTH) == pytest.approx(100 * (1.3 * 1.2 - 1))


def test_decisions_of_utility_have_their_terms_and_what_was_assumed() -> None:
    neighbour = {
        "workload": "ns/b",
        "gpus": [0, 1],
        "suffered": [30, "Measured"],
        "caused": [19, "All"],
    }
    placement = {
        "utility": {
            "utilityPermille": 700,
            "jobUtilityPermille": 800,
            "communicationPermille": 1000,
            "interferencePermille": 500,
            "sufferedPermille": 600,
            "fragmentationPermille": 340,
        },
        "replay": {"utility": {"neighbours": [neighbour, neighbour | {"workload": ""}]}},
    }
    seen = {"a": Seen((0,), 0.1), "b": Seen((0,), 0.1)}
    made = Comparison({"a": 0.1, "b": 0.1}, TRUTH)
    made.add(Round(("a", "b"), "Utility", "GPUJob", seen, {"a": placement, "b": {"v": 1}}))
    (row,) = made.decisions()
    assert row == {
        "arrivals": "a b",
        "kind": "GPUJob",
        "workload": "a",
        "utility": 700,
        "communication": 1000,
        "interference": 500,
        "fragmentation": 340,
        "assumed": "b on GPUs 0,1: suffers 30 % Measured, causes 19 % All; "
        "unknown workload on GPUs 0,1: suffers 30 % Measured, causes 19 % All",
    }
    alone = comparison.utility_terms(placement | {"replay": None})
    assert alone["assumed"] == "no neighbours"


def fact(workload: str, scope: Any, low: int, percent: int, high: int) -> NeighbourFact:
    return NeighbourFact(
        workload=f"ns/{workload}",
        scope=scope,
        percent=percent,
        low_percent=low,
        high_percent=high,
        samples=4,
    )


def test_facts_are_compared_with_the_truth() -> None:
    facts = [fact("b", "Socket", 20, 28, 35), fact("b", "Node", 1, 3, 5)]
    known = {
        "a": GPUProfileStatus(facts=WorkloadFacts(gpu_model="V100", neighbours=facts)),
        "b": GPUProfileStatus(),
    }
    first, second = rows = comparison.fact_rows(known, TRUTH)
    assert first == {
        "workload": "a",
        "beside": "b",
        "scope": "Socket",
        "truth %": 30,
        "learnt %": 28,
        "from %": 20,
        "to %": 35,
        "samples": 4,
    }
    assert second["truth %"] == 0
    assert comparison.outside(rows) == ["a beside b (Node)"]
    assert comparison.missing(known, ("a", "b")) == ["b beside a"]
    assert comparison.missing({}, ("a", "b")) == ["a beside b", "b beside a"]


def test_table_of_a_tool_shows_rows_below_each_other() -> None:
    rows = [{"policy": "Preserve", "a": {"ms": 1.5}}, {"policy": "U", "a": {"ms": 12.25}}]
    outcome = Outcome("interference", 1.0, {"rounds": rows, "none": [], "plain": 2.5}, {})
    lines = list(scenario.table([outcome], "log"))
    assert lines[1:7] == [
        "  rounds:",
        "    policy    a",
        "    Preserve  ms 1.50",
        "    U         ms 12.25",
        "  none: []",
        "  plain: 2.50",
    ]
    assert json.loads(json.dumps(scenario.document([outcome], "log")))["scenarios"][0]["clean"]

"""The pure parts of ``tools/faults``, on values."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fakenvml.render import render
from faulttest import pods
from faulttest.catalogue import SCENARIOS
from faulttest.reboot import without
from faulttest.scenario import Outcome, document, table
from gputopo.catalogue import named
from localcluster.containers import Process
from localcluster.localnodes import LocalNodes
from localcluster.settings import Paths
from soaktest import truth
from soaktest.client import Client
from soaktest.journal import Journal
from soaktest.pod_watcher import PodWatcher
from soaktest.sampler import SHARED, Sampler
from soaktest.truth import Running

CLEAN = Outcome("xid", 12.3, {"rounds": 3, "longest": 1.234}, {})
FOUND = Outcome("quota", 1.0, {}, {"not reached": ["a status: not within 20 s"]})


def test_table_shows_what_was_seen_and_every_finding() -> None:
    shown = list(table([CLEAN, FOUND], "faults.log"))
    assert shown[0] == "xid: as it must be (12 s)"
    assert "  rounds: 3" in shown
    assert "  longest: 1.23" in shown
    assert "quota: FINDINGS (1 s)" in shown
    assert "    a status: not within 20 s" in shown
    assert shown[-1] == "log faults.log"


def test_document_says_of_each_scenario_whether_it_is_clean() -> None:
    scenarios = document([CLEAN, FOUND], "faults.log")["scenarios"]
    assert isinstance(scenarios, list)
    assert [one["clean"] for one in scenarios] == [True, False]
    assert scenarios[1]["findings"] == {"not reached": ["a status: not within 20 s"]}


def test_every_scenario_is_found_by_its_name() -> None:
    assert {name: one.name for name, one in SCENARIOS.items()} == {name: name for name in SCENARIOS}
    assert len(SCENARIOS) == 15


def test_stubborn_pod_ignores_sigterm_has_ten_minutes_and_starts_no_second_container() -> None:
    spec = pods.stubborn("old", 8, "image", "n1")["spec"]
    assert spec["terminationGracePeriodSeconds"] == 600
    assert spec["restartPolicy"] == "Never"
    assert "trap '' TERM" in spec["containers"][0]["command"][-1]


def test_node_without_a_gpu_has_shifted_indices_and_minors_and_the_same_links() -> None:
    whole = named("dgx1-v100", node="n1")
    rest = without(whole, 2)
    assert [gpu.index for gpu in rest.gpus] == list(range(7))
    assert [gpu.minor for gpu in rest.gpus] == list(range(7))
    uuids = [gpu.uuid for gpu in whole.gpus]
    assert [gpu.uuid for gpu in rest.gpus] == uuids[:2] + uuids[3:]
    kinds = {
        frozenset((uuids[link.a], uuids[link.b])): (link.kind, link.count) for link in whole.links
    }
    for link in rest.links:
        pair = frozenset((rest.gpus[link.a].uuid, rest.gpus[link.b].uuid))
        assert kinds[pair] == (link.kind, link.count)
    assert len(rest.links) == 21
    assert render(rest)


def _running(pod: str, container: str, *gpus: str) -> Running:
    return Running(Process(1, "n1", pod, container), gpus, frozenset())


@pytest.fixture
def sampler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sampler]:
    monkeypatch.setattr(truth, "is_alive", lambda one: one.container_id != "ended")
    journal = Journal(tmp_path / "log")
    client = Client.__new__(Client)  # never asked
    yield Sampler(LocalNodes(Paths(tmp_path, tmp_path)), PodWatcher(client, journal), journal, 0.05)
    journal.close()


def _sample(sampler: Sampler, *found: Running) -> dict[str, list[str]]:
    sampler._remember(list(found))
    sampler._overlaps(list(found))
    return sampler._journal.findings


def test_two_live_containers_of_two_pods_with_one_gpu_are_one_finding(sampler: Sampler) -> None:
    both = (_running("a", "1", "GPU-0", "GPU-1"), _running("b", "2", "GPU-1", "GPU-0"))
    _sample(sampler, *both)
    (text,) = _sample(sampler, *both)[SHARED]
    assert "a and b on n1: 2 GPUs" in text
    assert list(sampler.shared_seconds) == [("a", "b")]


@pytest.mark.parametrize(
    "other",
    [_running("a", "2", "GPU-0"), _running("b", "2", "GPU-5"), _running("b", "ended", "GPU-0")],
    ids=["same pod", "other GPU", "ended"],
)
def test_containers_that_may_be_side_by_side_are_no_finding(
    sampler: Sampler, other: Running
) -> None:
    assert _sample(sampler, _running("a", "1", "GPU-0"), other) == {}


def test_life_of_a_container_is_from_its_first_to_its_last_sample(sampler: Sampler) -> None:
    _sample(sampler, _running("a", "1", "GPU-0"))
    _sample(sampler, _running("a", "1", "GPU-0"), _running("a", "2", "GPU-1"))
    first, second = sampler.of_pod("a")
    assert first.last > first.first
    assert (first.gpus, second.gpus) == (("GPU-0",), ("GPU-1",))
    assert second.first >= first.last
    assert sampler.of_pod("b") == []

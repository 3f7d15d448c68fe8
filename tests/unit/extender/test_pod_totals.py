"""Waiting pods, and the bandwidths of placed pods."""

import json
from typing import Any

import pytest

from gputopo.api.annotations import GpusAnnotation
from gputopo.api.names import GPUS_ANNOTATION, PLACEMENT_ANNOTATION, RESOURCE
from gputopo_extender.state.ledger import Ledger
from gputopo_extender.state.pod_totals import PlacedBandwidth
from gputopo_extender.verbs.metrics import Metrics
from gputopo_kube.pods import PodView, parse_gpu_pod
from support.builders.objects import Document, pod

NONE = {True: PlacedBandwidth(), False: PlacedBandwidth()}


def view(document: Document) -> PodView:
    found = parse_gpu_pod(document, RESOURCE)
    assert found is not None
    return found


def waiting_pod(name: str, created: str = "1970-01-01T00:01:00Z") -> Document:
    document = pod(name)
    document["metadata"]["creationTimestamp"] = created
    return document


def placed_pod(name: str, *, uid: str = "", **figures: Any) -> Document:
    own = GpusAnnotation(
        uid=uid or f"uid-{name}", node="n1", generation=1, containers={"main": ["GPU-1", "GPU-2"]}
    )
    placement = {
        "policy": "Preserve",
        "pattern": "Ring",
        "sensitive": True,
        "reason": "Declared",
        "physicalMBps": 25_000,
        "physicalBestMBps": 100_000,
        "aggregateMBps": 1,
        "preservedMBps": 1,
    }
    annotations = {
        GPUS_ANNOTATION: own.dump(),
        PLACEMENT_ANNOTATION: json.dumps(placement | figures),
    }
    return pod(name, 2, node="n1", annotations=annotations)


def ledger_with(*documents: Document) -> Ledger:
    ledger = Ledger()
    for document in documents:
        ledger.put_pod(view(document))
    return ledger


def waiting(ledger: Ledger) -> list[float | None]:
    return sorted(ledger.pod_totals.waiting(), key=lambda created: created or 0)


def test_only_live_unbound_pods_without_a_gate_wait() -> None:
    gate = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    gated, released = waiting_pod("gated"), waiting_pod("released", "1970-01-01T00:03:00Z")
    gated["spec"]["schedulingGates"] = [{"name": "example.org/quota"}]
    for each in (gated, released):
        each["status"]["conditions"] = [gate]
    ended = waiting_pod("ended")
    ended["status"]["phase"] = "Failed"
    full = waiting_pod("full", "1970-01-01T00:02:00Z")
    full["status"]["conditions"] = [{**gate, "reason": "Unschedulable"}]
    bound = pod("bound", node="n1")
    pods = (waiting_pod("a"), full, gated, released, ended, bound)
    assert waiting(ledger_with(*pods)) == [60, 120, 180]


def test_pod_waits_until_it_is_bound_or_deleted() -> None:
    ledger = ledger_with(waiting_pod("a"), waiting_pod("b"))
    ledger.put_pod(view(pod("a", node="n1")))
    assert len(waiting(ledger)) == 1
    ledger.drop_pod("uid-b")
    assert waiting(ledger) == []


def test_list_removes_the_pods_that_it_does_not_contain() -> None:
    ledger = ledger_with(waiting_pod("a"), placed_pod("b"), placed_pod("c"))
    ledger.replace_pods([view(placed_pod("c"))], epoch=ledger.begin_pod_list())
    assert waiting(ledger) == []
    assert ledger.pod_totals.bandwidths()[True] == PlacedBandwidth(25_000, 100_000)


def test_bandwidths_are_summed_by_sensitivity_until_the_pods_end() -> None:
    insensitive = placed_pod("c", sensitive=False)
    ledger = ledger_with(placed_pod("a"), placed_pod("b", physicalMBps=100_000), insensitive)
    assert ledger.pod_totals.bandwidths() == {
        True: PlacedBandwidth(125_000, 200_000),
        False: PlacedBandwidth(25_000, 100_000),
    }
    ledger.put_pod(view({**placed_pod("a"), "status": {"phase": "Succeeded"}}))
    ledger.drop_pod("uid-b")
    ledger.drop_pod("uid-c")
    assert ledger.pod_totals.bandwidths() == NONE


def test_changed_annotation_replaces_the_bandwidth_of_its_pod() -> None:
    ledger = ledger_with(placed_pod("a"))
    ledger.put_pod(view(placed_pod("a", physicalMBps=50_000)))
    assert ledger.pod_totals.bandwidths()[True] == PlacedBandwidth(50_000, 100_000)


@pytest.mark.parametrize(
    "document",
    [
        placed_pod("copied", uid="uid-of-another-pod"),
        placed_pod("negative", physicalMBps=-1),
        placed_pod("better than the best", physicalMBps=100_001),
        placed_pod("huge", physicalMBps=2**60, physicalBestMBps=2**61),
        placed_pod("one GPU", physicalMBps=None, physicalBestMBps=None),
        placed_pod("older version", physicalBestMBps=None),
        placed_pod("not JSON") | {"metadata": {**pod("x")["metadata"], "annotations": None}},
        pod("forged", 2, node="n1", annotations={PLACEMENT_ANNOTATION: "[", GPUS_ANNOTATION: "{"}),
        pod("unbound", 2, annotations={PLACEMENT_ANNOTATION: "{}"}),
    ],
    ids=lambda document: document["metadata"]["name"],
)
def test_bandwidth_that_gputopo_did_not_write_does_not_count(document: Document) -> None:
    assert ledger_with(document).pod_totals.bandwidths() == NONE


def test_scrape_shows_waits_and_bandwidths_in_base_units() -> None:
    undated = pod("undated")
    dated_wrongly = waiting_pod("dated wrongly", "yesterday")
    in_the_future = waiting_pod("in the future", "1970-01-01T01:00:00Z")
    ledger = ledger_with(waiting_pod("a"), undated, dated_wrongly, in_the_future, placed_pod("b"))
    shown = Metrics(ledger, [], clock=lambda: 100.0).registry.get_sample_value
    assert shown("gputopo_ledger_waiting_pods") == 4
    assert shown("gputopo_ledger_longest_wait_seconds") == 40
    sensitive = {"sensitive": "true"}
    assert shown("gputopo_ledger_placed_bandwidth_bytes_per_second", sensitive) == 25e9
    assert shown("gputopo_ledger_best_bandwidth_bytes_per_second", sensitive) == 100e9
    other = {"sensitive": "false"}
    assert shown("gputopo_ledger_best_bandwidth_bytes_per_second", other) == 0


def test_nothing_waits_on_an_empty_cluster() -> None:
    shown = Metrics(Ledger(), []).registry.get_sample_value
    assert shown("gputopo_ledger_waiting_pods") == 0
    assert shown("gputopo_ledger_longest_wait_seconds") == 0

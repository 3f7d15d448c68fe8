"""The explanation of a waiting pod has the value now and then, and the earlier pods."""

import pytest

from gputopo.api.names import POSTPONED_ANNOTATION
from gputopo.api.waiting import PostponedAnnotation, WaitEnd
from gputopo.placement.model import Match, PlacementRequest
from gputopo_cli.cluster.explain.documents import placed_document
from gputopo_cli.cluster.explain.placed import placed_lines
from gputopo_cli.shared import output
from gputopo_cli.shared.pending import explanation_document, explanation_lines
from gputopo_explain.objects import parse_installation
from gputopo_explain.pending import waits
from gputopo_explain.pending.model import PendingState, PodExplanation
from gputopo_explain.pending.pods import explain_pod
from gputopo_explain.placed.explanation import explain_placed
from gputopo_scheduling.waiting import WaitRule
from support.builders.live import cluster, gpu_user, installed
from support.builders.objects import Document, pod
from support.explain.placed import placed_pod

CREATED = "2026-01-01T11:59:00Z"
BETWEEN_QUADS = gpu_user("busy", "n1", 2, 4)


def value(match: Match) -> float:
    return match.common_mb_per_s or 0


@pytest.fixture(autouse=True)
def rule(monkeypatch: pytest.MonkeyPatch) -> None:
    def wait_rule(request: PlacementRequest) -> WaitRule | None:
        return WaitRule("bandwidth", 700, value) if request.size > 1 else None

    monkeypatch.setattr(waits, "wait_rule", wait_rule)


def record(uid: str) -> PostponedAnnotation:
    return PostponedAnnotation(
        uid=uid,
        value="bandwidth",
        since="2026-01-01T11:59:01Z",
        until="2026-01-01T12:09:00Z",
        minimum_permille=700,
        now_permille=116,
        then_permille=1000,
    )


def waiting(name: str = "ring", created: str = CREATED, *, recorded: bool = True) -> Document:
    document = pod(name, 4)
    document["metadata"]["creationTimestamp"] = created
    if recorded:
        marked = record(f"uid-{name}").dump()
        document["metadata"]["annotations"][POSTPONED_ANNOTATION] = marked
    return document


def explained(document: Document, *others: Document) -> PodExplanation:
    return explain_pod(document, cluster([BETWEEN_QUADS, document, *others], nodes=["n1"]))


def shown(found: PodExplanation, capsys: pytest.CaptureFixture[str]) -> str:
    output.show(explanation_lines(found))
    return capsys.readouterr().out


def test_waiting_pod_shows_the_values_the_end_and_the_earlier_pods(
    capsys: pytest.CaptureFixture[str],
) -> None:
    older = waiting("older", "2026-01-01T11:58:00Z")
    younger = waiting("younger", "2026-01-01T11:59:30Z")
    found = explained(waiting(), older, younger)
    assert found.state is PendingState.POSTPONED
    assert found.summary == (
        "the pod waits for bandwidth 0.7: it would get 0.116 now, and at best 1 when other pods "
        "end; until 2026-01-01T12:09:00Z at most"
    )
    assert found.remedy is not None
    assert 'gputopo.io/max-wait-seconds: "0"' in found.remedy
    text = shown(found, capsys)
    assert "postponed since 2026-01-01T11:59:01Z; earlier pods: default/older\n" in text
    assert explanation_document(found)["wait"] == {
        "value": "bandwidth",
        "targetPermille": 700,
        "nowPermille": 116,
        "thenPermille": 1000,
        "since": "2026-01-01T11:59:01Z",
        "until": "2026-01-01T12:09:00Z",
        "earlier": ["default/older"],
    }


def test_pod_that_was_not_tried_yet_waits_too(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(explained(waiting(recorded=False)), capsys)
    assert "not postponed yet; no pod comes first\n" in text


def test_pod_whose_longest_wait_is_over_fits() -> None:
    assert explained(waiting(created="2026-01-01T11:40:00Z")).state is PendingState.FITS


def test_pod_without_a_least_value_fits() -> None:
    assert explained(pod("single", 1)).state is PendingState.FITS


def test_longest_wait_is_that_of_the_installation() -> None:
    assert parse_installation([installed("--max-wait-seconds=30")]).max_wait_seconds == 30
    assert parse_installation([installed()]).max_wait_seconds == 600


def test_placed_pod_shows_how_long_it_waited(capsys: pytest.CaptureFixture[str]) -> None:
    document = placed_pod(4)
    assert placed_document(explain_placed(document, None))["waited"] is None
    end = WaitEnd(seconds=37, permille=1000, expired=False)
    marked = record(document["metadata"]["uid"]).ended(end).dump()
    document["metadata"]["annotations"][POSTPONED_ANNOTATION] = marked
    found = explain_placed(document, None)
    output.show(placed_lines(found))
    text = " ".join(capsys.readouterr().out.split())
    assert "wait waited 37 s for bandwidth 0.7: got 1 instead of 0.116" in text
    waited = placed_document(found)["waited"]
    assert isinstance(waited, dict)
    assert waited["end"] == {"seconds": 37, "permille": 1000, "expired": False}

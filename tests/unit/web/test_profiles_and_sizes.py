"""Curves of GPUProfiles, and the CPUs and memory of pods."""

from xml.etree import ElementTree as ET

import pytest

from gputopo.api.names import RESOURCES_ANNOTATION
from gputopo.api.tuning import Amounts, TunedRecord
from gputopo_kube.document import ObjectKey
from gputopo_kube.listwatch import WatchEvent
from gputopo_web.facts.sizes import size_rows
from gputopo_web.pages.curves import RatePoint, draw_curve, shown_profile, ticks
from gputopo_web.pages.queries import Selection
from gputopo_web.pages.render import Pages
from support.builders.objects import Document
from support.cli.healthy_cluster import pod, uuids
from support.web.clusters import cluster, set_pod

KEY = ObjectKey("ml", "bert")


def profile(**facts: object) -> Document:
    known = {"gpuModel": "V100", **facts}
    return {
        "metadata": {"namespace": "ml", "name": "bert"},
        "spec": {"bandwidthSensitivityPercent": 30},
        "status": {"facts": known},
    }


def rate(steps: float, **fields: object) -> Document:
    return {"microStepsPerSecond": int(steps * 1e6), "ciPermille": 50, **fields}


LINKS = {
    "gpus": 2,
    "percent": 45,
    "lowPercent": 40,
    "highPercent": 50,
    "samples": 8,
    "sensitivity": "Sensitive",
}
BESIDE = {
    "workload": "ml/other",
    "scope": "Socket",
    "percent": 12,
    "lowPercent": 8,
    "highPercent": 16,
    "samples": 3,
}


def test_facts_are_lines_and_curves() -> None:
    points = [rate(4, milliCPU=1000), rate(8, milliCPU=4000)]
    shown = shown_profile(
        KEY,
        profile(
            links=[LINKS],
            neighbours=[BESIDE],
            cpus=[
                {"gpus": 1, "demandMilliCPU": 4000, "points": points},
                {"gpus": 2, "points": points},
            ],
            scaling=[rate(5, gpus=1, extrapolated=False), rate(9, gpus=2, extrapolated=True)],
        ),
    )
    assert shown.lines == [
        "declared: 30 % longer on the worst links",
        "GPU model V100",
        "2 GPUs: 45 % (40..50) longer on the worst links, 8 samples",
        "beside ml/other (same socket): 12 % (8..16) longer",
    ]
    assert [curve.caption for curve in shown.curves] == [
        "steps/s by CPUs with 1 GPU; enough: 4 CPUs",
        "steps/s by CPUs with 2 GPUs",
        "steps/s by number of GPUs; hollow: extrapolated",
    ]
    last = ET.fromstring(shown.curves[-1].picture)  # noqa: S314
    fills = [it.get("fill") for it in last.iter() if it.tag.endswith("circle")]
    assert fills == ["#0072b2", "white"]


def test_facts_of_counters_are_lines() -> None:
    interval = {"bytesPerStep": 1_500_000_000, "lowBytesPerStep": 1, "highBytesPerStep": 2**40}
    pairs = {"gpus": 2, "source": "NVLinkPairs", "samples": 3, **interval}
    pattern = {"pattern": "Star", "confidencePermille": 965, "windows": 40}
    limits = {"shareHighPercent": 12, "slowdownHighPercent": 30}
    shown = shown_profile(
        KEY,
        profile(
            communication=[
                pairs | pattern | limits,
                {"gpus": 4, "source": "Partial", "samples": 1, **interval},
            ],
            load=[
                {
                    "gpus": 1,
                    "source": "GPM",
                    "samples": 2,
                    "occupancyMicroseconds": 40_500,
                    "dramMicroseconds": 12_000,
                },
                {"gpus": 2, "source": "Utilization", "samples": 1, "occupancyMicroseconds": 90_000},
            ],
        ),
    )
    assert shown.lines[2:] == [
        (
            "2 GPUs: 1.5 GB per step and GPU (NVLinkPairs, 3 samples); pattern Star, seen in 96 % "
            "of 40 windows; at most 12 % of a step; at most 30 % longer on the worst links"
        ),
        "4 GPUs: 1.5 GB per step and GPU (Partial, 1 sample); pattern unknown",
        "1 GPU: occupancy 40.5 ms per step (GPM, 2 samples); memory 12 ms per step",
        "2 GPUs: occupancy 90 ms per step (Utilization, 1 sample)",
    ]


def test_a_profile_without_facts_and_one_that_cannot_be_parsed() -> None:
    empty: Document = {"metadata": {}, "status": {}}
    assert shown_profile(KEY, empty).lines == ["0 samples, no facts yet"]
    assert shown_profile(KEY, {"status": {"facts": 7}}).fault.startswith("status.facts: ")


def test_points_of_a_curve_have_their_interval() -> None:
    picture = draw_curve("a <b>", [RatePoint(2, 10, 1), RatePoint(4, 20, 0)])
    assert 'aria-label="a &lt;b&gt;"' in picture
    assert "2: 10 steps/s" in picture
    ET.fromstring(picture)  # noqa: S314
    assert "polyline" in draw_curve("empty", [RatePoint(0, 0, 0)])
    assert "polyline" in draw_curve("empty", [])


def test_axes_have_round_numbers_up_to_the_last_point() -> None:
    picture = draw_curve("c", [RatePoint(1, 4.1, 0.2), RatePoint(8, 12.1, 0.5)])
    numbers = [it.text for it in ET.fromstring(picture).iter() if it.tag.endswith("text")]  # noqa: S314
    assert numbers == ["0", "5", "10", "15", "0", "2", "4", "6", "8"]
    assert ticks(0) == ticks(1) == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]


@pytest.mark.parametrize("most", [1e-6, 0.02, 0.999, 1, 3, 7, 50, 100.5, 1e6, 123456789])
def test_ticks_are_few_and_reach_the_highest_value(most: float) -> None:
    found = ticks(most)
    assert 3 <= len(found) <= 6
    assert found[-2] < most <= found[-1] * 1.000001


def test_the_page_shows_profiles_and_how_many_are_left_out() -> None:
    state = cluster()
    for number in range(102):
        key = ObjectKey("ml", f"p{number:03}")
        state.profiles.apply(WatchEvent((key, profile()), deleted=False))
    assert state.take_changes().sections == {"profiles"}
    shown = Pages(state, "c").section("profiles", Selection())
    assert shown is not None
    assert "ml/p000" in shown
    assert "2 more" in shown


def sized(**fields: object) -> Document:
    amounts = Amounts(4000, 2**33)
    record = TunedRecord.model_validate(
        {
            "uid": "uid-p",
            "since": "2026-01-01T00:00:00Z",
            "reason": "its share",
            "floor": Amounts(1000, 2**32),
            "last": amounts,
            "target": amounts,
            **fields,
        }
    )
    document = pod("p", "n1", uuids("n1", 0))
    document["metadata"]["annotations"][RESOURCES_ANNOTATION] = record.dump()
    return document


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({}, "in flight"),
        ({"done": True}, "applied"),
        ({"rejected": True}, "rejected"),
        ({"pinned": True, "done": True}, "not resized any more"),
    ],
)
def test_the_sizes_of_a_pod_and_the_state_of_its_newest_resize(
    fields: dict[str, object], state: str
) -> None:
    known = cluster(pods=[sized(**fields)])
    [row] = size_rows(it.placed for it in known.pods.items.values())
    assert (row.floor, row.last) == ("1 CPU, 4Gi", "4 CPUs, 8Gi")
    assert (row.target, row.state, row.reason) == ("4 CPUs, 8Gi", state, "its share")


def test_records_that_cannot_be_parsed_or_belong_to_another_pod() -> None:
    broken, copied, plain = sized(), sized(), pod("plain", "n1", [])
    broken["metadata"] |= {"name": "broken"}
    broken["metadata"]["annotations"][RESOURCES_ANNOTATION] = "{"
    copied["metadata"] |= {"name": "copy", "uid": "uid-copy"}
    known = cluster(pods=[broken, copied, plain])
    [row] = size_rows(it.placed for it in known.pods.items.values())
    assert (row.pod.name, row.state) == ("broken", "unknown")
    assert row.reason.startswith("gputopo.io/resources: ")


def test_a_new_record_changes_the_section_of_sizes() -> None:
    state = cluster(pods=[pod("p", "n1", uuids("n1", 0))])
    set_pod(state, sized())
    assert "sizes" in state.take_changes().sections
    set_pod(state, sized())
    assert "sizes" not in state.take_changes().sections
    shown = Pages(state, "c").section("sizes", Selection())
    assert shown is not None
    assert "its share" in shown


def test_the_end_of_a_sized_pod_changes_the_section_of_sizes() -> None:
    state, ended = cluster(pods=[sized()]), sized()
    ended["status"]["phase"] = "Succeeded"
    set_pod(state, ended)
    assert "sizes" in state.take_changes().sections

"""``gputopo profile`` shows what was measured of the workloads."""

from pathlib import Path
from typing import Any

import pytest

from support.api.static import StaticApi
from support.builders.samples import WORST, sample
from support.cli.command_line import Command
from support.cli.reachable import Serve

PROFILES = "/apis/gputopo.io/v1alpha1/gpuprofiles"
TOPOLOGIES = "/apis/gputopo.io/v1alpha1/gputopologies"
FACTS = {
    "gpuModel": "Tesla V100-SXM2-32GB",
    "imageDigest": "sha256:1",
    "links": [
        {
            "gpus": 2,
            "percent": 45,
            "lowPercent": 40,
            "highPercent": 50,
            "samples": 8,
            "sensitivity": "Sensitive",
        }
    ],
    "cpus": [
        {
            "gpus": 1,
            "demandMilliCPU": 4000,
            "points": [
                {"milliCPU": 8000, "microStepsPerSecond": 10_200_000, "ciPermille": 10},
                {"milliCPU": 4000, "microStepsPerSecond": 10_000_000, "ciPermille": 20},
            ],
        },
        {
            "gpus": 2,
            "points": [{"milliCPU": 500, "microStepsPerSecond": 1_000_000, "ciPermille": 50}],
        },
    ],
    "neighbours": [
        {
            "workload": "ml/resnet",
            "scope": "Socket",
            "percent": 12,
            "lowPercent": 8,
            "highPercent": 16,
            "samples": 5,
        }
    ],
    "scaling": [
        {"gpus": 1, "microStepsPerSecond": 5_000_000, "ciPermille": 10, "extrapolated": False},
        {"gpus": 2, "microStepsPerSecond": 9_000_000, "ciPermille": 10, "extrapolated": False},
        {"gpus": 4, "microStepsPerSecond": 16_000_000, "ciPermille": 90, "extrapolated": True},
    ],
    "communication": [
        {
            "gpus": 2,
            "source": "NVLinkPairs",
            "samples": 3,
            "bytesPerStep": 1_500_000_000,
            "lowBytesPerStep": 1_400_000_000,
            "highBytesPerStep": 1_600_000_000,
            "pattern": "AllToAll",
            "confidencePermille": 965,
            "windows": 40,
            "shareHighPercent": 12,
            "slowdownHighPercent": 30,
        },
        {
            "gpus": 4,
            "source": "Partial",
            "samples": 1,
            "bytesPerStep": 5_000_000,
            "lowBytesPerStep": 0,
            "highBytesPerStep": 6_000_000,
            "pattern": "Unknown",
            "confidencePermille": 0,
            "windows": 0,
        },
    ],
    "load": [
        {
            "gpus": 1,
            "source": "GPM",
            "samples": 2,
            "occupancyMicroseconds": 40_500,
            "dramMicroseconds": 12_000,
        },
        {"gpus": 2, "source": "Utilization", "samples": 1, "occupancyMicroseconds": 90_000},
    ],
    "sharing": [
        {"beside": ["ml/resnet"], "speedPermille": 800, "ciPermille": 50, "samples": 3},
    ],
}


def profile(name: str, namespace: str = "ml", **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}, **fields}


def measured() -> dict[str, Any]:
    samples = [
        sample(1),
        sample(
            2,
            effectiveMBps=WORST,
            milliCPU=1500,
            nodeNeighbours=["ml/resnet"],
            gpuNeighbours=["ml/b"],
        ),
        sample(3, gpus=1, effectiveMBps=None, bestMBps=None, worstMBps=None),
    ]
    condition = {
        "type": "Measured",
        "status": "True",
        "reason": "Known",
        "message": "links are known",
        "lastTransitionTime": "2026-11-22T10:00:00Z",
    }
    status = {
        "summary": "45 % (40..50)",
        "conditions": [condition],
        "facts": FACTS,
        "samples": [each.to_json() for each in samples],
    }
    return profile("bert", spec={"bandwidthSensitivityPercent": 30}, status=status)


@pytest.fixture
def api(serve: Serve) -> StaticApi:
    lists = {
        PROFILES: [profile("new"), measured(), profile("new", "research")],
        TOPOLOGIES: [],
    }
    return serve(StaticApi(lists=lists))


def test_list_has_a_line_for_each_profile(api: StaticApi, gputopo: Command) -> None:
    assert api.url
    header, bert, *others = gputopo("profile list").out.splitlines()
    assert header.split() == [
        *("NAMESPACE", "NAME", "DECLARED", "MEASURED", "DEMAND", "SAMPLES", "LAST")
    ]
    assert bert.split(maxsplit=2)[:2] == ["ml", "bert"]
    assert "30 %  45 % (40..50)  4 CPUs with 1 GPU" in bert
    assert bert.endswith("2026-11-22T10:00:03Z")
    assert [line.split() for line in others] == [
        ["ml", "new", "-", "-", "-", "0", "-"],
        ["research", "new", "-", "-", "-", "0", "-"],
    ]


def test_list_of_a_namespace_reads_only_this_namespace(api: StaticApi, gputopo: Command) -> None:
    path = "/apis/gputopo.io/v1alpha1/namespaces/research/gpuprofiles"
    api.lists[path] = [profile("only", "research")]
    found = gputopo("profile list -n research -o json").document
    assert found == [{"namespace": "research", "name": "only", "spec": {}, "status": EMPTY}]


EMPTY: dict[str, Any] = {"conditions": [], "samples": []}


def test_cluster_without_profiles_says_so(api: StaticApi, gputopo: Command) -> None:
    api.lists[PROFILES] = []
    assert gputopo("profile list").out == "no GPUProfiles\n"


def test_profile_is_shown_with_all_facts_and_samples(api: StaticApi, gputopo: Command) -> None:
    assert api.url
    out = gputopo("profile show bert").out
    for text in (
        "GPUProfile ml/bert",
        "declared: 30 % longer on the worst links",
        "Measured True: links are known",
        "45 %  40..50 %",
        "10 ±0.2",
        "unknown",
        "ml/resnet  socket",
        "extrapolated",
        "3 samples",
        "no limit",
        "1.5",
        "ml/resnet   80 %  76..84 %",
        "ml/b (same GPU), ml/resnet",
    ):
        assert text in out


def test_profile_without_measurements_is_shown(api: StaticApi, gputopo: Command) -> None:
    assert api.url
    assert gputopo("profile show research/new").out == (
        "GPUProfile research/new\n\n0 samples\n\n"
        "hardware counters of the nodes: no node has a GPUTopology\n"
    )


def test_json_has_the_names_and_values_of_the_api(api: StaticApi, gputopo: Command) -> None:
    assert api.url
    document = gputopo("profile show ml/bert -o json").document
    assert document["status"]["facts"] == FACTS
    assert document["counters"] == []
    assert len(document["status"]["samples"]) == 3


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gpt", "workload: 'gpt' is not the name of a GPUProfile; see `gputopo profile list`"),
        ("new", "workload: 'new' is not unique; use one of ml/new, research/new"),
    ],
)
def test_unknown_and_ambiguous_names_are_rejected(
    api: StaticApi, gputopo: Command, name: str, message: str
) -> None:
    assert api.url
    done = gputopo(f"profile show {name}")
    assert (done.status, message in done.err) == (2, True)


def test_invalid_profile_is_named(api: StaticApi, gputopo: Command) -> None:
    api.lists[PROFILES] = [profile("bad", status={"samples": [{}]})]
    done = gputopo("profile list")
    assert done.status == 2
    assert "GPUProfile ml/bad: status.samples[0]" in done.err


def test_cluster_without_gputopo_is_an_error(api: StaticApi, gputopo: Command) -> None:
    api.lists.clear()
    done = gputopo("profile list")
    assert (done.status, "gputopo is not installed" in done.err) == (2, True)


def test_each_kind_of_fact_has_a_plot(api: StaticApi, gputopo: Command, tmp_path: Path) -> None:
    assert api.url
    folder = tmp_path / "plots"
    assert gputopo(f"profile show bert --plots {folder}").status == 0
    assert {file.name for file in folder.iterdir()} == {
        *("links.svg", "cpus.svg", "neighbours.svg", "scaling.svg")
    }
    assert "45 % (40..50) longer on the worst" in (folder / "links.svg").read_text()
    assert "ml/resnet (same socket)" in (folder / "neighbours.svg").read_text()


def test_profile_without_measurements_has_no_plots(
    api: StaticApi, gputopo: Command, tmp_path: Path
) -> None:
    assert api.url
    folder = tmp_path / "plots"
    assert gputopo(f"profile show research/new --plots {folder}").status == 0
    assert list(folder.iterdir()) == []


def test_samples_without_a_fact_are_plotted(
    api: StaticApi, gputopo: Command, tmp_path: Path
) -> None:
    status = {"samples": [sample(1).to_json()]}
    api.lists[PROFILES] = [profile("bert", status=status)]
    folder = tmp_path / "plots"
    assert gputopo(f"profile show bert --plots {folder}").status == 0
    assert "longer on the worst" not in (folder / "links.svg").read_text()


def line_of(out: str, *words: str) -> str:
    """Return the only line with all of these words; several spaces count as one."""
    lines = [" ".join(line.split()) for line in out.splitlines()]
    (found,) = (line for line in lines if all(word in line for word in words))
    return found


def test_facts_of_counters_are_shown(api: StaticApi, gputopo: Command) -> None:
    assert api.url
    out = gputopo("profile show bert").out
    assert line_of(out, "AllToAll", "NVLinkPairs") == (
        "2 AllToAll 96.5 % of 40 windows 1.5 1.4..1.6 at most 12 % at most 30 % 3 NVLinkPairs"
    )
    assert line_of(out, "Partial") == "4 Unknown - 0.005 0..0.006 unknown unknown 1 Partial"
    assert line_of(out, "GPM") == "1 40.5 ms 12 ms - 2 GPM"
    assert line_of(out, "Utilization") == "2 90 ms unknown - 1 Utilization"


def test_load_shows_the_part_of_the_gpu_that_decides_about_sharing(
    serve: Serve, gputopo: Command
) -> None:
    alone = {"microStepsPerSecond": 5_000_000, "ciPermille": 20, "samples": 3}
    bert = profile("bert", status={"facts": {**FACTS, "alone": alone}})
    serve(StaticApi({PROFILES: [bert], TOPOLOGIES: []}))
    assert line_of(gputopo("profile show bert").out, "GPM") == "1 40.5 ms 12 ms 20 % 2 GPM"


def test_samples_show_their_traffic(api: StaticApi, gputopo: Command) -> None:
    traffic = {"source": "NVLinkPairs", "bytesPerStep": 2_500_000_000, "pattern": "Chain"}
    status = {"samples": [sample(1, traffic=traffic).to_json(), sample(2).to_json()]}
    api.lists[PROFILES] = [profile("bert", status=status)]
    out = gputopo("profile show bert").out
    assert "2.5 Chain" in line_of(out, "Chain")
    assert "10 ±0.2 - -" in line_of(out, "u2")


def node(name: str, *counters: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": {"counters": [*counters]}}


NVLINK = {"kind": "NVLink", "source": "Fields", "gpus": 8, "message": ""}
LOAD = {"kind": "Load", "source": "None", "gpus": 0, "message": "GPM: not supported"}


def test_counters_of_each_node_are_shown(api: StaticApi, gputopo: Command) -> None:
    newer = node("n3", {"kind": "Fabric"})
    api.lists[TOPOLOGIES] = [newer, node("n2"), node("n1", NVLINK, LOAD)]
    out = gputopo("profile show bert").out
    assert line_of(out, "n1", "NVLink") == "n1 NVLink Fields 8"
    assert line_of(out, "n1", "Load") == "n1 Load None 0 GPM: not supported"
    for name in ("n2", "n3"):
        assert line_of(out, name) == f"{name} - - - the agent reports no counters"
    document = gputopo("profile show bert -o json").document
    assert document["counters"] == [
        {"node": "n1", "counters": [NVLINK, LOAD]},
        {"node": "n2", "counters": []},
        {"node": "n3", "counters": []},
    ]


def test_profile_is_shown_without_the_right_to_read_topologies(
    api: StaticApi, gputopo: Command
) -> None:
    api.forbid(TOPOLOGIES, "no")
    out = gputopo("profile show bert").out
    assert out.endswith("unknown, because GPUTopologies are not readable\n")
    assert gputopo("profile show bert -o json").document["counters"] is None

"""The workloads of a node, and what GPUProfiles show about slowdowns between workloads."""

from dataclasses import replace
from typing import Any

import pytest

from gputopo.catalogue import named
from gputopo.topology.model import GpuMask
from gputopo.utility.interference import RunningNeighbour, SlowdownSource, WorkloadKind
from gputopo_cluster.occupants import Occupant
from gputopo_cluster.topologies import UnreadableTopology, parse_gpu_node
from gputopo_cluster.usage import NodeUsage, node_usage
from gputopo_kube.document import Document, ObjectKey
from gputopo_kube.workload import workload_name
from gputopo_scheduling.surroundings import (
    LARGEST_SLOWDOWN,
    NOTHING_RUNS,
    interference_facts,
    parse_workload,
    surroundings_of,
)
from support.builders.node_reports import beside, gpu_profile, learnt_profile
from support.builders.objects import pod, topology_object
from support.builders.requests import pod_view
from support.builders.topologies import gpus

DGX = named("dgx1-v100", node="n1")
FIRST, SECOND = gpus(0, 1, 2, 3), gpus(4, 5, 6, 7)
NOISY, QUIET = WorkloadKind("default/noisy"), WorkloadKind("default/quiet", "Sensitive")
FACTS = interference_facts(
    [
        learnt_profile("quiet", beside("default/noisy", 30), sensitivity="Sensitive"),
        learnt_profile("slow", beside("default/noisy", 12, "Node"), sensitivity="Insensitive"),
        gpu_profile("new", bandwidthSensitivityPercent=0),
    ]
)


def of_profile(name: str, profile: str | None, count: int = 1, **others: str) -> Document:
    annotations = {} if profile is None else {"gputopo.io/profile": profile}
    return pod(name, count, node="n1", annotations=annotations | others)


def on(name: str, profile: str | None, mask: GpuMask, **others: Any) -> Occupant:
    view = pod_view(of_profile(name, profile))
    return replace(Occupant(view.uid, view.key, gpus(), pod=view), gpus=mask, **others)


def test_slowdowns_are_the_estimates_of_the_facts() -> None:
    table = FACTS.slowdowns
    near = table.slowdown(QUIET, NOISY)
    assert near.value == pytest.approx(1.3)
    far = table.slowdown_on_node(WorkloadKind("default/slow"), NOISY)
    assert far.value == pytest.approx(1.12)
    assert near.source is far.source is SlowdownSource.MEASURED
    assert table.slowdown(NOISY, QUIET).source is SlowdownSource.ALL


def test_one_extreme_fact_does_not_set_the_scale_of_the_cluster() -> None:
    facts = [
        learnt_profile("a", beside("default/b", 60), beside("default/b", 900, "Node")),
        learnt_profile("b", beside("default/a", 40)),
        learnt_profile("x", beside("default/y", 10_000)),
    ]
    table = interference_facts(facts).slowdowns
    assert table.worst == LARGEST_SLOWDOWN == 4.0
    assert table.slowdown_on_node(WorkloadKind("default/a"), WorkloadKind("default/b")).value == 4
    unknown = table.slowdown(WorkloadKind(""), WorkloadKind(""))
    assert unknown.value == pytest.approx(1.6)


@pytest.mark.parametrize(
    ("spec", "links", "group"),
    [
        ({}, [], ""),
        ({"bandwidthSensitivityPercent": 10}, ["Insensitive"], "Sensitive"),
        ({"bandwidthSensitivityPercent": 9}, ["Sensitive"], "Insensitive"),
        ({"bandwidthSensitivityPercent": 101}, ["Sensitive"], "Sensitive"),
        ({}, ["Insensitive", "Sensitive"], "Sensitive"),
        ({}, ["Insensitive", "Unknown"], "Insensitive"),
        ({}, ["Unknown"], ""),
        ("odd", "odd", ""),
    ],
)
def test_group_is_the_sensitivity_that_is_declared_or_measured(
    spec: object, links: object, group: str
) -> None:
    facts = [
        {
            "gpus": 2,
            "percent": 1,
            "lowPercent": 0,
            "highPercent": 2,
            "samples": 3,
            "sensitivity": it,
        }
        for it in (links if isinstance(links, list) else ())
    ]
    status = {"facts": {"links": facts if isinstance(links, list) else links}}
    found = parse_workload({**gpu_profile("a"), "spec": spec, "status": status})
    assert found.kind == WorkloadKind("default/a", group)


@pytest.mark.parametrize("status", [None, "odd", {}, {"facts": "odd"}, {"facts": {"links": 1}}])
def test_status_that_cannot_be_parsed_shows_nothing(status: object) -> None:
    found = parse_workload({**gpu_profile("a"), "status": status})
    assert (found.kind, found.beside) == (WorkloadKind("default/a"), ())


def test_facts_in_an_unknown_format_are_left_out() -> None:
    odd = {**beside("default/b", 9), "scope": "Rack"}
    found = parse_workload(learnt_profile("a", odd, beside("default/c", 8)))
    assert [each.neighbour for each in found.beside] == ["default/c"]


@pytest.mark.parametrize(
    ("annotations", "kind"),
    [
        ({"gputopo.io/profile": "quiet"}, QUIET),
        ({"gputopo.io/profile": "noisy", "gputopo.io/bandwidth-sensitivity": "Auto"}, NOISY),
        ({"gputopo.io/profile": "new"}, WorkloadKind("", "Insensitive")),
        (
            {"gputopo.io/profile": "new", "gputopo.io/bandwidth-sensitivity": "Sensitive"},
            WorkloadKind("", "Sensitive"),
        ),
        ({"gputopo.io/profile": "Not A Name"}, WorkloadKind("")),
        ({}, WorkloadKind("")),
    ],
)
def test_workload_of_a_pod_is_its_profile(annotations: dict[str, str], kind: WorkloadKind) -> None:
    assert FACTS.kind_of(pod_view(pod("a", annotations=annotations))) == kind


def test_name_of_a_workload_has_the_namespace() -> None:
    named_pod = pod("a", namespace="team", annotations={"gputopo.io/profile": "bert"})
    assert workload_name(pod_view(named_pod)) == "team/bert"
    assert workload_name(pod_view(pod("a", namespace="team"))) == "team/"


def test_neighbours_are_the_workloads_on_whole_sockets() -> None:
    occupants = [
        on("b", "quiet", gpus(5)),
        on("a", "noisy", gpus(0, 1)),
        on("c", None, gpus(3, 4)),
        on("ended", "noisy", gpus(2), ended=True),
        on("without", "noisy", gpus()),
        on("unidentified", "noisy", gpus(), unknown=1),
        Occupant("claimed", ObjectKey("default", "claimed"), gpus(6)),
    ]
    found = FACTS.neighbours(DGX, occupants)
    assert found == (
        RunningNeighbour(NOISY, FIRST),
        RunningNeighbour(WorkloadKind(""), SECOND),
        RunningNeighbour(QUIET, SECOND),
        RunningNeighbour(WorkloadKind(""), DGX.mask),
        RunningNeighbour(NOISY, DGX.mask),
    )
    assert FACTS.neighbours(DGX, reversed(occupants)) == found


def test_nothing_runs_beside_a_pod_if_no_slowdown_is_known() -> None:
    unknown = interference_facts([gpu_profile("new")])
    assert unknown.neighbours(DGX, [on("a", "new", gpus(0))]) == ()
    assert unknown.slowdowns.worst == 1


def test_equal_surroundings_are_the_same_object() -> None:
    def usage(node: str, *pods: Document, **observed: Any) -> NodeUsage:
        found = parse_gpu_node(topology_object(node, named("dgx1-v100", node=node), **observed))
        assert not isinstance(found, UnreadableTopology)
        return node_usage(found, [pod_view(each) for each in pods], [])

    usages: dict[str, NodeUsage | UnreadableTopology] = {
        "n1": usage("n1", of_profile("a", "noisy"), used_by={0: "uid-a"}),
        "n2": usage("n2", of_profile("b", "noisy"), used_by={3: "uid-b"}),
        "n3": usage("n3", of_profile("c", "noisy"), used_by={4: "uid-c"}),
        "n4": usage("n4"),
        "n5": UnreadableTopology("n5", "odd"),
    }
    found = surroundings_of(usages, FACTS)
    assert found["n1"] is found["n2"]
    assert found["n1"].neighbours == (RunningNeighbour(NOISY, FIRST),)
    assert found["n3"].neighbours == (RunningNeighbour(NOISY, SECOND),)
    assert found["n4"] is found["n5"] is NOTHING_RUNS

"""Which GPU a sharing pod gets, and why it gets none."""

from dataclasses import replace
from typing import Any

import pytest

from gputopo.api.names import AVOID_ANNOTATION, SHARING_MEMORY_ANNOTATION
from gputopo.api.shares import SharingLimits
from gputopo.placement.model import Match
from gputopo.sharing.policy import Preference, Unknown
from gputopo.topology.model import GpuIndex, GpuUuid
from gputopo_cluster.occupants import Occupant
from gputopo_cluster.topologies import GpuNode, parse_gpu_node
from gputopo_cluster.usage import NodeUsage, node_usage
from gputopo_scheduling.evaluation import Misfit, MisfitKind
from gputopo_scheduling.node_fits import match_on
from gputopo_scheduling.restrictions import state_for
from gputopo_scheduling.share_options import next_share, share_options, shared_gpu
from gputopo_scheduling.sharing_knowledge import SharingKnowledge, sharing_limits
from gputopo_scheduling.sharing_state import BESIDE_NUMA, NO_SHARES, free_for, sharing_state
from support.builders.objects import Document, avoiding, condition, pod
from support.builders.requests import pod_view, request_in
from support.builders.shares import sharing_pod, sharing_topology
from support.builders.sharing_facts import MODEL, knowledge, pairs
from support.builders.topologies import gpus, node

TOPOLOGY = node(0, 1, 2)
UUIDS = [gpu.uuid for gpu in TOPOLOGY.gpus]
GIB = 2**30
KNOWN = knowledge(*pairs(model=TOPOLOGY.gpus[0].model))


def share(gpu: int, number: int = 0) -> GpuUuid:
    return GpuUuid(f"{UUIDS[gpu]}::{number}")


def placed(name: str, workload: str, gpu: int, number: int = 0, **fields: Any) -> Document:
    return sharing_pod(name, workload, share=share(gpu, number), **fields)


def whole(name: str, gpu: int, **fields: Any) -> Document:
    found = sharing_pod(name, share=UUIDS[gpu], **fields)
    found["spec"]["containers"] = pod(name)["spec"]["containers"]
    return found


def usage(*pods: Document, **fields: Any) -> NodeUsage:
    reserved, ended = fields.pop("reserved", ()), fields.pop("ended", ())
    found = parse_gpu_node(sharing_topology("n1", TOPOLOGY, **fields))
    assert isinstance(found, GpuNode)
    views = [pod_view(each) for each in pods]
    return node_usage(found, views, reserved, ended=[pod_view(each) for each in ended])


def result(
    here: NodeUsage, document: Document, known: SharingKnowledge = KNOWN
) -> tuple[int, ...] | Misfit:
    view = pod_view(document)
    match = match_on(sharing_state(here, view, known), request_in(view))
    return match.gpus if isinstance(match, Match) else match


def of_whole(here: NodeUsage, gpus: int) -> tuple[int, ...] | Misfit:
    """Return the GPUs of a pod that requests whole GPUs."""
    view = pod_view(pod("new", gpus))
    match = match_on(state_for(here, view), request_in(view))
    return match.gpus if isinstance(match, Match) else match


def reason(here: NodeUsage, document: Document, known: SharingKnowledge = KNOWN) -> str:
    found = result(here, document, known)
    assert isinstance(found, Misfit), found
    return f"{found.kind}: {found.reason}"


def test_pod_shares_a_gpu_if_the_prediction_says_that_it_pays() -> None:
    here = usage(placed("x", "c", 0), placed("y", "b", 1))
    assert result(here, sharing_pod("new", "a")) == (1,)
    assert result(here, sharing_pod("new", "d")) == (2,)
    assert result(here, sharing_pod("new")) == (2,)


def test_best_of_several_gpus_has_the_highest_summed_speed() -> None:
    here = usage(placed("x", "b", 0), placed("y", "a", 1))
    assert result(here, sharing_pod("new", "a")) == (1,)  # 0.9 + 0.9 is more than 0.8 + 0.7
    here = usage(placed("x", "a", 2), placed("y", "a", 1))
    assert result(here, sharing_pod("new", "a")) == (1,)  # equal sums: the lowest index


def test_installation_may_prefer_idle_gpus() -> None:
    idle = knowledge(*pairs(model=TOPOLOGY.gpus[0].model), preference=Preference.IDLE)
    here = usage(placed("x", "b", 1))
    assert result(here, sharing_pod("new", "a"), idle) == (0,)
    full = usage(placed("x", "b", 1), whole("y", 0), whole("z", 2))
    assert result(full, sharing_pod("new", "a"), idle) == (1,)


def test_unknown_pair_is_tried_only_without_an_idle_gpu() -> None:
    tries = knowledge(*pairs(model=TOPOLOGY.gpus[0].model), unknown=Unknown.TRY)
    assert result(usage(placed("x", "a", 0)), sharing_pod("new", "d"), tries) == (1,)
    full = usage(placed("x", "a", 0), whole("y", 1), whole("z", 2))
    assert result(full, sharing_pod("new", "d"), tries) == (0,)
    two = usage(placed("x", "a", 0), placed("y", "b", 1), whole("z", 2))
    assert result(two, sharing_pod("new", "d"), tries) == (0,)
    both = usage(placed("x", "d", 0), placed("y", "b", 1), whole("z", 2))
    assert result(both, sharing_pod("new", "a"), tries) == (1,)  # known before unknown


FULL = (whole("y", 1), whole("z", 2))


@pytest.mark.parametrize(
    ("workload", "new", "fields", "expected"),
    [
        ("c", sharing_pod("new", "a"), {}, "sharing would not pay"),
        ("d", sharing_pod("new", "a"), {}, "the speed of the pod beside the others is unknown"),
        ("b", sharing_pod("new", "a", limit=10), {}, "a job would be slower than its limit"),
        ("b", sharing_pod("new", "a"), {"most_pods": 1}, "there are the most pods already"),
        ("b", sharing_pod("new", "a", memory="31Gi"), {}, "too little memory is left"),
    ],
)
def test_reason_of_a_node_without_a_gpu_for_the_pod(
    workload: str, new: Document, fields: dict[str, Any], expected: str
) -> None:
    limited = placed("x", workload, 0, memory="1Gi")
    if fields.get("most_pods"):
        new = sharing_pod("new", "a", memory="1Gi")
    here = usage(limited, *FULL, **fields)
    assert reason(here, new) == f"not_shared: no idle GPU, and on shared GPUs {expected}"


def test_limit_of_a_present_pod_counts_too() -> None:
    here = usage(placed("x", "b", 0, limit=20), *FULL)
    assert "slower than its limit" in reason(here, sharing_pod("new", "a"))
    strict = knowledge(*pairs(model=TOPOLOGY.gpus[0].model), max_slowdown_percent=20)
    assert "slower than" in reason(usage(placed("x", "b", 0), *FULL), sharing_pod("n", "a"), strict)
    own = usage(placed("x", "b", 0, limit=90), *FULL)
    assert result(own, sharing_pod("new", "a", limit=90), strict) == (0,)


def test_node_without_shared_and_idle_gpus_names_the_reason() -> None:
    here = usage(whole("x", 0), *FULL)
    assert reason(here, sharing_pod("new", "a")) == (
        "not_shared: no GPU is idle, and none is shared by pods beside which the pod may run"
    )


def test_first_reason_is_the_one_that_a_user_can_change_most_easily() -> None:
    here = usage(placed("x", "c", 0), placed("y", "b", 1), whole("z", 2))
    assert "slower than its limit" in reason(here, sharing_pod("new", "a", limit=1))
    assert "would not pay" in reason(here, sharing_pod("new", "c"))


def test_idle_gpu_on_which_mps_is_not_ready_is_not_given() -> None:
    here = usage(whole("x", 0), faults={1: "no response", 2: "no response"})
    assert reason(here, sharing_pod("new")) == "not_ready: MPS is not ready on the idle GPUs"
    one = usage(whole("x", 0), faults={1: "no response"})
    assert result(one, sharing_pod("new")) == (2,)
    ended = usage(whole("x", 0), *FULL[:1], ended=[whole("z", 2, phase="Failed")], faults={2: "x"})
    assert reason(ended, sharing_pod("new")) == "not_ready: MPS is not ready on the idle GPUs"
    shared = usage(placed("x", "b", 0), whole("z", 2), faults={1: "x"})
    assert result(shared, sharing_pod("new", "a")) == (0,)


def test_shared_gpu_on_which_mps_is_not_ready_is_waited_for() -> None:
    here = usage(placed("x", "b", 0), *FULL, faults={0: "x"})
    assert reason(here, sharing_pod("new", "a")) == (
        "not_ready: no idle GPU, and on shared GPUs MPS is not ready"
    )
    both = usage(placed("x", "b", 0), placed("y", "c", 1), whole("z", 2), faults={0: "x"})
    assert reason(both, sharing_pod("new", "a")) == (
        "not_ready: no idle GPU, and on shared GPUs MPS is not ready"
    )


def test_while_the_component_for_mps_does_not_respond_pods_wait() -> None:
    outage = condition("MPSReady", "False", "NotResponding")
    here = usage(whole("x", 0), faults=dict.fromkeys(range(3), "x"), conditions=[outage])
    assert reason(here, sharing_pod("new")) == "not_ready: the component for MPS does not respond"
    served = usage(whole("x", 0), faults={1: "x"}, served={2: "x"}, conditions=[outage])
    assert result(served, sharing_pod("new")) == (2,)
    shared = usage(placed("x", "b", 0), *FULL, faults={0: "x"}, conditions=[outage])
    assert reason(shared, sharing_pod("new", "a")) == (
        "not_ready: the component for MPS does not respond"
    )


def test_whole_gpu_that_mps_still_serves_is_not_given() -> None:
    here = usage(whole("x", 0), served={1: "no response"})
    assert of_whole(here, 1) == (2,)
    found = of_whole(here, 2)
    assert isinstance(found, Misfit)
    assert (found.kind, found.reason) == (
        MisfitKind.NOT_READY,
        "too few free GPUs beside those that MPS still serves",
    )
    for busy in (of_whole(here, 3), of_whole(usage(*FULL, served={1: "no response"}), 2)):
        assert isinstance(busy, Misfit)
        assert busy.kind is MisfitKind.BUSY
    unhealthy = usage(whole("x", 0), served={1: "no response"}, unhealthy=[1])
    found = of_whole(unhealthy, 2)
    assert isinstance(found, Misfit)
    assert found.kind is MisfitKind.BUSY


def test_gpus_of_processes_that_still_run_are_waited_for() -> None:
    here = usage(whole("x", 0), whole("y", 1), ended=[placed("z", "b", 2, phase="Failed")])
    found = result(here, sharing_pod("new", "d"))
    assert isinstance(found, Misfit)
    assert found.kind is MisfitKind.DELETED_PODS


def test_node_that_offers_no_shares_is_blocked() -> None:
    document = sharing_topology("n1", TOPOLOGY)
    del document["status"]["sharing"]
    found = parse_gpu_node(document)
    assert isinstance(found, GpuNode)
    here = node_usage(found, [], ())
    assert reason(here, sharing_pod("new")) == f"blocked: {NO_SHARES}"
    document = sharing_topology("n1", TOPOLOGY)
    document["status"]["alignment"] = {"policy": "restricted", "scope": "container"}
    found = parse_gpu_node(document)
    assert isinstance(found, GpuNode)
    assert reason(node_usage(found, [], ()), sharing_pod("new")) == f"blocked: {BESIDE_NUMA}"


def test_whole_gpu_pod_names_the_gpus_in_shares() -> None:
    here = usage(placed("x", "a", 0), *FULL)
    view = pod_view(pod("new", 1))
    found = match_on(here.state, request_in(view))
    assert found == Misfit(MisfitKind.SHARED, "too few free GPUs beside those that pods share")
    two = match_on(here.state, request_in(pod_view(pod("new", 2))))
    assert isinstance(two, Misfit)
    assert two.kind is MisfitKind.BUSY
    ill = usage(placed("x", "a", 0), whole("y", 1), unhealthy=[0])
    found = match_on(ill.state, request_in(pod_view(pod("new", 2))))
    assert isinstance(found, Misfit)
    assert found.kind is MisfitKind.BUSY


def test_unhealthy_gpu_takes_no_further_pod() -> None:
    here = usage(placed("x", "b", 0), unhealthy=[0])
    assert share_options(here, pod_view(sharing_pod("new", "a")), KNOWN) == []
    assert result(here, sharing_pod("new", "a")) == (1,)


def test_memory_of_all_pods_is_never_above_that_of_the_gpu() -> None:
    usable = (TOPOLOGY.gpus[0].memory_bytes - GIB // 2) // GIB
    here = usage(placed("x", "b", 0, memory=f"{usable - 2}Gi"), *FULL)
    assert result(here, sharing_pod("new", "a", memory="2Gi")) == (0,)
    assert "memory" in reason(here, sharing_pod("new", "a", memory="3Gi"))
    assert "memory" in reason(here, sharing_pod("new", "a"))  # an equal part is a quarter


def mixed(*pods: Document) -> NodeUsage:
    """Return a node whose GPU 2 has half of the memory of the others."""
    half = replace(TOPOLOGY.gpus[2], memory_bytes=TOPOLOGY.gpus[2].memory_bytes // 2)
    topology = replace(TOPOLOGY, gpus=(*TOPOLOGY.gpus[:2], half))
    found = parse_gpu_node(sharing_topology("n1", topology))
    assert isinstance(found, GpuNode)
    return node_usage(found, [pod_view(each) for each in pods], ())


def half(**policy: Any) -> SharingKnowledge:
    """Return knowledge with which one pod may declare half of a GPU."""
    return knowledge(*pairs(model=TOPOLOGY.gpus[0].model), max_memory_percent=50, **policy)


def test_pod_that_declares_more_than_any_gpu_has_gets_none() -> None:
    large = sharing_pod("new", "a", memory="900Gi")
    for here in (usage(), usage(placed("x", "b", 0)), mixed()):
        assert reason(here, large) == (
            "blocked: gputopo.io/sharing-memory: 900Gi, but one pod may have at most 32256Mi of a "
            "GPU with 32Gi; declare less, or request a whole GPU"
        )


def test_one_pod_gets_at_most_the_part_of_the_installation() -> None:
    # Of 32 GiB, MPS needs half a GiB; half of the rest are 16128 MiB.
    for memory, fits in (("16128Mi", True), ("16129Mi", False), ("31Gi", False)):
        one = sharing_pod("new", "a", memory=memory)
        assert (result(usage(), one, half()) == (0,)) is fits
        assert (result(usage(placed("x", "b", 0, memory="1Gi")), one, half()) == (0,)) is fits
        assert result(usage(), one) == (0,)
    assert "31Gi, but one pod may have at most 16128Mi" in reason(usage(), one, half())
    few = parse_gpu_node(sharing_topology("n1", TOPOLOGY, most_pods=2))
    assert isinstance(few, GpuNode)
    tenth = replace(half().policy, max_memory_percent=10)
    equal = SharingKnowledge(tenth, half().profiles, half().measured)
    assert result(node_usage(few, [], ()), sharing_pod("new", "a"), equal) == (0,)
    assert result(node_usage(few, [], ()), sharing_pod("b", "a", memory="16128Mi"), equal) == (0,)
    assert "blocked" in reason(node_usage(few, [], ()), one, equal)


def test_larger_gpu_of_the_node_is_given() -> None:
    one = sharing_pod("new", "a", memory="9Gi")  # half of 16 GiB without that for MPS is 7.75 GiB
    assert result(mixed(whole("y", 0)), one, half()) == (1,)
    assert reason(mixed(whole("y", 0), whole("z", 1)), one, half()) == (
        "not_shared: the idle GPUs have less memory than the pod needs"
    )
    beside = mixed(whole("y", 0), whole("z", 1), placed("x", "b", 2, memory="1Gi"))
    assert reason(beside, one, half()) == (
        "not_shared: no idle GPU, and on shared GPUs too little memory is left"
    )
    here = mixed()
    chosen = shared_gpu(here, pod_view(one), GpuIndex(1), half())
    assert free_for(here, pod_view(one), chosen) == gpus(0, 1)
    small = pod_view(sharing_pod("new", "a", memory="7Gi"))
    assert free_for(here, small, shared_gpu(here, small, GpuIndex(1), half())) == gpus(0, 1, 2)


def test_pods_that_were_placed_before_keep_more_than_the_part() -> None:
    here = usage(placed("x", "b", 0, memory="20Gi"), *FULL)
    assert result(here, sharing_pod("new", "a", memory="11Gi"), half()) == (0,)
    assert "too little memory is left" in reason(
        here, sharing_pod("new", "a", memory="12Gi"), half()
    )


def test_annotation_that_a_user_changed_later_has_no_limits() -> None:
    changed = sharing_pod("a", annotations={SHARING_MEMORY_ANNOTATION: "much"})
    assert sharing_limits(pod_view(changed)) == SharingLimits()


def test_pods_that_are_not_known_yet_keep_others_off() -> None:
    claimed = Occupant(
        "uid-x", pod_view(sharing_pod("x")).key, gpus(0), shares=frozenset({share(0)})
    )
    here = usage(*FULL, reserved=[claimed])
    assert "beside which the pod may run" in reason(here, sharing_pod("new", "a"))
    elsewhere = sharing_pod("new", "a")
    elsewhere["metadata"]["namespace"] = "other"
    assert "the pods are not known yet" in reason(here, elsewhere)
    observed = usage(*FULL, shares={share(0, 1): "uid-gone"})
    assert "the pods are not known yet" in reason(observed, sharing_pod("new", "a"))


def test_pod_is_not_beside_itself() -> None:
    own = placed("new", "a", 0)
    here = usage(own, placed("x", "b", 0, 1), *FULL)
    [option] = share_options(here, pod_view(own), KNOWN)
    assert option.beside == ("default/x",)


def test_avoided_pods_keep_the_pod_off() -> None:
    noisy = placed("x", "b", 0, labels={"app": "noisy"})
    quiet = sharing_pod("new", "a", annotations=avoiding(app="noisy"))
    assert AVOID_ANNOTATION in quiet["metadata"]["annotations"]
    assert result(usage(noisy), quiet) == (1,)
    assert "beside which the pod may run" in reason(usage(noisy, *FULL), quiet)
    other = sharing_pod("new", "a", annotations=avoiding(app="other"))
    assert result(usage(noisy), other) == (0,)


def test_next_share_is_the_lowest_free_number() -> None:
    here = usage(placed("x", "a", 0, 0), placed("y", "b", 0, 2), placed("z", "a", 1, 1))
    assert next_share(here, GpuIndex(0)) == share(0, 1)
    assert next_share(here, GpuIndex(1)) == share(1, 0)
    assert next_share(here, GpuIndex(2)) == share(2, 0)


def test_share_has_its_prediction_and_the_free_gpus_of_the_decision() -> None:
    here, view = usage(placed("x", "b", 0), faults={2: "x"}), pod_view(sharing_pod("new", "a"))
    found = shared_gpu(here, view, GpuIndex(0), KNOWN)
    assert found.share == share(0, 1)
    assert found.option is not None
    assert found.option.beside == ("default/x",)
    assert found.option.decision is not None
    assert found.option.decision.shares
    assert free_for(here, view, found) == gpus(0)
    idle = shared_gpu(here, view, GpuIndex(1), KNOWN)
    assert (idle.share, idle.option, free_for(here, view, idle)) == (share(1, 0), None, gpus(1))


def test_predictor_is_that_of_the_gpus_model() -> None:
    other = knowledge(*pairs(model="H100"))
    assert "unknown" in reason(usage(placed("x", "b", 0), *FULL), sharing_pod("new", "a"), other)
    assert KNOWN.predictor(MODEL) is KNOWN.predictor(MODEL)


def test_gpu_that_a_pod_has_as_a_whole_too_takes_no_further_pod() -> None:
    here = usage(placed("x", "b", 0), whole("error", 0), *FULL)
    assert "beside which the pod may run" in reason(here, sharing_pod("new", "a"))
    other = sharing_pod("other", node="n1")
    other["spec"]["containers"] = pod("other")["spec"]["containers"]
    seen = usage(
        placed("x", "b", 0), other, *FULL, shares={share(0): "uid-x"}, used_by={0: "uid-other"}
    )
    assert "beside which the pod may run" in reason(seen, sharing_pod("new", "a"))
    twice = usage(placed("x", "b", 0), placed("y", "b", 0), *FULL)
    assert "beside which the pod may run" in reason(twice, sharing_pod("new", "a"))

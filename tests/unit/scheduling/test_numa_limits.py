"""The GPUs of a node are limited to those that kubelet gives to a pod by their NUMA nodes."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputopo.alignment.accepted import Manager
from gputopo.alignment.hints import amount_hints
from gputopo.alignment.model import Hints, ManagerPolicy, ManagerScope, NumaMask
from gputopo.catalogue import named
from gputopo.topology.model import GpuIndex, GpuMask, indices_of, mask_of
from gputopo_cluster.numa_rules import NumaCpuCounts, NumaRules
from gputopo_cluster.usage import NodeState, NumaObstacle, ObstacleKind
from gputopo_kube.aligned_containers import AlignedContainer
from gputopo_kube.gpu_containers import ContainerKind
from gputopo_scheduling.evaluation import Misfit, MisfitKind
from gputopo_scheduling.node_fits import match_on
from gputopo_scheduling.numa_limits import limit_to_numa, still_takes
from support.builders.requests import request_of
from support.kubelet.alignment import ContainerChoice, find_conflict

TOPOLOGY = named("dgx1-v100", node="n1")
NODE_OF = tuple((gpu.index, gpu.numa_node or 0) for gpu in TOPOLOGY.gpus)
LOW, HIGH, ALL = GpuMask(0b00001111), GpuMask(0b11110000), GpuMask(0b11111111)
Free = Sequence[int]


def allowed(found: NodeState) -> GpuMask:
    """Return the free GPUs that the pod may use."""
    return found.usable(found.free)


def state(
    policy: ManagerPolicy,
    *,
    free: int = ALL,
    cpus: Free | None = (4, 4),
    scope: ManagerScope = ManagerScope.CONTAINER,
    stable: bool = True,
) -> NodeState:
    """Return a node with 4 GPUs and 5 CPUs, one of them reserved, on each of 2 NUMA nodes."""
    counts = None
    if cpus is not None:
        counts = tuple(NumaCpuCounts(node, 5, 4, count) for node, count in enumerate(cpus))
    rules = NumaRules(Manager(policy, scope, NumaMask(0b11)), NODE_OF, counts, stable)
    return NodeState(TOPOLOGY, ALL, GpuMask(free), 0, None, numa=rules)


def one(
    gpus: int, cpus: int = 0, kind: ContainerKind = ContainerKind.APPLICATION
) -> AlignedContainer:
    return AlignedContainer("main", gpus, cpus, kind)


def obstacle(found: NodeState) -> NumaObstacle:
    assert found.obstacle is not None
    return found.obstacle


@pytest.mark.parametrize("policy", [ManagerPolicy.BEST_EFFORT, ManagerPolicy.RESTRICTED])
def test_small_pods_get_gpus_of_the_lowest_numa_node_that_has_enough(policy: ManagerPolicy) -> None:
    assert allowed(limit_to_numa(state(policy), (one(2),))) == LOW
    assert allowed(limit_to_numa(state(policy, free=0b11110001), (one(2),))) == HIGH
    assert allowed(limit_to_numa(state(policy), (one(5),))) == ALL


def test_gpus_follow_the_numa_node_with_free_cpus() -> None:
    busy = state(ManagerPolicy.RESTRICTED, cpus=(0, 4))
    assert allowed(limit_to_numa(busy, (one(2, 2),))) == HIGH
    assert allowed(limit_to_numa(busy, (one(2),))) == LOW


def test_a_pod_that_never_fits_is_rejected_while_another_pod_is_admitted() -> None:
    busy = state(ManagerPolicy.SINGLE_NUMA_NODE, stable=False)
    assert obstacle(limit_to_numa(busy, (one(5),))).kind is ObstacleKind.PERMANENT
    assert obstacle(limit_to_numa(busy, (one(4),))).kind is ObstacleKind.WAITING


def test_chosen_gpus_are_still_taken_only_while_nothing_has_changed() -> None:
    free, containers = state(ManagerPolicy.BEST_EFFORT), (one(2),)
    assert still_takes(free, containers, GpuMask(0b11))
    assert not still_takes(free, containers, GpuMask(0b11 << 4)), "kubelet takes NUMA node 0"
    assert not still_takes(replace(free, free=GpuMask(0b1)), containers, GpuMask(0b11))
    assert not still_takes(state(ManagerPolicy.BEST_EFFORT, stable=False), containers, GpuMask(3))
    assert still_takes(replace(free, numa=None), containers, GpuMask(0b11 << 4))


def test_a_node_without_rules_or_without_enough_gpus_is_unchanged() -> None:
    plain = replace(state(ManagerPolicy.RESTRICTED), numa=None)
    assert limit_to_numa(plain, (one(2),)) is plain
    full = state(ManagerPolicy.RESTRICTED, free=1)
    assert limit_to_numa(full, (one(2),)) is full


def test_a_shape_that_never_fits_is_a_permanent_misfit_that_names_policy_gpus_and_cpus() -> None:
    limited = limit_to_numa(state(ManagerPolicy.RESTRICTED), (one(8, 1),))
    found = match_on(limited, request_of(8))
    assert isinstance(found, Misfit)
    assert found.kind is MisfitKind.NUMA_SHAPE
    assert found.reason == (
        "topologyManagerPolicy restricted: 8 GPUs and 1 exclusive CPU do not fit on the same NUMA "
        "nodes, as few as the hardware allows (free GPUs 0:4 1:4, CPUs 0:4 1:4)"
    )


def test_a_pod_that_fits_when_others_have_ended_is_a_temporary_misfit() -> None:
    limited = limit_to_numa(state(ManagerPolicy.SINGLE_NUMA_NODE, free=0b00010001), (one(2),))
    found = match_on(limited, request_of(2))
    assert isinstance(found, Misfit)
    assert found.kind is MisfitKind.NUMA_BUSY
    assert found.reason.endswith("do not fit on one NUMA node (free GPUs 0:1 1:1)")


def test_best_effort_rejects_only_pods_with_more_cpus_than_are_free() -> None:
    best_effort = state(ManagerPolicy.BEST_EFFORT, cpus=(1, 1))
    assert limit_to_numa(best_effort, (one(2, 2),)).obstacle is None
    assert obstacle(limit_to_numa(best_effort, (one(2, 3),))).kind is ObstacleKind.BUSY
    assert obstacle(limit_to_numa(best_effort, (one(2, 9),))).kind is ObstacleKind.PERMANENT


def test_best_effort_may_require_gpus_of_the_cpus_and_adds_the_lowest_others() -> None:
    # The CPUs are on NUMA node 0, which has one free GPU.
    limited = limit_to_numa(
        state(ManagerPolicy.BEST_EFFORT, free=0b11110001, cpus=(4, 0)), (one(2, 4),)
    )
    assert indices_of(allowed(limited)) == (0, 4)


@pytest.mark.parametrize(
    "unsure",
    [{"stable": False}, {"unknown": 1}, {"deleted": GpuMask(0b1000)}],
)
def test_until_the_former_pod_is_admitted_and_ended_pods_are_gone_the_node_waits(
    unsure: dict[str, int],
) -> None:
    known = state(ManagerPolicy.RESTRICTED, stable=unsure.pop("stable", True) is True)
    limited = limit_to_numa(replace(known, **unsure), (one(2),))  # type: ignore[arg-type]
    found = match_on(limited, request_of(2))
    assert isinstance(found, Misfit)
    assert found.kind is MisfitKind.NUMA_WAITING


def test_without_exclusive_cpus_of_kubelet_requested_cpus_limit_nothing() -> None:
    assert allowed(limit_to_numa(state(ManagerPolicy.RESTRICTED, cpus=None), (one(8, 4),))) == ALL


def test_init_containers_with_gpus_are_rejected() -> None:
    pod = (one(1, kind=ContainerKind.INIT), one(2))
    found = obstacle(limit_to_numa(state(ManagerPolicy.RESTRICTED), pod))
    assert found.kind is ObstacleKind.PERMANENT
    assert "init containers" in found.reason


def test_several_containers_with_gpus_need_the_scope_pod() -> None:
    pod = (one(2), one(2))
    found = obstacle(limit_to_numa(state(ManagerPolicy.RESTRICTED), pod))
    assert "topologyManagerScope pod" in found.reason
    whole = state(ManagerPolicy.RESTRICTED, scope=ManagerScope.POD)
    assert allowed(limit_to_numa(whole, pod)) == LOW
    assert allowed(limit_to_numa(whole, (one(2), one(3)))) == ALL


def test_containers_of_one_pod_do_not_share_gpus_that_kubelet_would_divide_otherwise() -> None:
    pod = (AlignedContainer("a", 1, 4), AlignedContainer("b", 1, 0))
    busy = state(ManagerPolicy.BEST_EFFORT, free=0b11110001, cpus=(4, 0), scope=ManagerScope.POD)
    assert limit_to_numa(busy, pod).obstacle is not None


def test_cpus_of_an_earlier_container_are_not_free_for_the_next() -> None:
    pod = (AlignedContainer("proxy", 0, 4), one(2, 4))
    assert allowed(limit_to_numa(state(ManagerPolicy.RESTRICTED), pod)) == HIGH
    three = (AlignedContainer("proxy", 0, 1), one(2, 4))
    assert allowed(limit_to_numa(state(ManagerPolicy.RESTRICTED), three)) == HIGH
    no_more = (AlignedContainer("proxy", 0, 4), one(2, 4), AlignedContainer("last", 0, 1))
    assert obstacle(limit_to_numa(state(ManagerPolicy.RESTRICTED), no_more))


def test_unpredictable_cpus_are_an_obstacle_only_if_a_later_container_requests_some() -> None:
    wide = AlignedContainer("wide", 0, 6)
    found = limit_to_numa(state(ManagerPolicy.RESTRICTED), (wide, one(1, 1)))
    assert "cannot be predicted" in obstacle(found).reason
    assert allowed(limit_to_numa(state(ManagerPolicy.RESTRICTED), (wide, one(1)))) == LOW


def hints(container: AlignedContainer, rules: NumaRules) -> list[Hints]:
    cpus = {each.node: each.free for each in rules.cpus or ()}
    return [amount_hints(container.cpus, rules.cpu_amounts(cpus))] if container.cpus else []


def conflict(
    known: NodeState, container: AlignedContainer, gpus: GpuMask, *, strict: bool = False
) -> str | None:
    """Return why kubelet does not give these GPUs to a container, by what kubelet accepts.

    ``strict`` is a kubelet that knows the NUMA nodes of GPUs in use.
    """
    rules = known.numa
    assert rules is not None
    others = hints(container, rules)
    whole = others if rules.manager.scope is ManagerScope.POD else ()
    choice = ContainerChoice("main", gpus, others)
    pool = rules.pool(known.free) if strict else rules.free_pool(known.free)
    return find_conflict(rules.manager, pool, [choice], whole)


@given(
    policy=st.sampled_from([each for each in ManagerPolicy if each is not ManagerPolicy.NONE]),
    scope=st.sampled_from(ManagerScope),
    free=st.integers(0, 255),
    cpus=st.tuples(st.integers(0, 4), st.integers(0, 4)),
    gpus=st.integers(1, 8),
    exclusive=st.integers(0, 6),
)
def test_kubelet_gives_every_set_of_the_limited_gpus_and_else_none(
    policy: ManagerPolicy,
    scope: ManagerScope,
    free: int,
    cpus: tuple[int, int],
    gpus: int,
    exclusive: int,
) -> None:
    known = state(policy, free=free, cpus=cpus, scope=scope)
    container = one(gpus, exclusive)
    limited = limit_to_numa(known, (container,))
    if free.bit_count() < gpus:
        assert limited is known
        return
    sets = [
        mask_of(GpuIndex(index) for index in chosen)
        for chosen in combinations(indices_of(GpuMask(free)), gpus)
    ]
    if limited.obstacle is None:
        inside = [each for each in sets if each & ~allowed(limited) == 0]
        assert inside
        assert [conflict(known, container, each) for each in inside] == [None] * len(inside)
    elif sum(cpus) >= exclusive:
        assert all(conflict(known, container, each, strict=True) for each in sets)

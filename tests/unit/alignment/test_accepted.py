"""Which GPUs a container can get, on a server of two sockets with four GPUs each."""

import asyncio
from collections.abc import Mapping
from itertools import combinations

import pytest

from gputopo.alignment.accepted import (
    AcceptedGpus,
    Manager,
    accepted_gpus,
)
from gputopo.alignment.hints import amount_hints
from gputopo.alignment.model import (
    Alignment,
    AlignmentError,
    GpuPool,
    ManagerPolicy,
    ManagerScope,
    NodeAmounts,
    NumaMask,
    numa_mask,
)
from gputopo.topology.model import GpuIndex, GpuMask
from gputopo_deviceplugin.kubelet.v1beta1 import api_pb2 as api
from support.kubelet.alignment import ContainerChoice, accepts, align, find_conflict
from support.kubelet.device_manager import DeviceManager

SOCKETS: Mapping[GpuIndex, int] = {GpuIndex(gpu): gpu // 4 for gpu in range(8)}
NONE, BEST_EFFORT, RESTRICTED, SINGLE = ManagerPolicy
CPUS_OF_NODE_1 = amount_hints(2, NodeAmounts({0: 8, 1: 8}, {0: 1, 1: 8}))


def mask(*gpus: int) -> GpuMask:
    return GpuMask(sum(1 << gpu for gpu in gpus))


def pool(*free: int) -> GpuPool:
    return GpuPool(SOCKETS, mask(*free))


def manager(policy: ManagerPolicy, scope: ManagerScope = ManagerScope.CONTAINER) -> Manager:
    return Manager(policy, scope, numa_mask([0, 1]))


def test_gpus_without_a_numa_node_are_rejected() -> None:
    with pytest.raises(AlignmentError, match="free: 0x100 has GPUs without a NUMA node"):
        GpuPool(SOCKETS, mask(8))


def test_the_pool_counts_gpus_by_node() -> None:
    assert pool(0, 1, 5).amounts == NodeAmounts({0: 4, 1: 4}, {0: 2, 1: 1})


def test_few_gpus_always_come_from_the_first_socket_that_has_them() -> None:
    alignment = align(manager(RESTRICTED), pool(*range(8)), 2)
    accepted = accepted_gpus(alignment, pool(*range(8)), 2)
    assert accepted == AcceptedGpus(2, mask(), mask(0, 1, 2, 3))
    assert accepts(accepted, mask(1, 3))
    assert not accepts(accepted, mask(4, 5))
    assert not accepts(accepted, mask(1, 2, 3))


def test_cpus_move_the_gpus_to_the_socket_of_the_cpus() -> None:
    alignment = align(manager(SINGLE), pool(*range(8)), 2, [CPUS_OF_NODE_1])
    assert alignment == Alignment(NumaMask(0b10), admitted=True)


def test_all_free_gpus_of_the_nodes_are_taken_without_a_call() -> None:
    accepted = accepted_gpus(Alignment(NumaMask(0b10), admitted=True), pool(0, 6, 7), 2)
    assert accepted == AcceptedGpus(2, mask(6, 7), mask(6, 7))


def test_without_a_limit_any_free_gpus_can_be_taken() -> None:
    for free in (pool(0, 6, 7), pool(6, 7)):
        accepted = accepted_gpus(align(manager(NONE), free, 2), free, 2)
        assert accepted == AcceptedGpus(2, mask(), free.free)


@pytest.mark.parametrize("size", [4, 1])
def test_a_request_that_is_not_admitted_has_no_accepted_gpus(size: int) -> None:
    with pytest.raises(AlignmentError, match=f"size: {size} GPUs were not admitted"):
        accepted_gpus(Alignment(None, admitted=size > 1), pool(0, 6, 7), size)


class PluginWithChoice:
    """A plugin that prefers one set of GPUs, and records whether kubelet called it."""

    def __init__(self, chosen: list[str]) -> None:
        self.chosen = chosen
        self.called = False
        self.taken: set[str] = set()

    async def GetPreferredAllocation(  # noqa: N802 - the API's name
        self, request: api.PreferredAllocationRequest, /
    ) -> api.PreferredAllocationResponse:
        self.called = True
        assert len(request.container_requests) == 1
        return api.PreferredAllocationResponse(container_responses=[{"deviceIDs": self.chosen}])

    async def Allocate(self, request: api.AllocateRequest, /) -> api.AllocateResponse:  # noqa: N802
        self.taken = set(request.container_requests[0].devices_ids)
        return api.AllocateResponse(container_responses=[{}])


@pytest.mark.parametrize("aligned", [None, 0b01, 0b10, 0b11])
@pytest.mark.parametrize("free", [(0, 4, 5), (0, 1, 2, 6), (4, 5, 6, 7), (0,)])
def test_kubelet_gives_a_container_the_accepted_sets_and_no_others(
    aligned: int | None, free: tuple[int, ...]
) -> None:
    gpus = pool(*free)
    alignment = Alignment(None if aligned is None else NumaMask(aligned), admitted=True)
    for size in range(1, len(free) + 1):
        accepted = accepted_gpus(alignment, gpus, size)
        for chosen in combinations(free, size):
            devices = DeviceManager()
            plugin = PluginWithChoice([str(gpu) for gpu in chosen])
            devices.plugin = plugin
            devices.devices = dict.fromkeys(map(str, free), "Healthy")
            near = gpus.free_on(NumaMask(aligned)) if aligned is not None else 0
            devices.aligned = {str(gpu) for gpu in free if near >> gpu & 1}
            asyncio.run(devices.admit(("default", "a"), {"main": size}))
            given = plugin.taken == {str(gpu) for gpu in chosen}
            assert accepts(accepted, mask(*chosen)) == given, (size, chosen)
            called = accepted.required != accepted.allowed
            assert called == plugin.called, (size, chosen)


def test_each_container_has_a_decision_of_its_own_after_those_before_it() -> None:
    first, second = ContainerChoice("a", mask(0, 1, 2)), ContainerChoice("b", mask(4, 5))
    free = pool(*range(8))
    assert find_conflict(manager(RESTRICTED), free, [first, second]) is None
    reason = find_conflict(manager(RESTRICTED), free, [second, first])
    assert reason == "container b: kubelet takes 2 of the GPUs 0xf, but 0x30 were chosen"


def test_all_containers_of_a_pod_share_the_nodes_of_its_sum() -> None:
    first, second = ContainerChoice("a", mask(0, 1, 2)), ContainerChoice("b", mask(3, 4))
    free = pool(*range(8))
    whole = manager(RESTRICTED, ManagerScope.POD)
    assert find_conflict(whole, free, [first, second]) is None
    assert find_conflict(manager(RESTRICTED), free, [first, second]) is not None
    reason = find_conflict(manager(SINGLE, ManagerScope.POD), free, [first, second])
    assert reason == "container a: kubelet rejects the request for 3 GPUs"


def test_hints_of_the_pod_or_of_the_container_count_by_the_scope() -> None:
    near = ContainerChoice("a", mask(4, 5), [CPUS_OF_NODE_1])
    free = pool(*range(8))
    assert find_conflict(manager(SINGLE), free, [near]) is None
    assert find_conflict(manager(SINGLE, ManagerScope.POD), free, [near]) is not None
    pod = find_conflict(manager(SINGLE, ManagerScope.POD), free, [near], [CPUS_OF_NODE_1])
    assert pod is None


def test_a_mask_with_too_few_gpus_requires_all_of_them() -> None:
    choice = ContainerChoice("a", mask(4, 5))
    cpus = amount_hints(2, NodeAmounts({0: 8, 1: 8}, {0: 8, 1: 0}))
    chosen = ContainerChoice("a", mask(4, 5), [cpus])
    free = pool(0, 4, 5)
    assert find_conflict(manager(BEST_EFFORT), free, [choice]) is None
    reason = find_conflict(manager(BEST_EFFORT), free, [chosen])
    assert reason == (
        "container a: kubelet takes 2 of the GPUs 0x31 with 0x1, but 0x30 were chosen"
    )


def test_more_gpus_than_are_free_are_rejected_under_every_policy() -> None:
    for policy in ManagerPolicy:
        reason = find_conflict(manager(policy), pool(0), [ContainerChoice("a", mask(0, 1))])
        assert reason == "container a: kubelet rejects the request for 2 GPUs"

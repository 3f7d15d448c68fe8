"""When MPS daemons start and end, and which faults are reported."""

import asyncio

import pytest

from gputopo.api.names import SHARING_MEMORY_ANNOTATION
from gputopo.api.shares import share_id
from gputopo_deviceplugin.sharing.coordinator import shared_gpus
from support.agent.coordinated import Coordinated
from support.builders.objects import pod
from support.builders.shares import sharing_pod


def failures(case: Coordinated) -> float:
    name = "gputopo_agent_failures_total"
    found = case.metrics.registry.get_sample_value(name, {"of": "mps"})
    assert found is not None
    return found


async def test_daemon_starts_for_a_pod_that_is_bound(case: Coordinated) -> None:
    case.users.put(sharing_pod("a", share=case.share(1)))
    await case.check(2)
    assert case.mps.requests == [f"PUT /gpus/{case.gpus[1]}"]
    assert case.daemons.known[case.gpus[1]].state == "Ready"
    assert case.sharing_faults == {}


async def test_no_daemon_starts_for_other_pods(case: Coordinated) -> None:
    ended = sharing_pod("ended", share=case.share(0), phase="Succeeded")
    leaving = sharing_pod("leaving", share=case.share(0))
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    elsewhere = sharing_pod("elsewhere", share=case.share(0), node="n2")
    unplaced = sharing_pod("unplaced", node="n1")
    for document in (ended, leaving, elsewhere, unplaced, pod("whole", node="n1")):
        case.users.put(document)
    await case.check()
    assert case.mps.requests == []


@pytest.mark.parametrize("listed", [True, False])
async def test_no_daemon_starts_on_a_gpu_that_is_used_as_a_whole(
    case: Coordinated, *, listed: bool
) -> None:
    case.users.put(sharing_pod("a", share=case.share(0)))
    if listed:
        case.users.use(case.gpus[0], "whole")
    else:
        case.users.assigned.add(case.gpus[0])
    await case.check()
    assert case.mps.requests == []


async def test_lost_daemon_of_running_pods_starts_again(case: Coordinated) -> None:
    case.users.put(sharing_pod("a", share=case.share(0)))
    case.users.use(case.share(0), "a")
    await case.check()
    case.mps.gpus.clear()
    await case.check()
    assert case.mps.requests == [f"PUT /gpus/{case.gpus[0]}"] * 2


async def test_daemon_ends_at_the_fifth_check_without_pods(case: Coordinated) -> None:
    case.mps.serve(case.gpus[0])
    await case.check(4)
    assert case.mps.requests == []
    await case.check()
    assert case.mps.requests == [f"DELETE /gpus/{case.gpus[0]}"]
    await case.check(6)
    assert len(case.mps.requests) == 1


async def test_pod_that_comes_meanwhile_keeps_the_daemon(case: Coordinated) -> None:
    case.mps.serve(case.gpus[0])
    await case.check(4)
    case.users.use(case.share(0), "a")
    await case.check()
    case.users.users.clear()
    await case.check(4)
    assert case.mps.requests == []
    await case.check()
    assert case.mps.requests == [f"DELETE /gpus/{case.gpus[0]}"]


async def test_allocation_restarts_the_count(case: Coordinated) -> None:
    case.mps.serve(case.gpus[0])
    await case.check(4)
    view = case.users.put(sharing_pod("a", share=case.share(0), phase="Failed"))
    assert await case.prepare(view, case.share(0)) is None
    await case.check(4)
    assert case.mps.requests == [f"PUT /gpus/{case.gpus[0]}"]


async def test_daemon_never_ends_after_its_allocation_was_prepared(case: Coordinated) -> None:
    case.mps.serve(case.gpus[0])
    view = case.users.put(sharing_pod("a", share=case.share(0), phase="Failed"))
    await case.check(4)
    await asyncio.gather(case.check(), case.prepare(view, case.share(0)))
    assert case.gpus[0] in case.mps.gpus
    assert case.daemons.known[case.gpus[0]].state == "Ready"


async def test_daemon_does_not_end_if_a_container_got_a_share_while_another_ended(
    case: Coordinated,
) -> None:
    first, second = sorted(case.gpus)
    case.mps.serve(first)
    case.mps.serve(second)
    await case.check(4)
    share = share_id(second, 0)
    view = case.users.put(sharing_pod("b", share=share, phase="Failed"))
    async with asyncio.TaskGroup() as tasks:
        check = tasks.create_task(case.check())
        while case.mps.lists < 5:  # noqa: ASYNC110
            await asyncio.sleep(0)
        case.mps.responds.clear()
        while not case.mps.requests:  # noqa: ASYNC110 - the end of the first daemon
            await asyncio.sleep(0.01)
        prepared = tasks.create_task(case.prepare(view, share))
        await asyncio.sleep(0)
        case.mps.responds.set()
        await check
    assert prepared.result() is None
    assert case.mps.requests == [f"DELETE /gpus/{first}", f"PUT /gpus/{second}"]
    assert [*case.mps.gpus] == [second]


async def test_daemon_that_does_not_end_concerns_no_other_gpu(case: Coordinated) -> None:
    case.mps.serve(case.gpus[0])
    case.mps.no_end[case.gpus[0]] = "processes 12 use it"
    case.users.put(sharing_pod("b", share=case.share(1)))
    await case.check(6)
    assert case.sharing_faults == {}
    assert case.gpus[1] in case.mps.gpus
    assert failures(case) == 2
    case.mps.no_end.clear()
    await case.check()
    assert case.gpus[0] not in case.mps.gpus


async def test_whole_gpu_waits_for_the_end_of_its_daemon(case: Coordinated) -> None:
    case.mps.serve(case.gpus[0])
    case.mps.serve(case.gpus[1])
    case.mps.no_end[case.gpus[1]] = "processes 12 use it"
    await case.check()
    view = case.users.put(pod("whole", 2, node="n1"))
    assert await case.prepare(view, *case.gpus) == (
        f"pod default/whole: {case.gpus[1]} cannot be used as a whole: processes 12 use it"
    )
    case.mps.no_end.clear()
    assert await case.prepare(view, *case.gpus) is None
    assert case.mps.gpus == {}


async def test_new_agent_reads_the_daemons_before_it_gives_a_whole_gpu(case: Coordinated) -> None:
    case.mps.serve(case.gpus[0])
    view = case.users.put(pod("whole", node="n1"))
    assert await case.prepare(view, case.gpus[0]) is None
    assert case.mps.gpus == {}
    lists = case.mps.lists
    assert await case.prepare(view, case.gpus[0]) is None
    assert case.mps.lists == lists


async def test_whole_gpus_need_no_component(case: Coordinated) -> None:
    case.mps.broken = True
    view = case.users.put(pod("whole", node="n1"))
    assert await case.prepare(view, case.gpus[0]) is None


async def test_rejected_share_names_the_reason(case: Coordinated) -> None:
    view = case.users.put(sharing_pod("a", share=case.share(0)))
    case.mps.no_start[case.gpus[0]] = "process 99\nuses the GPU"
    assert await case.prepare(view, case.share(0)) == (
        f"pod default/a: {case.gpus[0]} cannot be shared: process 99 uses the GPU"
    )


async def test_memory_of_all_pods_is_never_above_that_of_the_gpu(case: Coordinated) -> None:
    # The GPU has 32 GiB, of which MPS needs half a GiB; an equal part is a third of the rest.
    case.users.put(sharing_pod("a", share=case.share(0), memory="20Gi"))
    case.users.use(case.share(0), "a")
    case.users.use(case.share(0, 2), "gone")
    new = case.users.put(sharing_pod("b", share=case.share(0, 1), memory="12Gi"))
    assert await case.prepare(new, case.share(0, 1)) == (
        f"pod default/b: {case.gpus[0]} cannot be shared: the pod needs 12288 MiB of GPU memory, "
        "but other pods have 20480 of 32256 MiB"
    )
    assert case.mps.requests == []
    case.users.use(case.share(0, 1), "b")  # kubelet may list it already
    fits = case.users.put(sharing_pod("b", share=case.share(0, 1), memory="11Gi"))
    assert await case.prepare(fits, case.share(0, 1)) is None
    other = case.users.put(sharing_pod("b", share=case.share(1), memory="31Gi"))
    assert await case.prepare(other, case.share(1)) is None


async def test_annotation_that_was_changed_after_the_binding_is_checked(case: Coordinated) -> None:
    wrong = {SHARING_MEMORY_ANNOTATION: "much"}
    new = case.users.put(sharing_pod("a", share=case.share(0), annotations=wrong))
    assert await case.prepare(new, case.share(0)) == (
        f"pod default/a: {case.gpus[0]} cannot be shared: annotation {SHARING_MEMORY_ANNOTATION}: "
        "'much' is not an amount of memory such as 4Gi"
    )
    case.users.use(case.share(0), "a")
    second = case.users.put(sharing_pod("b", share=case.share(0, 1), memory="21Gi"))
    assert await case.prepare(second, case.share(0, 1)) is None
    second = case.users.put(sharing_pod("b", share=case.share(0, 1), memory="22Gi"))
    assert "other pods have 10752 of 32256 MiB" in str(await case.prepare(second, case.share(0, 1)))


async def test_gpu_that_is_not_known_has_no_memory(case: Coordinated) -> None:
    view = case.users.put(sharing_pod("a", share=case.share(0), memory="1Gi"))
    case.state.hardware = None
    assert "of 0 MiB" in str(await case.prepare(view, case.share(0)))


async def test_gpus_that_cannot_be_shared_are_reported(case: Coordinated) -> None:
    case.mps.serve(case.gpus[0], "Fault", "recovers")
    case.mps.no_start[case.gpus[1]] = "process 99 uses the GPU"
    for index, name in enumerate(("a", "b")):
        case.users.put(sharing_pod(name, share=case.share(index)))
    await case.check()
    assert case.sharing_faults == {
        case.gpus[0]: "MPS is in state Fault: recovers",
        case.gpus[1]: "process 99 uses the GPU",
    }
    assert case.state.offered_shares[case.share(1, 2)] is None
    case.users.pods.clear()
    await case.check()
    assert case.sharing_faults == {}


async def test_missing_component_lets_no_gpu_be_shared(case: Coordinated) -> None:
    case.users.put(sharing_pod("a", share=case.share(0)))
    case.mps.socket.unlink()
    await case.check(2)
    reason = "the MPS component does not respond: [Errno 2] No such file or directory"
    assert case.sharing_faults == dict.fromkeys(case.gpus, reason)
    assert failures(case) == 2


async def test_before_the_first_response_no_gpu_is_shared(case: Coordinated) -> None:
    reason = "the agent has not read the state of MPS yet"
    assert case.sharing_faults == dict.fromkeys(case.gpus, reason)
    case.state.hardware = None
    await case.check()
    assert case.sharing_faults == {}


async def test_fault_is_reported_once_on_each_pod_and_acknowledged(case: Coordinated) -> None:
    for name in ("a", "b", "c"):
        case.users.put(sharing_pod(name, node="n1"))
    case.mps.fault(1, case.gpus[0], "uid-a", "uid-b", "uid-gone", cause="uid-b")
    case.mps.fault(2, case.gpus[1], "uid-c")
    await case.check(2)
    assert case.events.faults == [
        *(("a", "b", "Xid 1"), ("b", "b", "Xid 1")),
        ("c", None, "Xid 2"),
    ]
    assert case.mps.requests == ["DELETE /faults/fault-1", "DELETE /faults/fault-2"]
    assert case.mps.faults == []


async def test_fault_that_was_acknowledged_meanwhile_is_no_error(case: Coordinated) -> None:
    case.users.put(sharing_pod("a", node="n1"))
    case.mps.fault(1, case.gpus[0], "uid-a")
    found = (await case.daemons.read()).faults[0]
    case.mps.faults.clear()
    await case.coordinator._report(found)
    assert len(case.events.faults) == 1


async def test_fault_is_reported_once_if_it_cannot_be_acknowledged(case: Coordinated) -> None:
    case.users.put(sharing_pod("a", node="n1"))
    case.mps.fault(1, case.gpus[0], "uid-a")
    acknowledge = case.mps.faults
    case.mps.broken_acknowledge = True
    await case.check(3)
    assert len(case.events.faults) == 1
    assert acknowledge
    case.mps.broken_acknowledge = False
    await case.check()
    assert case.mps.faults == []
    assert len(case.events.faults) == 1


async def test_checks_go_on_until_the_end(
    case: Coordinated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gputopo_deviceplugin.sharing.coordinator._CHECK_SECONDS", 0.0)
    case.mps.serve(case.gpus[0])
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(case.coordinator.run())
        while case.mps.gpus:  # noqa: ASYNC110 - another task ends it
            await asyncio.sleep(0.01)
        task.cancel()
    assert case.mps.requests == [f"DELETE /gpus/{case.gpus[0]}"]


def test_shared_gpus_are_those_in_use_and_those_of_annotations(case: Coordinated) -> None:
    view = case.users.put(sharing_pod("a", share=case.share(1, 2)))
    assert shared_gpus([view], [case.share(0), case.gpus[1]], "n1") == {*case.gpus}
    assert shared_gpus([view], [], "n2") == set()
    assert shared_gpus([], [case.gpus[0]], "n1") == set()


def test_pod_whose_annotation_names_whole_gpus_shares_none(case: Coordinated) -> None:
    view = case.users.put(sharing_pod("a", share=case.gpus[0]))
    assert shared_gpus([view], [], "n1") == set()


async def test_a_pod_above_its_memory_is_reported_once_until_it_uses_less(
    case: Coordinated,
) -> None:
    case.users.put(sharing_pod("a", share=case.share(0)))
    case.users.put(sharing_pod("b", share=case.share(0, 1)))
    await case.check()
    gpu = case.mps.gpus[case.gpus[0]]
    above = {"podUID": "uid-a", "usedBytes": 3 * 2**30, "limitBytes": 2**30}
    for found, expected in (([above], 1), ([above], 1), ([], 1), ([above], 2)):
        gpu["podsAboveMemory"] = found
        await case.check()
        assert [name for name, _ in case.events.excesses] == ["a"] * expected
    assert case.events.excesses[0][1] == (
        "the processes of the pod use 3072 MiB of GPU memory, and the pod may use 1024 MiB; "
        "other pods of the GPU may get errors"
    )

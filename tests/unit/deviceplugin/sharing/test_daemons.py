"""Requests for several MPS daemons at one time."""

import asyncio

from support.agent.coordinated import Coordinated
from support.builders.shares import sharing_pod


async def until_requested(case: Coordinated, *requests: str) -> None:
    """Wait until the component has received these requests."""
    async with asyncio.timeout(60):
        while case.mps.requests != [*requests]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_slow_start_delays_no_other_gpu(case: Coordinated) -> None:
    first, second = case.gpus
    case.mps.slow_starts[first] = asyncio.Event()
    slow = asyncio.create_task(case.daemons.start(first))
    again = asyncio.create_task(case.daemons.start(first))
    await until_requested(case, f"PUT /gpus/{first}")
    await case.daemons.start(second)
    assert case.daemons.known.keys() == {second}
    await case.daemons.read()
    assert case.daemons.known.keys() == {second}
    case.mps.slow_starts[first].set()
    await asyncio.gather(slow, again)
    assert case.daemons.known.keys() == {first, second}
    assert case.mps.requests == [f"PUT /gpus/{first}", f"PUT /gpus/{second}", f"PUT /gpus/{first}"]


async def test_read_keeps_what_a_later_start_has_changed(case: Coordinated) -> None:
    first, second = case.gpus
    case.mps.serve(second)
    case.mps.responds.clear()
    reading = asyncio.create_task(case.daemons.read())
    async with asyncio.timeout(60):
        while not case.mps.lists:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await case.daemons.start(first)
    case.mps.responds.set()
    await reading
    assert case.daemons.known.keys() == {first, second}


async def test_read_does_not_return_a_daemon_that_ends(case: Coordinated) -> None:
    first, second = case.gpus
    for gpu in case.gpus:
        await case.daemons.start(gpu)
    case.mps.responds.clear()
    reading = asyncio.create_task(case.daemons.read())
    end = asyncio.create_task(case.daemons.end(first))
    started = [f"PUT /gpus/{gpu}" for gpu in case.gpus]
    await until_requested(case, *started, f"DELETE /gpus/{first}")
    case.mps.responds.set()
    await asyncio.gather(reading, end)
    assert case.daemons.known.keys() == {second}


async def test_check_during_a_slow_start_publishes_no_fault_of_the_started_gpu(
    case: Coordinated,
) -> None:
    share = case.share(0)
    view = case.users.put(sharing_pod("a", share=share))
    case.mps.slow_starts[case.gpus[0]] = asyncio.Event()
    prepared = asyncio.create_task(case.prepare(view, share))
    await until_requested(case, f"PUT /gpus/{case.gpus[0]}")
    checked = asyncio.create_task(case.check())
    async with asyncio.timeout(60):
        while not case.mps.lists:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    case.mps.slow_starts[case.gpus[0]].set()
    await asyncio.gather(prepared, checked)
    assert case.sharing_faults == {}

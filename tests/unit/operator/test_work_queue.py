"""The work queue: one worker for each key, no lost key, a growing delay after errors."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from gputopo_kube.document import ObjectKey
from gputopo_kube.errors import ApiError
from gputopo_operator.controller.fair_queue import FairQueue
from gputopo_operator.controller.work_queue import LONGEST_DELAY_SECONDS, WorkQueue
from support.virtual_time import runner

Work = Callable[[str], Awaitable[float | None]]


@asynccontextmanager
async def working(
    work: Work,
    workers: int = 3,
    rest_seconds: float = 0.0,
    on_error: Callable[[], None] = lambda: None,
) -> AsyncIterator[WorkQueue[str]]:
    queue = WorkQueue(work, rest_seconds=rest_seconds, on_error=on_error)
    task = asyncio.create_task(queue.run(workers))
    try:
        yield queue
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def calls_of(
    scenario: Callable[[WorkQueue[str]], Awaitable[None]],
    results: Iterable[float | Exception] = (),
    rest_seconds: float = 0.0,
) -> list[float]:
    """Return the seconds at which the key of a scenario was worked on, in virtual time.

    Each call takes one second. ``results`` are what the first calls return or raise.
    """
    times: list[float] = []
    remaining = iter(results)

    async def work(_: str) -> float | None:
        times.append(asyncio.get_running_loop().time())
        await asyncio.sleep(1)
        result = next(remaining, None)
        if isinstance(result, Exception):
            raise result
        return result

    async def run() -> None:
        async with working(work, rest_seconds=rest_seconds) as queue:
            await scenario(queue)

    with runner() as loop:
        loop.run(run())
    return times


def test_each_error_is_reported() -> None:
    reported: list[str] = []

    async def work(key: str) -> None:
        if key == "bad":
            raise ApiError("no response")

    async def run() -> None:
        async with working(work, on_error=lambda: reported.append("error")) as queue:
            for key in ("good", "bad"):
                queue.add(key)
            await asyncio.sleep(0.1)  # the second attempt is after half a second

    with runner() as loop:
        loop.run(run())
    assert reported == ["error"]


def test_waiting_key_is_worked_on_once() -> None:
    async def scenario(queue: WorkQueue[str]) -> None:
        for _ in range(5):
            queue.add("a")
        assert len(queue) == 1
        await asyncio.sleep(20)

    assert calls_of(scenario) == [0]


def test_key_added_during_its_work_is_worked_on_once_more_after_it() -> None:
    async def scenario(queue: WorkQueue[str]) -> None:
        queue.add("a")
        await asyncio.sleep(0.5)
        for _ in range(5):
            queue.add("a")
        await asyncio.sleep(20)

    assert calls_of(scenario) == [0, 1]


async def test_different_keys_are_worked_on_at_the_same_time() -> None:
    together, met = asyncio.Barrier(3), asyncio.Event()

    async def work(_: str) -> None:
        await together.wait()
        met.set()

    async with working(work, workers=3) as queue:
        for key in "abc":
            queue.add(key)
        await asyncio.wait_for(met.wait(), 60)


def test_delay_of_a_failing_key_doubles() -> None:
    async def scenario(queue: WorkQueue[str]) -> None:
        queue.add("a")
        await asyncio.sleep(20)

    assert calls_of(scenario, [ApiError("no response")] * 3) == [0, 1.5, 3.5, 6.5]


def test_event_does_not_shorten_the_delay_after_an_error() -> None:
    async def scenario(queue: WorkQueue[str]) -> None:
        queue.add("a")
        await asyncio.sleep(0.5)
        queue.add("a")
        await asyncio.sleep(20)

    assert calls_of(scenario, [ApiError("no response")]) == [0, 1.5]


def test_key_is_worked_on_again_after_the_returned_time() -> None:
    async def scenario(queue: WorkQueue[str]) -> None:
        queue.add("a")
        await asyncio.sleep(20)

    assert calls_of(scenario, [5.0]) == [0, 6]


def test_unexpected_error_is_logged_with_its_stack_trace_and_an_expected_one_without(
    caplog: pytest.LogCaptureFixture,
) -> None:
    errors = {"a": ApiError("timeout"), "b": KeyError("oops")}

    async def work(key: str) -> None:
        raise errors[key]

    async def run() -> None:
        async with working(work) as queue:
            queue.add("a")
            queue.add("b")
            await asyncio.sleep(0.1)

    with runner() as loop:
        loop.run(run())
    traced = {record.getMessage(): bool(record.exc_info) for record in caplog.records}
    assert traced == {
        'failed, trying again key=a after_seconds=0.5 reason="API server: timeout"': False,
        "failed, trying again key=b after_seconds=0.5 reason='oops'": True,
    }


def test_key_that_is_added_later_is_worked_on_once_after_the_first_delay() -> None:
    async def scenario(queue: WorkQueue[str]) -> None:
        for _ in range(5):
            queue.add_later("a", 10)
            await asyncio.sleep(1)
        await asyncio.sleep(100)

    assert calls_of(scenario) == [10]


def test_shorter_delay_replaces_a_longer_one_and_an_event_replaces_both() -> None:
    async def scenario(queue: WorkQueue[str]) -> None:
        queue.add_later("a", 10)
        queue.add_later("a", 5)
        await asyncio.sleep(20)
        queue.add_later("a", 10)
        queue.add("a")
        queue.add_later("a", 10)
        await asyncio.sleep(20)

    assert calls_of(scenario) == [5, 20]


def test_key_that_is_added_later_during_its_work_is_worked_on_again() -> None:
    async def scenario(queue: WorkQueue[str]) -> None:
        queue.add("a")
        await asyncio.sleep(0.5)
        queue.add_later("a", 3)
        await asyncio.sleep(20)

    assert calls_of(scenario) == [0, 3.5]


def test_timer_that_fires_during_the_work_is_not_lost() -> None:
    async def scenario(queue: WorkQueue[str]) -> None:
        queue.add("a")
        await asyncio.sleep(0.5)
        queue.add_later("a", 0.2)
        await asyncio.sleep(20)

    assert calls_of(scenario) == [0, 1]


def test_key_that_is_added_later_keeps_its_delay_after_an_error() -> None:
    async def scenario(queue: WorkQueue[str]) -> None:
        queue.add("a")
        await asyncio.sleep(1.1)
        queue.add_later("a", 0.1)
        await asyncio.sleep(20)

    assert calls_of(scenario, [ApiError("no response")]) == [0, 1.5]


def test_additions_while_a_key_rests_cause_one_call_at_the_end_of_the_rest() -> None:
    async def scenario(queue: WorkQueue[str]) -> None:
        for _ in range(10):
            queue.add("a")
            await asyncio.sleep(0.5)
        await asyncio.sleep(20)
        queue.add("a")
        await asyncio.sleep(20)

    assert calls_of(scenario, rest_seconds=3) == [0, 4, 8, 25]


def test_another_key_does_not_wait_for_a_key_that_rests() -> None:
    async def scenario(queue: WorkQueue[str]) -> None:
        queue.add("a")
        await asyncio.sleep(1.5)
        queue.add("b")
        await asyncio.sleep(20)

    assert calls_of(scenario, rest_seconds=3) == [0, 1.5]


def test_key_does_not_rest_after_an_error_and_rests_before_a_returned_delay() -> None:
    async def scenario(queue: WorkQueue[str]) -> None:
        queue.add("a")
        await asyncio.sleep(20)

    assert calls_of(scenario, [ApiError("no response"), 5.0], rest_seconds=3) == [0, 1.5, 10.5]


def test_key_that_fails_for_years_is_still_tried_every_two_minutes() -> None:
    calls = 0
    after: list[float] = []

    async def work(_: str) -> None:
        nonlocal calls
        calls += 1
        if calls > 1200:
            after.append(asyncio.get_running_loop().time())
        raise ApiError("no response")

    async def run() -> None:
        async with working(work) as queue:
            queue.add("key")
            await asyncio.sleep(1210 * LONGEST_DELAY_SECONDS)

    with runner() as loop:
        loop.run(run())
    assert calls > 1200
    assert {round(b - a) for a, b in pairwise(after)} == {LONGEST_DELAY_SECONDS}


def test_queue_keeps_nothing_of_keys_whose_objects_are_gone() -> None:
    gone = set[str]()

    async def work(key: str) -> None:
        if key not in gone:
            raise ApiError("no response")

    async def run() -> None:
        async with working(work) as queue:
            keys = [f"key-{number}" for number in range(1000)]
            for key in keys:
                queue.add(key)
            await asyncio.sleep(10)
            gone.update(keys)
            await asyncio.sleep(2 * LONGEST_DELAY_SECONDS)
            kept = [each for each in vars(queue).values() if isinstance(each, dict | set)]
            assert len(kept) > 4
            assert not any(kept)

    with runner() as loop:
        loop.run(run())


def test_namespace_with_many_keys_does_not_delay_others() -> None:
    done: list[ObjectKey] = []

    async def work(key: ObjectKey) -> None:
        done.append(key)

    async def run() -> None:
        queue = WorkQueue(work)
        for number in range(2000):
            queue.add(ObjectKey("busy", f"job-{number}"))
        for namespace in ("a", "b"):
            queue.add(ObjectKey(namespace, "job"))
        task = asyncio.create_task(queue.run(1))
        await asyncio.sleep(1)
        assert len(queue) == 0
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    with runner() as loop:
        loop.run(run())
    assert [key.namespace for key in done[:4]] == ["busy", "a", "b", "busy"]
    assert [key.name for key in done if key.namespace == "busy"] == [
        f"job-{number}" for number in range(2000)
    ]


def test_fair_queue_knows_its_size() -> None:
    queue = FairQueue[ObjectKey]()
    assert (queue.qsize(), queue.empty()) == (0, True)
    queue.put_nowait(ObjectKey("a", "x"))
    assert (queue.qsize(), queue.empty()) == (1, False)

import asyncio
import threading

import pytest

from gputopo_kube.daemon_thread import call_in_daemon_thread, finished


async def test_a_result_and_an_error_reach_the_caller() -> None:
    def fails() -> None:
        raise ValueError("no")

    assert await call_in_daemon_thread(lambda: threading.current_thread().name, "t") == "t"
    assert await call_in_daemon_thread(lambda: threading.current_thread().daemon, "t")
    with pytest.raises(ValueError, match="no"):
        await call_in_daemon_thread(fails, "t")


async def test_waiting_for_a_blocked_call_ends_in_time_and_does_not_cancel_it() -> None:
    event = threading.Event()
    call = call_in_daemon_thread(event.wait, "t")
    assert not await finished(call, 0.05)
    event.set()
    assert await finished(call)
    assert call.result()


def test_a_call_may_return_after_the_end_of_its_event_loop() -> None:
    event, begun, threads = threading.Event(), threading.Event(), []

    def blocks() -> None:
        threads.append(threading.current_thread())
        begun.set()
        event.wait()

    async def leave() -> None:
        assert not await finished(call_in_daemon_thread(blocks, "t"), 0.05)

    failures: list[object] = []
    before, threading.excepthook = threading.excepthook, failures.append
    try:
        asyncio.run(leave())
        assert begun.wait(60)
        event.set()
        threads[0].join(60)
    finally:
        threading.excepthook = before
    assert not threads[0].is_alive()
    assert failures == []

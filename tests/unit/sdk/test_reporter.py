"""Steps reach a socket, and no state of the socket reaches the training loop."""

import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gputopo_steps
from gputopo_steps.reporter import Reporter
from support.steps import AgentSocket


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def reporter(agent: AgentSocket, clock: Clock) -> Reporter:
    return Reporter(agent.environ, {}, clock)


@pytest.fixture
def frequent_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_steps_and_samples_arrive(agent: AgentSocket, reporter: Reporter, clock: Clock) -> None:
    reporter.step(samples=32)
    clock.now = 1.5
    reporter.step(samples=32)
    first, second = agent.messages()
    assert (first["steps"], first["seconds"], first["samples"]) == (1, 0, 32)
    assert (second["steps"], second["seconds"], second["samples"]) == (2, 1.5, 64)


def test_reported_counts_arrive(agent: AgentSocket, reporter: Reporter) -> None:
    reporter.report(5000, samples=160000)
    (message,) = agent.messages()
    assert (message["steps"], message["samples"]) == (5000, 160000)


def test_functions_of_the_package_use_the_reporter_of_the_process(
    agent: AgentSocket, reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gputopo_steps._reporter", reporter)
    gputopo_steps.step(samples=32)
    gputopo_steps.report(7, samples=224)
    reporter.flush()
    assert [(it["steps"], it["samples"]) for it in agent.messages()] == [(1, 32), (7, 224)]


def test_flush_sends_the_last_steps_once(agent: AgentSocket, reporter: Reporter) -> None:
    for _ in range(3):
        reporter.step()
    reporter.flush()
    reporter.flush()
    assert agent.counts() == [1, 3]


def test_flush_before_the_first_step_sends_nothing(agent: AgentSocket, reporter: Reporter) -> None:
    reporter.flush()
    assert agent.counts() == []


def test_steps_arrive_after_the_agent_has_replaced_its_socket(
    agent: AgentSocket, reporter: Reporter, clock: Clock
) -> None:
    reporter.step()
    agent.path.unlink()
    clock.now = 1
    reporter.step()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        restarted = AgentSocket(listener, agent.path)
        clock.now = 2
        reporter.step()
        assert restarted.counts() == [3]
    clock.now = 3
    reporter.step()  # the path exists, and no process listens
    assert agent.counts() == [1]


@pytest.mark.parametrize("path", ["/no/such/folder/socket", "/dev/null", "/" + 200 * "a", "\0a\0"])
def test_path_that_is_no_socket_raises_nothing(path: str) -> None:
    reporter = Reporter({"GPUTOPO_STEPS_SOCKET": path}, {})
    reporter.step()
    reporter.report(5)
    reporter.flush()


def test_no_descriptor_stays_open(agent: AgentSocket, reporter: Reporter, clock: Clock) -> None:
    before = set(Path("/proc/self/fd").iterdir())
    for clock.now in range(20):
        reporter.step()
        assert agent.counts() == [clock.now + 1]
    assert set(Path("/proc/self/fd").iterdir()) == before


@pytest.mark.parametrize(
    "environ",
    [{}, {"GPUTOPO_STEPS_SOCKET": ""}, {"RANK": "1"}],
    ids=["not set", "empty", "rank 1"],
)
def test_nothing_is_sent_without_the_variable_or_in_another_rank(
    agent: AgentSocket, environ: dict[str, str]
) -> None:
    reporter = Reporter({**(agent.environ if "RANK" in environ else {}), **environ}, {})
    reporter.report(5)
    reporter.step()
    reporter.report(6)
    reporter.flush()
    assert agent.counts() == []


def test_environment_is_read_at_the_first_step_only(agent: AgentSocket) -> None:
    environ: dict[str, str] = {}
    late, early = Reporter(environ, {}), Reporter(environ, {})
    early.step()
    environ |= agent.environ
    early.step()
    assert agent.counts() == []
    late.step()
    assert agent.counts() == [1]


@pytest.mark.usefixtures("frequent_switches")
def test_steps_of_all_threads_count(agent: AgentSocket, reporter: Reporter) -> None:
    start = threading.Barrier(4)

    def train() -> None:
        start.wait()
        for _ in range(2000):
            reporter.step(samples=2)

    threads = [threading.Thread(target=train) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    reporter.flush()
    messages = agent.messages()
    assert {message["run"] for message in messages} == {messages[0]["run"]}
    assert (messages[-1]["steps"], messages[-1]["samples"]) == (8000, 16000)


def test_other_threads_wait_while_the_first_step_is_counted(agent: AgentSocket) -> None:
    acquired: list[bool] = []

    def try_to_count() -> None:
        acquired.append(shared._lock.acquire(blocking=False))

    class Environment(dict[str, str]):
        def get(self, name: str, default: Any = None) -> Any:
            clock()
            return super().get(name, default)

    def clock() -> float:
        thread = threading.Thread(target=try_to_count)
        thread.start()
        thread.join()
        return 0

    shared = Reporter(Environment(agent.environ), {}, clock)
    shared.step()
    assert set(acquired) == {False}
    assert agent.counts() == [1]


def test_error_of_the_clock_does_not_reach_the_caller(agent: AgentSocket) -> None:
    def broken() -> float:
        raise MemoryError

    reporter = Reporter(agent.environ, {}, broken)
    reporter.step()
    reporter.report(5)
    reporter.flush()
    assert agent.counts() == []


def test_restart_begins_a_new_run(agent: AgentSocket, reporter: Reporter) -> None:
    for _ in range(2):
        reporter.step()
        reporter.restart()
    first, second = agent.messages()
    assert (first["steps"], second["steps"]) == (1, 1)
    assert first["run"] != second["run"]

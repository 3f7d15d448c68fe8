"""The package in real processes: import, exit and fork."""

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import gputopo_steps
from support.steps import AgentSocket

SDK = Path(__file__).parents[3] / "sdk"
LAUNCHER = {"RANK", "LOCAL_RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "GPUTOPO_STEPS_SOCKET"}
ENVIRON = {name: value for name, value in os.environ.items() if name not in LAUNCHER}


def run(program: str, **environ: str) -> str:
    """Run a program without installed packages; it fails after a minute."""
    begin = f"import sys; sys.path.insert(0, {str(SDK)!r})\n"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-W", "ignore::DeprecationWarning", "-c", begin + program],
        env={**ENVIRON, **environ},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stderr == ""
    return done.stdout


def test_package_needs_only_the_standard_library() -> None:
    loaded = run(
        "import gputopo_steps; gputopo_steps.step(); gputopo_steps.report(1)\n"
        "import gputopo_steps.callbacks\n"
        "loaded = {name.partition('.')[0] for name in sys.modules}\n"
        "print(sorted(loaded - sys.stdlib_module_names))"
    )
    assert loaded == "['__main__', 'gputopo_steps']\n"


@pytest.mark.parametrize("function", [gputopo_steps.step, gputopo_steps.report])
def test_functions_can_be_pickled_with_a_training_function(function: Callable[..., None]) -> None:
    assert pickle.loads(pickle.dumps(function)) is function  # noqa: S301


def test_program_exit_sends_the_last_step(agent: AgentSocket) -> None:
    run("import gputopo_steps\nfor _ in range(30): gputopo_steps.step()", **agent.environ)
    counts = agent.counts()
    assert (counts[0], counts[-1]) == (1, 30)


def test_program_that_ends_by_an_exception_sends_the_last_step(agent: AgentSocket) -> None:
    program = "import gputopo_steps\nfor _ in range(3): gputopo_steps.step()\nsys.exit(1)"
    with pytest.raises(subprocess.CalledProcessError):
        run(program, **agent.environ)
    assert agent.counts()[-1] == 3


def test_program_of_another_rank_sends_nothing(agent: AgentSocket) -> None:
    run("import gputopo_steps; gputopo_steps.step()", RANK="1", **agent.environ)
    assert agent.counts() == []


def test_full_queue_does_not_block_the_program(agent: AgentSocket) -> None:
    agent.fill()
    run("import gputopo_steps; gputopo_steps.step()", **agent.environ)
    assert set(agent.datagrams()) == {b"{}"}


def test_forked_process_has_its_own_run(agent: AgentSocket) -> None:
    run(
        "import gputopo_steps, os\n"
        "gputopo_steps.step()\n"
        "child = os.fork()\n"
        "gputopo_steps.step()\n"
        "if child: os.waitpid(child, 0)",
        **agent.environ,
    )
    counts: dict[str, list[int]] = {}
    for message in agent.messages():
        counts.setdefault(message["run"], []).append(message["steps"])
    assert sorted(counts.values()) == [[1], [1, 2]]


def test_fork_during_a_step_of_another_thread_does_not_block_the_child(agent: AgentSocket) -> None:
    run(
        "import gputopo_steps, os, threading\n"
        "in_step, forked = threading.Event(), threading.Event()\n"
        "def clock():\n"
        "    in_step.set(); forked.wait(); return 0.0\n"
        "reporter = gputopo_steps._reporter\n"
        "reporter._clock = clock\n"
        "thread = threading.Thread(target=gputopo_steps.step)\n"
        "thread.start(); in_step.wait()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    reporter._clock = lambda: 1.0\n"
        "    gputopo_steps.step(); os._exit(0)\n"
        "os.waitpid(child, 0); forked.set(); thread.join()",
        **agent.environ,
    )
    assert agent.counts() == [1, 1]


def test_signal_handler_may_call_step_during_a_step(agent: AgentSocket) -> None:
    run(
        "import gputopo_steps, signal\n"
        "signal.signal(signal.SIGUSR1, lambda *_: gputopo_steps.step())\n"
        "gputopo_steps.step()\n"
        "def clock():\n"
        "    counter._clock = lambda: 0.0\n"
        "    signal.raise_signal(signal.SIGUSR1); return 0.0\n"
        "counter = gputopo_steps._reporter._counter\n"
        "counter._clock = clock\n"
        "gputopo_steps.step()",
        **agent.environ,
    )
    assert agent.counts() == [1, 3]


def test_example_shows_the_messages_of_a_program() -> None:
    train = "import gputopo_steps, sys\nfor _ in range(9): gputopo_steps.step()\nsys.exit(3)"
    done = subprocess.run(
        [sys.executable, str(SDK / "examples/listen.py"), sys.executable, "-c", train],
        env={**ENVIRON, "PYTHONPATH": str(SDK)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (3, "")
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    assert (messages[0]["steps"], messages[-1]["steps"]) == (1, 9)


def test_example_without_a_program_shows_its_usage() -> None:
    listen = [sys.executable, str(SDK / "examples/listen.py")]
    done = subprocess.run(listen, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "Usage: python listen.py PROGRAM" in done.stderr

"""The programs of ``docs/reference/steps-format.md`` send the messages that the page describes."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.steps import AgentSocket

PAGE = (Path(__file__).parents[3] / "docs/reference/steps-format.md").read_text()
C_MAIN = "int main(void) { report_steps(41); report_steps(42); return 0; }"


def example(language: str) -> str:
    (found,) = re.findall(f"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


def run(*arguments: str, environ: dict[str, str]) -> None:
    subprocess.run(arguments, env={"PATH": os.environ["PATH"], **environ}, check=True)


def compiled(folder: Path) -> str:
    source, program = folder / "steps.c", folder / "steps"
    source.write_text(f"{example('c')}\n{C_MAIN}\n")
    run("cc", "-Wall", "-Wextra", "-Werror", "-o", str(program), str(source), environ={})
    return str(program)


def is_valid(message: dict[str, Any]) -> bool:
    return (
        message.keys() == {"v", "run", "steps", "seconds"}
        and (message["v"], message["steps"]) == (1, 41)
        and re.fullmatch("[A-Za-z0-9_-]{1,32}", message["run"]) is not None
        and isinstance(message["seconds"], float)
    )


def test_c_example_sends_at_most_one_message_a_second(agent: AgentSocket, tmp_path: Path) -> None:
    program = compiled(tmp_path)
    run(program, environ=agent.environ)
    (message,) = agent.messages()
    assert is_valid(message)


@pytest.mark.parametrize(
    "environ", [{}, {"GPUTOPO_STEPS_SOCKET": "/no/such/socket"}], ids=["not set", "no agent"]
)
def test_examples_ignore_a_missing_agent(environ: dict[str, str], tmp_path: Path) -> None:
    run(compiled(tmp_path), environ=environ)
    run(sys.executable, "-c", f"{example('python')}\nsend_steps(41)", environ=environ)


def test_python_example_sends_a_message(agent: AgentSocket) -> None:
    program = f"{example('python')}\nsend_steps(41)"
    run(sys.executable, "-c", program, environ=agent.environ)
    (message,) = agent.messages()
    assert is_valid(message)

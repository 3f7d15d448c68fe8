"""The program as a process: streams, exit statuses, broken pipes, and loaded packages."""

import os
import runpy
import signal
import subprocess
import sys
from io import BytesIO, TextIOBase, TextIOWrapper
from pathlib import Path

import pytest
from typer.testing import CliRunner

import gputopo_cli.__main__ as program
from gputopo.topology.model import TopologyError
from gputopo_cli.app import app
from gputopo_cli.shared.errors import InputError
from gputopo_simulate.errors import SimulationError
from support.cli.command_line import Command, process

PROGRAM = Path(sys.executable).with_name("gputopo")


def test_help_does_not_load_large_packages() -> None:
    loaded = "import sys; from gputopo_cli.__main__ import run; run(['--help'], 'gputopo')"
    heavy = "{'graphviz', 'kubernetes', 'matplotlib', 'networkx', 'numpy', 'pydantic', 'rich'}"
    done = subprocess.run(
        [sys.executable, "-c", f"{loaded}; print(sorted({heavy} & sys.modules.keys()))"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("Usage: gputopo [OPTIONS] COMMAND [ARGS]...")
    assert done.stdout.endswith("[]\n")


@pytest.mark.parametrize(
    ("line", "status"), [("", 0), ("topology", 0), ("bandwidth", 0), ("synergy", 2)]
)
def test_group_without_a_command_shows_its_help(gputopo: Command, line: str, status: int) -> None:
    done = gputopo(line)
    assert (done.status, done.err) == (status, "")
    assert done.out == gputopo(f"{line} --help").out


def test_version_is_that_of_the_distribution(gputopo: Command) -> None:
    assert gputopo("--version").out.split()[0] == "gputopo"


def test_help_of_the_kubectl_plugin_has_its_name(gputopo: Command) -> None:
    assert "Usage: kubectl gputopo " in gputopo("--help", program="kubectl-gputopo").out
    assert process("--help", program="kubectl-gputopo").out.startswith("Usage: kubectl gputopo ")


def test_commands_run_in_typers_own_runner() -> None:
    result = CliRunner().invoke(app, ["place", "--topology", "summit", "--gpus", "7"])
    assert result.exit_code == 3
    assert result.stdout == "nothing fits summit: needs 7 GPUs, the node has 6\n"


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("place --topology summit --gpus 2 -o json", 0),
        ("place --topology summit --gpus 2 --busy 9", 2),
        ("place --topology summit --gpus 6 --busy 5", 3),
        ("plase", 2),
    ],
)
def test_process_exits_with_the_status_and_uses_its_streams(line: str, status: int) -> None:
    done = process(*line.split())
    assert done.status == status
    assert bool(done.out) is (status != 2)
    assert done.err.count("\n") == (status == 2)
    assert "Traceback" not in done.err


def test_reader_that_closes_the_pipe_causes_no_error() -> None:
    command = f"set -o pipefail; {PROGRAM} topology show dgx-2 | head -1; {PROGRAM} -h 2>&1 | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("dgx-2: 16 GPUs")
    assert done.stderr == ""


def test_closed_pipe_is_status_1_without_a_message() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [PROGRAM, "topology", "list"], stdout=writer, stderr=subprocess.PIPE, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


def test_full_disk_is_reported_in_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [PROGRAM, "topology", "list"], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 1
    assert done.stderr == b"gputopo: standard output: No space left on device\n"


def test_interrupt_is_status_130_without_a_message() -> None:
    waiting = subprocess.Popen(
        # A job in the background ignores the signal, and so do its children.
        ["env", "--default-signal=INT", PROGRAM, "topology", "show", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert waiting.stdin is not None
    # A pipe's buffer holds 64 KiB: when all is written, the program is reading.
    waiting.stdin.write(b" " * 2**17)
    waiting.stdin.flush()
    waiting.send_signal(signal.SIGINT)
    out, err = waiting.communicate(timeout=60)
    assert (waiting.returncode, out, err) == (130, b"", b"")


def test_interrupt_before_the_commands_are_loaded_is_status_130(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(program, "_run", interrupted)
    assert program.run([], "gputopo") == 130


def test_missing_extra_is_reported_with_the_command_to_install() -> None:
    script = (
        "import sys; sys.modules['typer'] = None\n"
        "from gputopo_cli.__main__ import run; sys.exit(run(['--help'], 'gputopo'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    install = f"{sys.executable} -m pip install 'gputopo[cli]'"
    assert done.stderr == f"gputopo: typer is not installed: {install}\n"


@pytest.mark.parametrize("module", ["uvicorn", "starlette", "jinja2", "markupsafe"])
def test_missing_package_of_the_page_is_reported_with_its_extra(module: str) -> None:
    script = (
        f"import sys; sys.modules['{module}'] = None\n"
        "from gputopo_cli.__main__ import run; sys.exit(run(['web'], 'gputopo'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    install = f"{sys.executable} -m pip install 'gputopo[cli,web]'"
    assert done.stderr == f"gputopo: {module} is not installed: {install}\n"


@pytest.mark.parametrize("module", ["typer", "rich", "numpy"])
def test_missing_package_is_status_1(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    def lacking(*_: object) -> int:
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    monkeypatch.setattr(program, "_run", lacking)
    assert program.run([], "gputopo") == 1


def test_output_that_cannot_be_written_is_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert program.run(["topology", "list"], "gputopo") == 1
        monkeypatch.undo()
    assert capsys.readouterr().err == "gputopo: standard output: No space left on device\n"


def test_module_runs_as_the_program(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "gputopo_cli.__main__")
    monkeypatch.setattr(sys, "argv", ["gputopo", "--version"])
    with pytest.raises(SystemExit) as left:
        runpy.run_module("gputopo_cli", run_name="__main__")
    assert left.value.code == 0
    assert capsys.readouterr().out.startswith("gputopo ")


def test_closed_streams_and_narrow_encodings_do_not_stop_the_output() -> None:
    run = f"{PROGRAM} place --topology"
    for line, status in (
        (f"{run} summit --gpus 2 >&-", 0),
        (f"{run} summit --gpus 9 >&- 2>&-", 3),
        (f"{run} summit --gpus x 2>&-", 2),
        (f"{run} - --gpus 2 <&- 2>&-", 2),
    ):
        done = subprocess.run(["bash", "-c", line], capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (status, b"")
    line = "compare --topology summit --generate 9 --seeds 1,2 --policies baseline,greedy"
    narrow = process(*line.split(), PYTHONIOENCODING="ascii")
    assert (narrow.status, narrow.err) == (0, "")


def test_missing_streams_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["gputopo", "--version"])
    monkeypatch.setattr(sys, "stdin", None)
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(BytesIO(), encoding="ascii"))
    with pytest.raises(SystemExit):
        program.main()
    stdin: TextIOBase | None = sys.stdin  # type: ignore[assignment]
    assert stdin is not None
    assert stdin.read() == ""
    stdin.close()
    assert sys.stdout.errors == "replace"


def test_colours_are_for_terminals_only() -> None:
    assert "\x1b[" not in process("topology", "show", "dgx1-v100").out
    forced = process("topology", "show", "dgx1-v100", FORCE_COLOR="1").out
    assert "\x1b[" in forced
    plain = process("topology", "show", "dgx1-v100", FORCE_COLOR="1", NO_COLOR="1").out
    assert "\x1b[3" not in plain


def test_defect_of_the_program_is_not_reported_as_bad_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> int:
        raise ValueError("a bug")

    monkeypatch.setattr(program, "_run", broken)
    with pytest.raises(ValueError, match="a bug"):
        program.run([], "gputopo")


def test_errors_of_every_package_are_reported_as_bad_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for error in (InputError("x"), TopologyError("x"), SimulationError("x")):

        def reject(*_: object, error: Exception = error) -> int:
            raise error

        monkeypatch.setattr(program, "_run", reject)
        assert program.run([], "gputopo") == 2
        assert capsys.readouterr().err == "gputopo: x\n"

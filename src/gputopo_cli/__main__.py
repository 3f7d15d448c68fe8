"""The ``gputopo`` program: run a command, turn errors into one line of text and an exit status."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gputopo.errors import GputopoError

if TYPE_CHECKING:
    import typer

FAILED: Final = 1
BAD_INPUT: Final = 2
INTERRUPTED: Final = 130
_OF_WEB: Final = ("jinja2", "markupsafe", "starlette", "uvicorn")


def main() -> None:
    """Run the command line of this process and exit with its status."""
    _prepare_streams()
    sys.exit(run(sys.argv[1:], Path(sys.argv[0]).name))


def run(arguments: Sequence[str], program: str) -> int:
    """Run a command line and return its exit status.

    * 0: success.
    * 1: a package is not installed, or the output cannot be written.
    * 2: the input is invalid; standard error has one line.
    * 3: nothing fits, ``doctor`` found an error, or ``explain`` found another choice.
    * 130: interrupted.
    """
    try:
        status = _run(arguments, program)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        extras = "cli,web" if package in _OF_WEB else "cli"
        # The pip of another environment would look for gputopo on PyPI, which does not have it.
        pip = f"{sys.executable} -m pip"
        return _fail(f"{package} is not installed: {pip} install 'gputopo[{extras}]'", FAILED)
    except OSError as error:
        # Python flushes standard output again at exit. This second flush must not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        broken_pipe = isinstance(error, BrokenPipeError)
        return FAILED if broken_pipe else _fail(f"standard output: {error.strerror}", FAILED)
    except GputopoError as error:
        return _fail(str(error), BAD_INPUT)
    return status


def _run(arguments: Sequence[str], program: str) -> int:
    import typer

    from gputopo_cli.app import app

    name = "kubectl gputopo" if program.startswith("kubectl-") else "gputopo"
    try:
        return app(list(arguments), prog_name=name, standalone_mode=False) or 0
    except typer.BadParameter as error:
        return _fail(_describe(error), BAD_INPUT)
    except typer.TyperException as error:
        return _fail(error.format_message(), BAD_INPUT)


def _describe(error: "typer.BadParameter") -> str:
    """Return ``field: value: reason`` for an argument that Typer rejected."""
    from pydantic import ValidationError

    from gputopo.runtime.messages import first_error

    field = error.param.opts[-1].lstrip("-") if error.param else "arguments"
    cause = error.__cause__
    if isinstance(cause, ValidationError) and cause.errors()[0]["type"] != "value_error":
        return first_error(cause, prefix=field)
    message = error.message.removeprefix("Value error, ").removesuffix(".")
    return f"{field}: {message or 'is required'}"


def _prepare_streams() -> None:
    """Point closed streams to ``/dev/null``; print ``?`` for what stdout cannot encode."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 - for the whole process
    stdout: Any = sys.stdout
    stdout.reconfigure(errors="replace")


def _fail(message: str, status: int) -> int:
    sys.stderr.write(f"gputopo: {' '.join(message.split())}\n")
    return status


if __name__ == "__main__":
    main()

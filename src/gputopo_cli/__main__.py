"""``gputopo``, and the same as ``kubectl gputopo``."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from gputopo_cli.shared.errors import InputError, is_refusal

FAILED: Final = 1
BAD_INPUT: Final = 2
INTERRUPTED: Final = 130


def main() -> None:
    """Run the command line of this process and leave with its exit status."""
    _mend_streams()
    sys.exit(run(sys.argv[1:], Path(sys.argv[0]).name))


def run(arguments: Sequence[str], program: str) -> int:
    """Return the exit status of a command line.

    0: done; 1: something is not installed, or the output cannot be written; 2: bad input,
    told in one line on standard error; 3: nothing fits; 130: interrupted.
    """
    try:
        status = _run(arguments, program)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except ModuleNotFoundError as missing:
        return _say(f"{missing.name} is not installed: pip install 'gputopo[cli]'", FAILED)
    except OSError as error:
        # What is still buffered cannot be written at exit either, and shall not complain then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        broken_pipe = isinstance(error, BrokenPipeError)
        return FAILED if broken_pipe else _say(f"standard output: {error.strerror}", FAILED)
    except (InputError, ValueError) as error:
        if not is_refusal(error):
            raise
        return _say(str(error), BAD_INPUT)
    return status


def _run(arguments: Sequence[str], program: str) -> int:
    import typer

    from gputopo_cli.app import app

    name = "kubectl gputopo" if program.startswith("kubectl-") else "gputopo"
    try:
        return app(list(arguments), prog_name=name, standalone_mode=False) or 0
    except typer.BadParameter as error:
        field = "/".join(error.param.opts) if error.param else "arguments"
        return _say(f"{field}: {error.message or 'is missing'}", BAD_INPUT)
    except typer.TyperException as error:
        return _say(error.format_message(), BAD_INPUT)


def _mend_streams() -> None:
    """Let no closed stream and no narrow encoding stop an answer half-way."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 - for the whole process
    stdout: Any = sys.stdout
    stdout.reconfigure(errors="replace")


def _say(message: str, status: int) -> int:
    """Tell the user in one line, and return the status."""
    sys.stderr.write(f"gputopo: {' '.join(message.split())}\n")
    return status


if __name__ == "__main__":
    main()

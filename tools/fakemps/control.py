"""``nvidia-cuda-mps-control``: sends the commands of its standard input, or is the daemon."""

import sys

from fakemps.wire import CONTROL_SOCKET, WireError, pipe_directory, request

_MULTIUSER = {"-M", "-multiuser-server", "--multiuser-server"}


def main() -> None:
    """Run one of the three modes of the program."""
    options = set(sys.argv[1:])
    unknown = options - _MULTIUSER - {"-d", "-f"}
    if unknown:
        sys.exit(f"nvidia-cuda-mps-control: unknown option {min(unknown)}")
    if options & {"-d", "-f"}:
        from fakemps.daemon import run  # noqa: PLC0415 - a command starts faster without it

        run(background="-d" in options, multiuser=bool(options & _MULTIUSER))
    else:
        _send_commands()


def _send_commands() -> None:
    for line in sys.stdin:
        try:
            reply = request(pipe_directory() / CONTROL_SOCKET, {"command": line.split()})
        except WireError:
            sys.exit("Cannot find MPS control daemon process")
        print(reply["text"], end="", flush=True)
        if reply["status"]:
            sys.exit(reply["status"])

"""Run a program as if in a container of gputopo, and print the messages that it sends.

Usage: python listen.py PROGRAM [ARGUMENT...]
Example: python listen.py python train_with_lightning.py
"""

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path


def main(command: list[str]) -> int:
    """Return the exit status of the command."""
    if not command:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "socket"))
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as agent:
            agent.bind(path)
            agent.settimeout(0.1)
            environ = {**os.environ, "GPUTOPO_STEPS_SOCKET": path}
            with subprocess.Popen(command, env=environ) as program:
                while print_message(agent) or program.poll() is None:
                    pass
    return program.returncode


def print_message(agent: socket.socket) -> bool:
    """Print the next message; return False if none arrived in time."""
    try:
        print(agent.recv(512).decode(), flush=True)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""What the programs of the stand-in share: messages, log lines, settings of the environment."""

import json
import os
import socket
import struct
import time
from pathlib import Path
from typing import Any

CONTROL_SOCKET = "control"
PID_FILE = "nvidia-cuda-mps-control.pid"
FOREGROUND = "FAKEMPS_FOREGROUND"
"""Variable of a daemon in the foreground (``-f``), which logs to its standard output only."""

LIMIT = "FAKEMPS_LIMIT"
"""Variable of a server: the default limit of the memory of its clients."""

_CREDENTIALS = struct.Struct("3i")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class WireError(Exception):
    """The other end has closed the connection, or sends no JSON."""


def pipe_directory() -> Path:
    """Return the folder of the sockets."""
    return Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY") or "/tmp/nvidia-mps")  # noqa: S108


def log(role: str, text: str) -> None:
    """Add a line to control.log or server.log, in the format of MPS."""
    now = time.time()
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
    line = f"[{stamp}.{int(now % 1 * 1000):03d} {role:7s} {os.getpid():5d}] {text}\n"
    if os.environ.get(FOREGROUND):
        print(line, end="", flush=True)
        return
    folder = Path(os.environ.get("CUDA_MPS_LOG_DIRECTORY") or "/var/log/nvidia-mps")
    with (folder / f"{role.lower()}.log").open("a") as file:
        file.write(line)


def send(connection: socket.socket, message: Any) -> None:  # noqa: ANN401 - any JSON value
    """Send one message as a line."""
    connection.sendall(json.dumps(message).encode() + b"\n")


def receive(connection: socket.socket) -> Any:  # noqa: ANN401 - any JSON value
    """Return the next message.

    Raises:
        WireError: there is none.
    """
    data = b""
    try:
        while not data.endswith(b"\n"):
            part = connection.recv(65536)
            if not part:
                raise WireError("connection closed")
            data += part
        return json.loads(data)
    except (OSError, ValueError) as error:
        raise WireError(str(error)) from error


def request(path: Path, message: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Send one message to a socket and return the response. There is no time limit.

    Raises:
        WireError: no process listens, or it ended meanwhile.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(str(path))
            send(connection, message)
        except OSError as error:
            raise WireError(f"{path}: {error}") from error
        return receive(connection)


def peer(connection: socket.socket) -> tuple[int, int]:
    """Return PID, in this process's PID namespace, and user ID of the other end."""
    size = _CREDENTIALS.size
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    pid, uid, _ = _CREDENTIALS.unpack(found)
    return pid, uid


def parse_bytes(text: str) -> int:
    """Return an amount of memory such as ``512M``, ``2GB`` or ``1000``.

    Raises:
        ValueError: it is none.
    """
    digits = text.rstrip("KMGB")
    return int(digits) * _UNITS[text[len(digits) :].removesuffix("B")]

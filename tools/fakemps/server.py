"""``nvidia-cuda-mps-server``: the clients of one GPU, their memory, and fatal faults.

The log lines and the output of commands are those that driver 580 wrote on an H100.
"""

import os
import socket
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fakemps.memory import GpuFiles, ProcessFile
from fakemps.wire import LIMIT, WireError, log, parse_bytes, peer, pipe_directory, receive, send

FATAL_FAULT, OUT_OF_MEMORY, INVALID_VALUE, NOT_READY, TERMINATED = 700, 2, 1, 807, 810
INVALID_CONTEXT = 201

STUCK = "stuck"
"""File in the pipe directory: while it exists, a server does not recover from a fault."""


@dataclass(slots=True, eq=False)
class Client:
    """A connected client; ``error`` is returned by all its further calls."""

    pid: int
    number: int
    limit_bytes: int
    file: ProcessFile | None
    used_bytes: int = 0
    error: int = 0

    @property
    def name(self) -> str:
        """The client as the log names it."""
        return f"{{PID: {self.pid}, Context ID: {self.number}}}"


def main() -> None:
    """Serve until the process is killed."""
    server = Server()
    path = pipe_directory() / f"server-{os.getpid()}"
    listener = socket.socket(socket.AF_UNIX)
    hidden = path.with_name(f".{path.name}")
    listener.bind(str(hidden))
    hidden.chmod(0o666)
    listener.listen(64)
    hidden.rename(path)
    log("Server", "Server has started")
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=server.serve, args=(connection,), daemon=True).start()


class Server:
    """The state of a server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._status = "ACTIVE"
        self._clients: list[Client] = []
        self._faulted: list[Client] = []
        self._connected = 0
        limit = os.environ.get(LIMIT)
        self._limit_bytes = parse_bytes(limit) if limit else None
        self._gpu = GpuFiles.find(os.environ.get("CUDA_VISIBLE_DEVICES", ""))
        self._own_file = self._gpu and self._gpu.register(os.getpid(), "C")

    def serve(self, connection: socket.socket) -> None:
        """Respond to one command, or to a client until it disconnects."""
        with connection:
            try:
                message = receive(connection)
                if "command" in message:
                    with self._lock:
                        send(connection, self._command(message["command"]))
                else:
                    self._serve_client(connection, message)
            except (WireError, OSError) as error:
                log("Server", f"Receive command failed, assuming client exit: {error}")

    def _serve_client(self, connection: socket.socket, message: dict[str, Any]) -> None:
        pid, _ = peer(connection)
        with self._lock:
            client, reply = self._accept(pid, message)
        send(connection, reply)
        if client is None:
            return
        try:
            while True:
                message = receive(connection)
                with self._lock:
                    reply = self._call(client, message)
                send(connection, reply)
        finally:
            with self._lock:
                self._remove(client)

    def _accept(self, pid: int, message: dict[str, Any]) -> tuple[Client | None, dict[str, Any]]:
        if self._status == "FAULT":
            return None, {"error": NOT_READY, "message": "the server recovers from a fault"}
        try:
            limit_bytes = self._limit_of(message.get("limit") or "")
        except (KeyError, ValueError):
            text = f"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT={message.get('limit')!r}: must be 0=AMOUNT"
            return None, self._rejected(pid, text)
        if self._gpu is not None and not self._gpu.is_exclusive():
            return None, self._rejected(pid, "the compute mode is not EXCLUSIVE_PROCESS")
        self._connected += 1
        file = self._gpu.register(pid, "M") if self._gpu else None
        client = Client(pid, self._connected, limit_bytes, file)
        self._clients.append(client)
        log("Server", f"Client {client.name} connected")
        log("Server", f"Status of client {client.name} is ACTIVE")
        return client, {"server": os.getpid()}

    def _limit_of(self, variable: str) -> int:
        """Return the limit of a client: its variable can only lower the limit of the server."""
        limits = [] if self._limit_bytes is None else [self._limit_bytes]
        if variable or not limits:
            limits.append(parse_limit(variable))
        return min(limits)

    def _rejected(self, pid: int, reason: str) -> dict[str, Any]:
        log("Server", f"Rejected client {pid}: {reason}")
        return {"error": INVALID_VALUE, "message": reason}

    def _call(self, client: Client, message: dict[str, Any]) -> dict[str, Any]:
        if client.error:
            return {"error": client.error}
        if "fault" in message:
            self._fault(client)
            return {"error": client.error}
        used_bytes = max(0, client.used_bytes + message.get("allocate", 0))
        if used_bytes > client.limit_bytes:
            return {"error": OUT_OF_MEMORY}
        if client.file is not None and used_bytes != client.used_bytes:
            client.file.write(used_bytes)
        client.used_bytes = used_bytes
        return {}

    def _fault(self, cause: Client) -> None:
        self._status = "FAULT"
        self._faulted = list(self._clients)
        name = cause.name.replace("Context ID", "Context")
        lines = [f"Client {name} encountered a fatal GPU error."]
        lines.append("Server is handling a fatal GPU error.")
        for each in self._faulted:
            each.error = FATAL_FAULT
            lines.append(f"Client {each.name} on device 0 to be torn down")
        lines += ["The following devices will be reset:", "0"]
        lines.append("The following client process have a sticky error set:")
        for line in [*lines, *(str(each.pid) for each in self._faulted)]:
            log("Server", line)

    def _remove(self, client: Client) -> None:
        self._leave(client)
        self._faulted = [each for each in self._faulted if each is not client]
        count = len(self._clients)
        log("Server", f"Client {client.name} exiting. Number of active client contexts is {count}.")
        stuck = (pipe_directory() / STUCK).exists()
        if self._status == "FAULT" and not self._faulted and not stuck:
            self._status = "ACTIVE"
            log("Server", "Destroy server context on device 0")

    def _leave(self, client: Client) -> None:
        """Remove a client from the list and free its memory."""
        self._clients = [each for each in self._clients if each is not client]
        if client.file is not None:
            client.file.remove()

    def _command(self, words: list[str]) -> dict[str, Any]:
        name, *arguments = words
        if name == "get_server_status":
            return {"text": f"{self._status}\n", "status": 0}
        if name == "get_client_list":
            pids = dict.fromkeys(each.pid for each in self._clients)
            return {"text": "".join(f"{pid}\n" for pid in pids), "status": 0}
        if name == "ps":
            return {"text": "".join(map(self._row, [None, *self._clients])), "status": 0}
        if name == "set_device_pinned_mem_limit":
            self._limit_bytes = parse_bytes(arguments[1])
            return {"text": "", "status": 0}
        found = [each for each in self._clients if [str(each.pid)] == arguments]
        for each in found:
            log("Server", f"MPS server requesting client {each.name} to exit")
            each.error = TERMINATED  # it stays in the list until its process ends
        return {"text": f"{0 if found else INVALID_CONTEXT}\n", "status": 0}

    def _row(self, client: Client | None) -> str:
        """Return a line of ``ps``, or the header for None."""
        if client is None:
            cells = ["PID", "ID", "SERVER", "DEVICE", "NAMESPACE", "COMMAND"]
        else:
            device = os.environ.get("CUDA_VISIBLE_DEVICES", "")[:17]
            namespace, program = _of_process(client.pid)
            cells = [
                str(client.pid),
                str(client.number),
                str(os.getpid()),
                device,
                namespace,
                program,
            ]
        return "{:<9} {:<9} {:<14} {:<25} {:<14} {:<15}\n".format(*cells)


def parse_limit(text: str) -> int:
    """Return the bytes of ``0=AMOUNT``, the limit of the only device.

    Raises:
        ValueError: the text has another form.
    """
    device, separator, amount = text.partition("=")
    if device != "0" or not separator:
        raise ValueError(text)
    return parse_bytes(amount)


def _of_process(pid: int) -> tuple[str, str]:
    """Return the number of a process's PID namespace, and its program."""
    process = Path(f"/proc/{pid}")
    try:
        namespace = (process / "ns" / "pid").readlink().name
        program = (process / "cmdline").read_bytes().split(b"\0")[0].decode(errors="replace")
    except OSError:
        return "-", "-"
    return namespace.strip("pid:[]"), program

"""The control daemon: starts a server for the first client, and passes commands on to it."""

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from fakemps.wire import (
    CONTROL_SOCKET,
    FOREGROUND,
    LIMIT,
    PID_FILE,
    WireError,
    log,
    peer,
    pipe_directory,
    receive,
    request,
    send,
)

_POLL_SECONDS = 0.02
_FOR_SERVER = {
    *("get_client_list", "get_server_status", "terminate_client"),
    "set_device_pinned_mem_limit",
}
_DEFAULT_LIMIT = "set_default_device_pinned_mem_limit"
_DEFAULTS = {_DEFAULT_LIMIT, "set_default_active_thread_percentage"}


def run(*, background: bool, multiuser: bool) -> None:
    """Serve until ``quit``."""
    listener = _listen(pipe_directory() / CONTROL_SOCKET)
    if background:
        if os.fork():
            os._exit(0)
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(nothing, descriptor)
    else:
        os.environ[FOREGROUND] = "1"
    (pipe_directory() / PID_FILE).write_text(f"{os.getpid()}\n")
    log("Control", f"Starting control daemon using socket {pipe_directory() / CONTROL_SOCKET}")
    daemon = Daemon(multiuser=multiuser)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=daemon.serve, args=(connection,), daemon=True).start()


def _listen(path: Path) -> socket.socket:
    try:
        request(path, {"command": ["get_server_list"]})
    except WireError:
        path.unlink(missing_ok=True)
    else:
        sys.exit("An instance of this daemon is already running")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    path.chmod(0o666)
    listener.listen(64)
    return listener


class Daemon:
    """The state of a control daemon. One server at a time runs."""

    def __init__(self, *, multiuser: bool) -> None:
        self._multiuser = multiuser
        self._lock = threading.Lock()
        self._server: subprocess.Popen[bytes] | None = None
        self._server_user = 0
        self._quitting = False
        self._defaults: dict[str, list[str]] = {}

    def serve(self, connection: socket.socket) -> None:
        """Respond to one message."""
        with connection:
            try:
                message = receive(connection)
                if "command" in message:
                    send(connection, self._command(message["command"]))
                else:
                    send(connection, self._connect(peer(connection)[1]))
            except (WireError, OSError) as error:
                log("Control", f"User did not send valid credentials: {error}")

    def _connect(self, user: int) -> dict[str, Any]:
        """Return the socket of the server for a client. Clients of another user wait."""
        log("Control", f"NEW CLIENT from user {user}")
        while not self._quitting:
            with self._lock:
                server = self._running()
                if server is None:
                    server = self._start(user)
                if self._multiuser or user == self._server_user:
                    return self._ready(server)
                if not self._clients():
                    server.kill()
            time.sleep(_POLL_SECONDS)
        return {"error": 807, "message": "the control daemon shuts down"}

    def _running(self) -> "subprocess.Popen[bytes] | None":
        """Return the server, or None if there is none. The lock is held."""
        if self._server is not None and self._server.poll() is not None:
            log("Control", f"Server {self._server.pid} exited with status {self._server.poll()}")
            (pipe_directory() / f"server-{self._server.pid}").unlink(missing_ok=True)
            self._server = None
        return self._server

    def _start(self, user: int) -> "subprocess.Popen[bytes]":
        program = Path(sys.argv[0]).resolve().with_name("nvidia-cuda-mps-server")
        limit = self._defaults.get(_DEFAULT_LIMIT, [])[1:]
        environment = {**os.environ, LIMIT: "".join(limit)}
        self._server = server = subprocess.Popen(
            [program], stdin=subprocess.DEVNULL, env=environment
        )
        self._server_user = user
        log("Control", f"Starting new server {server.pid} for user {user}")
        return server

    @staticmethod
    def _ready(server: "subprocess.Popen[bytes]") -> dict[str, Any]:
        """Wait until the server takes clients; return its socket. The lock is held."""
        path = pipe_directory() / f"server-{server.pid}"
        while server.poll() is None and not path.exists():
            time.sleep(_POLL_SECONDS)
        return {"server": path.name}

    def _clients(self) -> list[str]:
        try:
            return str(self._of_server(["get_client_list"])["text"]).split()
        except WireError:
            return []

    def _of_server(self, words: list[str]) -> dict[str, Any]:
        if self._server is None:
            raise WireError("no server")
        path = pipe_directory() / f"server-{self._server.pid}"
        found: dict[str, Any] = request(path, {"command": words})
        return found

    def _command(self, words: list[str]) -> dict[str, Any]:
        name, *arguments = words or [""]
        log("Control", f"Cmd:{' '.join(words)}")
        with self._lock:
            server = self._running()
        if name == "get_server_list":
            return _text(f"{server.pid}\n" if server else "")
        if name == "start_server" and arguments[:1] == ["-uid"]:
            with self._lock:
                self._running() or self._start(int(arguments[1]))
            return _text("")
        if name in _DEFAULTS:
            self._defaults[name] = arguments
            return _text("")
        if name == "quit":
            self._quit(float(arguments[1]) if arguments[:1] == ["-t"] else None)
        if name == "ps" or name in _FOR_SERVER:
            return self._pass_on(name, arguments, server)
        return _text(f'Unknown command "{" ".join(words)}"\n')

    def _pass_on(
        self, name: str, arguments: list[str], server: "subprocess.Popen[bytes] | None"
    ) -> dict[str, Any]:
        wanted = arguments[0] if name in _FOR_SERVER and arguments else None
        if server is None or wanted not in {None, str(server.pid)}:
            return _text("" if name == "ps" else f"Server {wanted} not found\n", int(name != "ps"))
        try:
            return self._of_server([name, *arguments[1:]])
        except WireError:  # as in the first 0.3 s of a real server
            return _text("Cannot send command to MPS control daemon process\n", 1)

    def _quit(self, timeout_seconds: float | None) -> None:
        self._quitting = True
        began = time.monotonic()
        with self._lock:
            while self._running() is not None and self._clients():
                if timeout_seconds is not None and time.monotonic() - began >= timeout_seconds:
                    break
                time.sleep(_POLL_SECONDS)
            if self._server is not None:
                self._server.kill()
                self._server.wait()
        log("Control", "Exit")
        for name in (CONTROL_SOCKET, PID_FILE):
            (pipe_directory() / name).unlink(missing_ok=True)
        os._exit(0)


def _text(text: str, status: int = 0) -> dict[str, Any]:
    return {"text": text, "status": status}

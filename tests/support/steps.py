"""The agent's end of a steps socket."""

import json
import socket
from pathlib import Path
from typing import Any


class AgentSocket:
    """A datagram socket at ``path`` whose messages a test reads."""

    def __init__(self, listener: socket.socket, path: Path) -> None:
        self._listener = listener
        self.path = path
        listener.setblocking(False)
        listener.bind(str(path))

    @property
    def environ(self) -> dict[str, str]:
        """The environment of a container with this socket."""
        return {"GPUTOPO_STEPS_SOCKET": str(self.path)}

    def datagrams(self) -> list[bytes]:
        """Return the datagrams in the queue, and remove them."""
        found: list[bytes] = []
        while True:
            try:
                found.append(self._listener.recv(65536))
            except BlockingIOError:
                return found

    def messages(self) -> list[dict[str, Any]]:
        """Return the messages in the queue, and remove them."""
        return [json.loads(datagram) for datagram in self.datagrams()]

    def counts(self) -> list[int]:
        """Return ``steps`` of each message in the queue, and remove them."""
        return [message["steps"] for message in self.messages()]

    def fill(self) -> None:
        """Send datagrams until the queue is full."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            while True:
                try:
                    sender.sendto(b"{}", str(self.path))
                except BlockingIOError:
                    return

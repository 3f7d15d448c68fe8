"""Program of a container that holds memory on request; the image has only Python.

``GET /hold/400`` allocates 400 MiB, and ``GET /file/400`` writes a file of 400 MiB, which stays in
the page cache.
"""

from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

_PORT = 9090
_MIB = 2**20
_FILE = Path("/tmp/file")  # noqa: S108 - the container's own


class MemoryServer(BaseHTTPRequestHandler):
    """Holds what was requested until the process ends.

    Attributes:
        held: allocated memory.
    """

    held: list[bytearray] = []  # noqa: RUF012 - shared by all requests on purpose

    def do_GET(self) -> None:
        """Hold memory, and report when it is held."""
        _, how, mebibytes = self.path.split("/")
        if how == "file":
            part = bytes(_MIB)
            with _FILE.open("wb") as file:
                for _ in range(int(mebibytes)):
                    file.write(part)
        else:
            for _ in range(int(mebibytes)):
                self.held.append(bytearray(b"x" * _MIB))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


HTTPServer(("", _PORT), MemoryServer).serve_forever()

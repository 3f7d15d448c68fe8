"""A proxy responds to the agent of one node with 502 and no Content-Type."""

import contextlib
import socketserver
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from faulttest import agents, pods
from faulttest.bench import Bench
from faulttest.scenario import Options
from localcluster import settings
from localcluster.packets import redirected
from localcluster.settings import Paths

_SECONDS = 120.0
_RECOVERY_SECONDS = 60.0
_RESPONSE = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class _Proxy(socketserver.ThreadingTCPServer):
    """Responds to every TLS request with 502, with the API server's own certificate.

    Attributes:
        responses: number of responses.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, paths: Paths) -> None:
        super().__init__((settings.CONTROL_PLANE_ADDRESS, 0), _Handler)
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(paths.pki / "apiserver.crt", paths.pki / "apiserver.key")
        self.responses = 0


class _Handler(socketserver.BaseRequestHandler):
    server: _Proxy

    def handle(self) -> None:
        """Read a request's header and respond."""
        self.request.settimeout(5)
        with contextlib.suppress(OSError):
            self._respond(self.server.tls.wrap_socket(self.request, server_side=True))

    def _respond(self, connection: ssl.SSLSocket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            part = connection.recv(65536)
            if not part:
                return
            head += part
        connection.sendall(_RESPONSE)
        connection.close()
        self.server.responses += 1


@contextmanager
def _proxy(paths: Paths) -> Iterator[_Proxy]:
    with _Proxy(paths) as server:
        thread = threading.Thread(target=server.serve_forever, name="proxy", daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def carry_out(bench: Bench, options: Options) -> None:
    """Redirect one agent to the proxy while a pod runs, and count its restarts."""
    node = bench.nodes[0]
    uid = bench.start(pods.pod("running", 2, bench.image, node))
    address = agents.address(bench, node)
    before = agents.restarts(bench, node)
    with (
        _proxy(bench.paths) as proxy,
        redirected(bench.machines, node, address, proxy.server_address[1]),
    ):
        time.sleep(options.seconds or _SECONDS)
        bench.seen["responses with 502"] = proxy.responses
    after = agents.restarts(bench, node)
    bench.seen["restarts of the agent"] = after - before
    if after > before:
        bench.finding("agent restarted", f"{after - before} times")
    if not bench.seen["responses with 502"]:
        bench.finding("fault without effect", "the agent sent no request to the proxy")
    second = bench.create(pods.pod("afterwards", 2, bench.image, node))
    bench.seen["seconds until a new pod runs afterwards"] = bench.reach(
        "a new pod runs afterwards", lambda: bench.runs(second), _RECOVERY_SECONDS
    )
    bench.judge_failed([uid, second])

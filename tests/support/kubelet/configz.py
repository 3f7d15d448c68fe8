"""The HTTPS server of a kubelet, with the path ``/configz`` only."""

import asyncio
import json
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

TOKEN = "token-of-the-agent"  # noqa: S105 - a token of the tests


@dataclass(slots=True)
class KubeletConfigServer:
    """One server; tests change its state directly.

    Attributes:
        policy: the topologyManagerPolicy.
        cpu_manager: the cpuManagerPolicy.
        more: other fields of the configuration.
        body: the response, if it is not a configuration with these policies.
        status: status of every response.
        slow: whether the body of each response arrives byte by byte, without end.
        address: IP address.
        tokens: the token of each request; only ``TOKEN`` may read the configuration.
    """

    folder: Path
    policy: str = "none"
    cpu_manager: str = "none"
    more: dict[str, object] = field(default_factory=dict)
    body: bytes | None = None
    status: int = 200
    slow: bool = False
    address: str = "127.0.0.1"
    port: int = 0
    tokens: list[str] = field(default_factory=list)

    @property
    def node_status(self) -> dict[str, object]:
        """The part of a Node's status that names this server."""
        return {
            "addresses": [
                {"type": "Hostname", "address": "n1"},
                {"type": "InternalIP", "address": self.address},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self.port}},
        }

    async def respond(self, request: web.Request) -> web.StreamResponse:
        """Respond to ``GET /configz``."""
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        self.tokens.append(token)
        policies = {
            "topologyManagerPolicy": self.policy,
            "cpuManagerPolicy": self.cpu_manager,
            **self.more,
        }
        config = {"kubeletconfig": policies}
        body = self.body if self.body is not None else json.dumps(config).encode()
        if self.slow:
            return await self._drip(request)
        return web.Response(status=self.status if token == TOKEN else 401, body=body)

    async def _drip(self, request: web.Request) -> web.StreamResponse:
        """Send one byte after the other, without end."""
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" ")
            await asyncio.sleep(0.01)


@asynccontextmanager
async def config_server(folder: Path) -> AsyncIterator[KubeletConfigServer]:
    """Run a server. In ``folder``, ``token`` and ``ca.crt`` are those of a service account."""
    server = KubeletConfigServer(folder)
    context = _write_account(folder, server.address)
    application = web.Application()
    application.router.add_get("/configz", server.respond)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, server.address, 0, ssl_context=context)
    await site.start()
    server.port = runner.addresses[0][1]
    try:
        yield server
    finally:
        await runner.cleanup()


def _write_account(folder: Path, address: str) -> ssl.SSLContext:
    """Write a token, and as ``ca.crt`` a certificate for ``address`` that signs itself."""
    folder.mkdir()
    (folder / "token").write_text(f"{TOKEN}\n")
    key, certificate = folder / "tls.key", folder / "ca.crt"
    new = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    name = [
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=kubelet",
        "-addext",
        f"subjectAltName=IP:{address}",
    ]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*new, *name, *files], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context

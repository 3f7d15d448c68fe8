"""Runs the page: watches the cluster, pushes changes, serves HTTP."""

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import uvicorn
from starlette.applications import Starlette

from gputopo.api.names import RESOURCE
from gputopo.errors import InvalidInputError
from gputopo.runtime.log import fields
from gputopo_kube.kubeconfig import Connection, connection
from gputopo_kube.listen import listen_address
from gputopo_web.pages.render import Pages
from gputopo_web.server.app import application
from gputopo_web.server.explainer import Explainer
from gputopo_web.server.hub import Hub
from gputopo_web.server.security import LOOPBACK
from gputopo_web.state.cluster import ClusterState
from gputopo_web.state.follow import Scope, follow
from gputopo_web.state.kinds import KINDS

_UPDATE_SECONDS: Final = 0.3

_log = logging.getLogger(__name__)


class AddressError(InvalidInputError):
    """The page cannot be served on this address."""


@dataclass(frozen=True, slots=True)
class WebOptions:
    """What ``gputopo web`` serves, and where.

    Attributes:
        host: address on which the page is served.
        port: 0 for any free port.
        context: context of the kubeconfig; None for the current one.
        namespace: only jobs of this namespace; None for all namespaces.
        resource: extended resource that counts the GPUs.
        installation: namespace of gputopo; None to look for its Deployments in all namespaces.
        allowed_hosts: names for the header ``Host``, beside those of the loopback interface.
        service_account: connect as the pod's service account, without a kubeconfig.
    """

    host: str = "127.0.0.1"
    port: int = 8770
    context: str | None = None
    namespace: str | None = None
    resource: str = RESOURCE
    installation: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    service_account: bool = False


@dataclass(frozen=True, slots=True)
class ServedPage:
    """The page while it is served; any thread may call ``stop``."""

    url: str
    stop: Callable[[], None]


def serve(options: WebOptions, on_ready: Callable[[ServedPage], None]) -> None:
    """Serve the page until interrupted; call ``on_ready`` when the address accepts connections.

    Raises:
        AddressError: if the address is in use or not valid.
        CredentialsError: if the kubeconfig or the service account cannot be used.
    """
    with (
        _listening(options.host, options.port) as listener,
        connection(
            options.context, service_account=options.service_account, parallel=2 * len(KINDS)
        ) as link,
    ):
        hub = Hub()
        server = _Server(hub, page(link, options, hub))
        host, port = listener.getsockname()[:2]
        url = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
        on_ready(ServedPage(url, server.stop))
        server.run(sockets=[listener])


class _Server(uvicorn.Server):
    """A server that ends the streams of the viewers when it stops."""

    def __init__(self, hub: Hub, app: Starlette) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=2,
            )
        )
        self._hub = hub
        app.state.stop = self.stop

    def stop(self) -> None:
        """Stop serving soon."""
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop serving."""
        self._hub.close()
        await super().shutdown(sockets)


def page(link: Connection, options: WebOptions, hub: Hub) -> Starlette:
    """Return the application of the page; while it runs, it watches the cluster."""
    changed = asyncio.Event()
    state = ClusterState(namespace=options.namespace, on_change=changed.set)
    pages = Pages(state, link.context or link.server)
    scope = Scope(options.namespace, options.resource, options.installation)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        threads = ThreadPoolExecutor(2 * len(KINDS), "kubernetes")
        tasks = [
            asyncio.create_task(follow(state, link, scope, threads)),
            asyncio.create_task(push(state, pages, hub, changed)),
        ]
        for task in tasks:
            task.add_done_callback(lambda it: _stop_after_failure(it, app.state.stop))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            threads.shutdown(wait=False, cancel_futures=True)

    return application(
        pages,
        hub,
        Explainer(state),
        hosts=(*LOOPBACK, *options.allowed_hosts),
        is_ready=lambda: state.nodes.listed or state.nodes.error is not None,
        lifespan=lifespan,
    )


def _stop_after_failure(task: asyncio.Task[None], stop: Callable[[], None]) -> None:
    """Stop the server if a task has failed: otherwise the page would show an old state."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("the page cannot be kept up to date; stopping", exc_info=error)
        stop()


async def push(
    state: ClusterState,
    pages: Pages,
    hub: Hub,
    changed: asyncio.Event,
    seconds: float = _UPDATE_SECONDS,
) -> None:
    """Send the changes of the state to the viewers until cancelled; those of ``seconds`` together.

    ``changed`` is set by the state.
    """
    while True:
        await changed.wait()
        await asyncio.sleep(seconds)
        changed.clear()
        changes = state.take_changes()
        if changes:
            hub.publish(json.dumps(pages.change(changes)))
            _log.debug("changes sent %s", fields(nodes=len(changes.nodes), viewers=hub.viewers))


def _listening(host: str, port: int) -> socket.socket:
    """Return a listening socket; with an empty host on all addresses, of IPv4 and IPv6."""
    address = listen_address(host)
    try:
        family = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0][0]
        both = not host and family == socket.AF_INET6
        return socket.create_server((address, port), family=family, dualstack_ipv6=both)
    except (OSError, OverflowError) as error:
        raise AddressError(f"port: {host}:{port}: {error}; choose another with --port") from None

"""The routes of the page."""

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Final

from markupsafe import Markup
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Send

from gputopo_kube.document import ObjectKey
from gputopo_web.pages.queries import Selection
from gputopo_web.pages.render import Pages
from gputopo_web.server.explainer import Explainer
from gputopo_web.server.hub import MOST_VIEWERS, Hub
from gputopo_web.server.security import HEADERS, ReadOnly

_STATIC: Final[Mapping[str, str]] = {
    "web.css": "text/css",
    "web.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
_EVENTS: Final = "text/event-stream"
PART: Final = "X-Part"
"""Header of requests of the page's script: only the panel, without the page around it."""

Lifespan = Callable[[Starlette], AbstractAsyncContextManager[None]]


def application(
    pages: Pages,
    hub: Hub,
    explainer: Explainer,
    *,
    hosts: Collection[str],
    is_ready: Callable[[], bool],
    lifespan: Lifespan | None = None,
) -> Starlette:
    """Return the application.

    Args:
        pages: renders the page.
        explainer: explains pods and GPUJobs.
        hub: sends changes to viewers.
        hosts: names that the header ``Host`` may have, without ports.
        is_ready: whether the cluster has been read.
        lifespan: runs while the server runs.
    """
    views = _Views(pages, hub, explainer, is_ready)
    routes = [
        Route("/", views.index),
        Route("/events", views.events),
        Route("/part/{section}", views.section),
        Route("/node/{name}", views.node),
        Route("/pod/{namespace}/{name}", views.pod),
        Route("/gpujob/{namespace}/{name}", views.gpu_job),
        Route("/what-if", views.what_if),
        Route("/picture/{group}", views.picture),
        Route("/static/{name}", _static),
        Route("/livez", views.live),
        Route("/readyz", views.ready),
    ]
    middleware = [
        Middleware(ReadOnly, hosts=hosts),
        Middleware(GZipMiddleware, minimum_size=1000, compresslevel=5),
    ]
    return Starlette(
        routes=routes,
        middleware=middleware,
        lifespan=lifespan,
        exception_handlers={Exception: _failed},
    )


class _Views:
    def __init__(
        self, pages: Pages, hub: Hub, explainer: Explainer, is_ready: Callable[[], bool]
    ) -> None:
        self._pages = pages
        self._explainer = explainer
        self._hub = hub
        self._is_ready = is_ready

    async def index(self, request: Request) -> Response:
        selection = Selection.parse(request.query_params)
        return HTMLResponse(self._pages.index(selection, self._hub.position))

    async def section(self, request: Request) -> Response:
        found = self._pages.section(
            request.path_params["section"], Selection.parse(request.query_params)
        )
        return _missing() if found is None else HTMLResponse(found)

    async def node(self, request: Request) -> Response:
        name = request.path_params["name"]
        return self._panel(
            request,
            f"Node {name}",
            self._pages.node(name),
            "The node has no GPUTopology, or it cannot be read.",
        )

    async def pod(self, request: Request) -> Response:
        key = _key(request)
        missing = "There is no pod of this name with GPUs, or it cannot be read."
        return self._panel(
            request, f"Pod {key}", self._pages.pod(key, await self._explainer.pod(key)), missing
        )

    async def gpu_job(self, request: Request) -> Response:
        key = _key(request)
        missing = "There is no GPUJob of this name, or it cannot be read."
        return self._panel(
            request,
            f"GPUJob {key}",
            self._pages.gpu_job(key, await self._explainer.gpu_job(key)),
            missing,
        )

    async def what_if(self, request: Request) -> Response:
        result = await self._explainer.what_if(request.query_params)
        return self._panel(request, "What if", self._pages.what_if(result), "")

    async def picture(self, request: Request) -> Response:
        text = self._pages.picture(request.path_params["group"])
        return _missing() if text is None else Response(text, media_type="image/svg+xml")

    async def events(self, request: Request) -> Response:
        if self._hub.viewers >= MOST_VIEWERS:
            return PlainTextResponse(
                f"viewers: {MOST_VIEWERS} are connected; close other pages\n",
                HTTPStatus.SERVICE_UNAVAILABLE,
            )
        if request.method == "HEAD":
            return Response(media_type=_EVENTS)
        since = request.headers.get("last-event-id") or request.query_params.get("since", "")
        return _EventStream(
            self._hub.stream(since),
            media_type=_EVENTS,
            headers={"X-Accel-Buffering": "no"},  # proxies pass events on at once
        )

    async def live(self, _: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def ready(self, _: Request) -> Response:
        if self._is_ready():
            return PlainTextResponse("ok\n")
        return PlainTextResponse("the cluster is being read\n", HTTPStatus.SERVICE_UNAVAILABLE)

    def _panel(
        self, request: Request, title: str, content: Markup | None, missing: str
    ) -> Response:
        status = HTTPStatus.OK if content is not None else HTTPStatus.NOT_FOUND
        shown = self._pages.message(title, missing) if content is None else content
        if PART in request.headers:
            return HTMLResponse(shown, status)
        return HTMLResponse(self._pages.whole(title, shown), status)


class _EventStream(StreamingResponse):
    """Removes a viewer from the hub as soon as its connection ends, even in the middle of a send.

    Otherwise viewers that are gone count for the limit until their streams are collected.
    """

    async def stream_response(self, send: Send) -> None:
        stream: Any = self.body_iterator
        async with aclosing(stream):
            await super().stream_response(send)


def _key(request: Request) -> ObjectKey:
    return ObjectKey(request.path_params["namespace"], request.path_params["name"])


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _STATIC:
        return _missing()
    content = files("gputopo_web.pages").joinpath("static", name).read_bytes()
    return Response(content, media_type=_STATIC[name], headers={"Cache-Control": "max-age=300"})


async def _failed(_: Request, __: Exception) -> Response:
    """Return the response to a request that has failed; the server logs the error."""
    # This response does not pass through ReadOnly.
    return PlainTextResponse(
        "The page has failed; its log shows why.\n", HTTPStatus.INTERNAL_SERVER_ERROR, HEADERS
    )


def _missing() -> Response:
    return PlainTextResponse("not found\n", HTTPStatus.NOT_FOUND)

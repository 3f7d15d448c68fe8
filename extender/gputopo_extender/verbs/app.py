"""The HTTP application of the verbs, which kube-scheduler calls on loopback."""

import logging
import time
from collections.abc import Sequence
from typing import Any, Final, TypeVar

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from pydantic import BaseModel, ValidationError

from gputopo.errors import InvalidInputError
from gputopo.runtime.log import fields
from gputopo.runtime.messages import first_error, shortened
from gputopo_extender.protocol import ExtenderArgs, ExtenderBindingArgs, ExtenderPreemptionArgs
from gputopo_extender.verbs.evaluation_cache import TablesNotReadyError
from gputopo_extender.verbs.handlers import Verbs
from gputopo_extender.verbs.metrics import Metrics
from gputopo_kube.podmodel import PodError
from gputopo_kube.reflector import Reflector

MAX_BODY_BYTES: Final = 256 * 1024 * 1024
"""Without nodeCacheCapable kube-scheduler sends thousands of complete Node objects."""

KEEPALIVE_SECONDS: Final = 150
"""Longer than the 90 s of Go's client. If the server closed a connection first, the next request
could fail."""

_LONGEST_REASON: Final = 300

_log = logging.getLogger(__name__)

Body = TypeVar("Body", bound=BaseModel)


class Readiness:
    """Decides whether the ledger is complete and current, so that verbs may be served."""

    def __init__(self, reflectors: Sequence[Reflector[Any]], stale_after_seconds: float) -> None:
        """Require a list or event of every reflector within the last ``stale_after_seconds``."""
        self._reflectors = reflectors
        self._stale_after_seconds = stale_after_seconds

    def reason_not_ready(self) -> str | None:
        """Return why the verbs must not be served now, or None if they may be served."""
        for reflector in self._reflectors:
            age = reflector.age_seconds()
            if age is None:
                return f"{reflector.name} are not listed yet"
            if age > self._stale_after_seconds:
                return f"{reflector.name}: the last list or event was {age:.0f} s ago"
        return None


class BadBodyError(InvalidInputError):
    """A request body is invalid for its verb; the message names the field."""


def verbs_app(verbs: Verbs, readiness: Readiness, metrics: Metrics) -> web.Application:
    """Return the application for kube-scheduler."""

    async def handle_filter(request: web.Request) -> web.Response:
        return _json(await verbs.filter(await _body(request, ExtenderArgs)))

    async def handle_prioritize(request: web.Request) -> web.Response:
        return _json(await verbs.prioritize(await _body(request, ExtenderArgs)))

    async def handle_bind(request: web.Request) -> web.Response:
        return _json(await verbs.bind(await _body(request, ExtenderBindingArgs)))

    async def handle_preempt(request: web.Request) -> web.Response:
        return _json(await verbs.preempt(await _body(request, ExtenderPreemptionArgs)))

    app = web.Application(
        client_max_size=MAX_BODY_BYTES, middlewares=[_measured(metrics), _checked(readiness)]
    )
    app.router.add_post("/filter", handle_filter)
    app.router.add_post("/prioritize", handle_prioritize)
    app.router.add_post("/bind", handle_bind)
    app.router.add_post("/preempt", handle_preempt)
    return app


def _checked(readiness: Readiness) -> Middleware:
    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        # kube-scheduler does not check readiness, so the verbs must return 503 themselves.
        if reason := readiness.reason_not_ready():
            return web.Response(text=f"not ready: {reason}\n", status=503)
        try:
            return await handler(request)
        except (BadBodyError, PodError) as error:
            reason = _one_line(str(error))
            _log.warning("rejected request %s", fields(verb=request.path.strip("/"), reason=reason))
            return web.Response(text=f"{reason}\n", status=400)
        except TablesNotReadyError as error:
            return web.Response(text=f"{error}\n", status=503)

    return middleware


def _measured(metrics: Metrics) -> Middleware:
    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        started = time.perf_counter()
        status = 500
        try:
            response = await handler(request)
            status = response.status
        except web.HTTPException as error:
            status = error.status
            raise
        finally:
            route = request.match_info.route.resource
            verb = route.canonical.strip("/") if route else "other"
            seconds = time.perf_counter() - started
            metrics.request_seconds.labels(verb, _outcome(status)).observe(seconds)
        return response

    return middleware


def _one_line(text: str) -> str:
    """Return ``text`` as one line of limited length: it may quote long keys of a request body."""
    return shortened(" ".join(text.split()), _LONGEST_REASON)


def _outcome(status: int) -> str:
    if status == web.HTTPServiceUnavailable.status_code:
        return "unavailable"
    if status >= web.HTTPInternalServerError.status_code:
        return "error"
    return "ok" if status == web.HTTPOk.status_code else "rejected"


async def _body(request: web.Request, model: type[Body]) -> Body:
    try:
        return model.model_validate_json(await request.read())
    except ValidationError as error:
        raise BadBodyError(f"body: {first_error(error)}") from None


def _json(response: Any) -> web.Response:  # noqa: ANN401 - any JSON
    return web.Response(body=orjson.dumps(response), content_type="application/json")

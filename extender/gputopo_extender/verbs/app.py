"""The two HTTP applications: verbs on loopback, probes and metrics for the cluster."""

import logging
import time
from typing import Any, Final, TypeVar

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel, ValidationError

from gputopo.errors import InvalidInputError
from gputopo.runtime.log import fields
from gputopo.runtime.messages import first_error
from gputopo_extender.protocol import ExtenderArgs, ExtenderBindingArgs, ExtenderPreemptionArgs
from gputopo_extender.verbs.evaluation_cache import TablesNotReadyError
from gputopo_extender.verbs.handlers import Readiness, Verbs
from gputopo_extender.verbs.metrics import Metrics
from gputopo_kube.podmodel import PodError

MAX_BODY_BYTES: Final = 256 * 1024 * 1024
"""Whole Node objects of thousands of nodes, where the scheduler is told to send them."""

KEEPALIVE_SECONDS: Final = 150
"""Above the 90 s of Go's client: a server that closes first races with its next request."""

_LONGEST_REFUSAL: Final = 300

_log = logging.getLogger(__name__)

Body = TypeVar("Body", bound=BaseModel)


class BadBodyError(InvalidInputError):
    """A request body that is not what the verb takes."""


def verbs_app(verbs: Verbs, gate: Readiness, metrics: Metrics) -> web.Application:
    """Return the application that kube-scheduler talks to."""

    async def answer_filter(request: web.Request) -> web.Response:
        return _json(await verbs.filter(await _body(request, ExtenderArgs)))

    async def answer_prioritize(request: web.Request) -> web.Response:
        return _json(await verbs.prioritize(await _body(request, ExtenderArgs)))

    async def answer_bind(request: web.Request) -> web.Response:
        return _json(await verbs.bind(await _body(request, ExtenderBindingArgs)))

    async def answer_preempt(request: web.Request) -> web.Response:
        return _json(await verbs.preempt(await _body(request, ExtenderPreemptionArgs)))

    app = web.Application(
        client_max_size=MAX_BODY_BYTES, middlewares=[_measured(metrics), _guarded(gate)]
    )
    app.router.add_post("/filter", answer_filter)
    app.router.add_post("/prioritize", answer_prioritize)
    app.router.add_post("/bind", answer_bind)
    app.router.add_post("/preempt", answer_preempt)
    return app


def probes_app(gate: Readiness, metrics: Metrics) -> web.Application:
    """Return the application that kubelet and Prometheus talk to."""

    async def livez(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        reason = gate.reason_not_ready()
        return web.Response(text=f"{reason or 'ok'}\n", status=503 if reason else 200)

    async def exposition(_: web.Request) -> web.Response:
        return web.Response(
            body=generate_latest(metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )

    app = web.Application()
    app.router.add_get("/livez", livez)
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/metrics", exposition)
    return app


def _guarded(gate: Readiness) -> Middleware:
    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        # kube-scheduler does not look at readiness: the verbs themselves must say no.
        if reason := gate.reason_not_ready():
            return web.Response(text=f"not ready: {reason}\n", status=503)
        try:
            return await handler(request)
        except (BadBodyError, PodError) as error:
            reason = _shorten(str(error))
            _log.warning("refused %s", fields(verb=request.path.strip("/"), reason=reason))
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


def _shorten(text: str) -> str:
    """Return one line: keys of a body may be of any length and kind."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_REFUSAL else line[: _LONGEST_REFUSAL - 3] + "..."


def _outcome(status: int) -> str:
    if status == web.HTTPServiceUnavailable.status_code:
        return "unavailable"
    if status >= web.HTTPInternalServerError.status_code:
        return "error"
    return "ok" if status == web.HTTPOk.status_code else "refused"


async def _body(request: web.Request, model: type[Body]) -> Body:
    try:
        return model.model_validate_json(await request.read())
    except ValidationError as error:
        raise BadBodyError(f"body: {first_error(error)}") from None


def _json(answer: Any) -> web.Response:  # noqa: ANN401 - whatever JSON the verb answers with
    return web.Response(body=orjson.dumps(answer), content_type="application/json")

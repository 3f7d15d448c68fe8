"""An extender that decides nothing: it shows the cost of three HTTP calls per pod.

``python -m scaletest.nothing CA CERTIFICATE KEY`` prints its port, serves until its input ends, and
then prints the milliseconds of every request by verb, as JSON.
"""

import asyncio
import ssl
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable

import aiohttp
import orjson
from aiohttp import web

from localcluster import settings

_Handler = Callable[[web.Request], Awaitable[web.Response]]


async def serve(authority: str, certificate: str, key: str) -> None:
    """Serve until standard input ends."""
    context = ssl.create_default_context(cafile=authority)
    context.load_cert_chain(certificate, key)
    milliseconds: dict[str, list[float]] = defaultdict(list)

    def timed(handler: _Handler) -> _Handler:
        async def handle(request: web.Request) -> web.Response:
            began = time.perf_counter()
            response = await handler(request)
            milliseconds[request.path.strip("/")].append((time.perf_counter() - began) * 1000)
            return response

        return handle

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
        app = web.Application(client_max_size=64 * 1024**2)

        async def bind(request: web.Request) -> web.Response:
            return await _bind(session, request)

        for path, handler in (("/filter", _filter), ("/prioritize", _prioritize), ("/bind", bind)):
            app.router.add_post(path, timed(handler))
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        _say(str(runner.addresses[0][1]).encode())
        await asyncio.to_thread(sys.stdin.read)
        await runner.cleanup()
    _say(orjson.dumps(milliseconds))


async def _filter(request: web.Request) -> web.Response:
    names = orjson.loads(await request.read())["NodeNames"]
    return _json({"NodeNames": names, "FailedNodes": {}, "Error": ""})


async def _prioritize(request: web.Request) -> web.Response:
    names = orjson.loads(await request.read())["NodeNames"]
    return _json([{"Host": name, "Score": 0} for name in names])


async def _bind(session: aiohttp.ClientSession, request: web.Request) -> web.Response:
    arguments = orjson.loads(await request.read())
    path = f"/api/v1/namespaces/{arguments['PodNamespace']}/pods/{arguments['PodName']}/binding"
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": arguments["PodName"], "uid": arguments["PodUID"]},
        "target": {"kind": "Node", "name": arguments["Node"]},
    }
    async with session.post(settings.API_SERVER + path, json=binding) as response:
        return _json({"Error": "" if response.ok else await response.text()})


def _json(value: object) -> web.Response:
    return web.Response(body=orjson.dumps(value), content_type="application/json")


def _say(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))

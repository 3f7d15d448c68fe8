"""A process that serves a fleet over HTTP: ``python -m benchmarks.extender_server NODES``.

It prints the URL of the verbs, and under /nothing/ that of verbs that decide nothing, then
serves until its input ends. Meanwhile a node changes every 20 ms, as in a busy cluster.
"""

import asyncio
import gc
import sys
from contextlib import suppress
from typing import Final

from aiohttp import web

from benchmarks.fleet import change
from benchmarks.verbs import NothingToDecide, fleet_of, verbs_on
from gputopo_extender.state.ledger import Ledger
from gputopo_extender.verbs.app import KEEPALIVE_SECONDS, Readiness, verbs_app

_CHANGE_EVERY_SECONDS: Final = 0.02


async def serve(nodes: int) -> None:
    """Serve until standard input ends."""
    ledger, metrics = fleet_of(nodes)
    gate = Readiness([], stale_after_seconds=1.0)
    app = verbs_app(verbs_on(ledger, metrics), gate, metrics)
    app.add_subapp(
        "/nothing/", verbs_app(verbs_on(ledger, metrics, NothingToDecide), gate, metrics)
    )
    runner = web.AppRunner(app, access_log=None, keepalive_timeout=KEEPALIVE_SECONDS)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    gc.collect()
    gc.freeze()  # as the extender does once all is listed
    sys.stdout.write(f"{runner.addresses[0][1]}\n")
    sys.stdout.flush()
    changing = asyncio.create_task(_change_for_ever(ledger, nodes))
    await asyncio.to_thread(sys.stdin.read)
    changing.cancel()
    with suppress(asyncio.CancelledError):
        await changing
    await runner.cleanup()


async def _change_for_ever(ledger: Ledger, nodes: int) -> None:
    turn = 0
    while True:
        await asyncio.sleep(_CHANGE_EVERY_SECONDS)
        turn += 1
        change(ledger, turn * 37 % nodes, turn)


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))

"""The clock of the event loop, which most parts of the agent use."""

import asyncio


def loop_time() -> float:
    """Return the time of the running event loop in seconds; it is monotonic."""
    return asyncio.get_running_loop().time()

"""Evaluates node states for a request in a thread, and keeps the results.

All four verbs use this cache. A result depends only on the node state and the request, so a stored
result stays correct. The first evaluation of a pattern, size and node topology builds tables of the
best placements. This takes milliseconds for 8 GPUs, and seconds for some patterns on 16 GPUs. The
extender serves other pods while the thread builds tables.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final
from weakref import WeakValueDictionary

from prometheus_client import Histogram

from gputopo.errors import GputopoError
from gputopo.patterns.model import Pattern
from gputopo.placement.model import PlacementRequest
from gputopo_scheduling.evaluation import AnyNodeState, NodeFit

_MOST_RESULTS: Final = 100_000
"""About 40 MB; 180 MB with the policy Utility only, whose results have about 1.8 kB each."""

EvaluateStates = Callable[[AbstractSet[AnyNodeState], PlacementRequest], dict[Hashable, NodeFit]]
_Results = dict[Hashable, NodeFit]


class TablesNotReadyError(GputopoError):
    """The tables are not built within the caller's time limit. A thread continues to build them."""


class EvaluationCache:
    """Stores results by request and node state; drops the least recently used requests first."""

    def __init__(
        self, evaluate: EvaluateStates, build_seconds: Histogram, *, timeout_seconds: float
    ) -> None:
        """Call ``evaluate`` in a thread, and record the time of each call in ``build_seconds``."""
        self._build_seconds = build_seconds
        self._timeout_seconds = timeout_seconds
        self._evaluate = evaluate
        self._kept: OrderedDict[PlacementRequest, _Results] = OrderedDict()
        # Requests with the same pattern share tables. The lock lets only the first request build
        # the tables.
        self._locks = WeakValueDictionary[Pattern, asyncio.Lock]()
        self._running: set[asyncio.Task[None]] = set()

    async def evaluate(
        self, states: AbstractSet[AnyNodeState], request: PlacementRequest
    ) -> Mapping[Hashable, NodeFit]:
        """Return the results of these states. The returned mapping may contain other states too.

        Raises:
            TablesNotReadyError: if the results are not ready within the time limit; a later call
                returns them.
        """
        results = self._results_of(request)
        if states <= results.keys():
            return results
        work = asyncio.create_task(self._complete(states, request, results))
        self._running.add(work)
        work.add_done_callback(self._running.discard)
        try:
            async with asyncio.timeout(self._timeout_seconds):
                await asyncio.shield(work)
        except TimeoutError:
            raise TablesNotReadyError(
                f"the nodes are still being evaluated for {request.pattern.kind} of "
                f"{request.size} GPUs: try again"
            ) from None
        return results

    async def prepare(self, states: AbstractSet[AnyNodeState], request: PlacementRequest) -> None:
        """Evaluate these states without a time limit."""
        await self._complete(states, request, self._results_of(request))

    def _results_of(self, request: PlacementRequest) -> _Results:
        results = self._kept.setdefault(request, {})
        self._kept.move_to_end(request)
        return results

    async def _complete(
        self, states: AbstractSet[AnyNodeState], request: PlacementRequest, results: _Results
    ) -> None:
        async with self._locks.setdefault(request.pattern, asyncio.Lock()):
            unknown = states - results.keys()
            if not unknown:
                return
            began = time.perf_counter()
            results.update(await asyncio.to_thread(self._evaluate, unknown, request))
            self._build_seconds.observe(time.perf_counter() - began)
        while sum(map(len, self._kept.values())) > _MOST_RESULTS:
            self._kept.popitem(last=False)

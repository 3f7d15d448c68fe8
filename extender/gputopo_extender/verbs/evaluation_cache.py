"""What nodes offer to pods of one request: worked out beside the event loop, and kept.

An answer depends on the node's state and the pod's shape alone, so a kept one is never wrong.
The first pod of a shape has tables built: milliseconds for 8 GPUs, seconds for some patterns
on 16. Meanwhile everybody else is served.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final
from weakref import WeakValueDictionary

from gputopo.errors import GputopoError
from gputopo.patterns.model import Pattern
from gputopo.placement.model import PlacementRequest
from gputopo_extender.verbs.evaluation import AnyNodeState, NodeFit

_MOST_ANSWERS: Final = 100_000
"""About 40 MB."""

WorkOut = Callable[[AbstractSet[AnyNodeState], PlacementRequest], dict[Hashable, NodeFit]]
_Kept = dict[Hashable, NodeFit]


class TablesNotReadyError(GputopoError):
    """Working the answers out takes longer than the caller may wait; it goes on."""


class EvaluationCache:
    """Evaluations by request and state; the shapes asked for last are kept."""

    def __init__(
        self,
        work_out: WorkOut,
        *,
        patience_seconds: float,
        on_worked_out: Callable[[float], None],
    ) -> None:
        """Call ``work_out`` in threads; ``on_worked_out`` hears of the seconds of each call."""
        self._work_out = work_out
        self._patience_seconds = patience_seconds
        self._on_worked_out = on_worked_out
        self._kept: OrderedDict[PlacementRequest, _Kept] = OrderedDict()
        # All shapes of a pattern share its tables: whoever is second finds them built.
        self._locks = WeakValueDictionary[Pattern, asyncio.Lock]()
        self._under_way: set[asyncio.Task[None]] = set()

    async def of(
        self, states: AbstractSet[AnyNodeState], request: PlacementRequest
    ) -> Mapping[Hashable, NodeFit]:
        """Return the answers of at least these states.

        Raises:
            TablesNotReadyError: where they are not there in time; asking again finds them later.
        """
        kept = self._kept_of(request)
        if states <= kept.keys():
            return kept
        work = asyncio.create_task(self._learn(states, request, kept))
        self._under_way.add(work)
        work.add_done_callback(self._under_way.discard)
        try:
            async with asyncio.timeout(self._patience_seconds):
                await asyncio.shield(work)
        except TimeoutError:
            raise TablesNotReadyError(
                f"the tables for {request.pattern.kind} of {request.size} GPUs "
                "are being built: try again"
            ) from None
        return kept

    async def prepare(self, states: AbstractSet[AnyNodeState], request: PlacementRequest) -> None:
        """Have the answers of these states worked out, however long it takes."""
        await self._learn(states, request, self._kept_of(request))

    def _kept_of(self, request: PlacementRequest) -> _Kept:
        kept = self._kept.setdefault(request, {})
        self._kept.move_to_end(request)
        return kept

    async def _learn(
        self, states: AbstractSet[AnyNodeState], request: PlacementRequest, kept: _Kept
    ) -> None:
        async with self._locks.setdefault(request.pattern, asyncio.Lock()):
            unknown = states - kept.keys()
            if not unknown:
                return
            began = time.perf_counter()
            kept.update(await asyncio.to_thread(self._work_out, unknown, request))
            self._on_worked_out(time.perf_counter() - began)
        while sum(map(len, self._kept.values())) > _MOST_ANSWERS:
            self._kept.popitem(last=False)

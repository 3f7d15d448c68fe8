"""Builds the tables of ring patterns before a pod needs them.

A background task builds tables at the start, and when a node with a new topology appears. Nearly
all jobs use rings. The tables of another pattern are built when the first pod uses that pattern.
"""

import asyncio
import logging
import time
from typing import Final

from gputopo.patterns.model import MAX_GPUS_PER_POD, PatternKind, build
from gputopo.placement.model import PlacementRequest, PolicyName
from gputopo.runtime.log import LogFields, fields
from gputopo.topology.model import NodeTopology
from gputopo_cluster.usage import NodeState
from gputopo_extender.state.ledger import Ledger
from gputopo_extender.verbs.evaluation_cache import EvaluationCache

_LOOK_EVERY_SECONDS: Final = 1.0

_log = logging.getLogger(__name__)


class TableWarmUp:
    """Builds placement tables in the background: first for 1 GPU, then for 2 GPUs, and so on."""

    def __init__(self, ledger: Ledger, cache: EvaluationCache, policy: PolicyName) -> None:
        """Fill ``cache`` for the topologies in ``ledger``; ``policy`` is the default policy."""
        self._ledger = ledger
        self._cache = cache
        self._policy = policy
        self._warm: set[str] = set()

    async def run(self) -> None:
        """Build the tables of each new topology until cancelled."""
        while True:
            for structure in self._cold():
                self._warm.add(structure.fingerprint)
                try:
                    await self._build(structure)
                except Exception:  # noqa: BLE001 - pods report the error too
                    _log.exception("warm-up failed %s", _name(structure))
            await asyncio.sleep(_LOOK_EVERY_SECONDS)

    def _cold(self) -> list[NodeTopology]:
        states = [it for it in set(self._ledger.states().values()) if isinstance(it, NodeState)]
        structures = {state.structure.fingerprint: state.structure for state in states}
        self._warm &= structures.keys()  # forget the topologies of nodes that are gone
        return [structures[each] for each in sorted(structures.keys() - self._warm)]

    async def _build(self, structure: NodeTopology) -> None:
        idle = NodeState(structure, structure.mask, structure.mask, unknown=0, blocked=None)
        began = time.perf_counter()
        sizes = min(len(structure.gpus), MAX_GPUS_PER_POD)
        for size in range(1, sizes + 1):
            ring = PlacementRequest(
                build(PatternKind.RING, size), sensitive=size > 1, policy=self._policy
            )
            await self._cache.prepare({idle}, ring)
            seconds = f"{time.perf_counter() - began:.3f}"
            _log.log(
                logging.INFO if size == sizes else logging.DEBUG,
                "tables of rings built %s %s",
                _name(structure),
                fields(up_to=size, of=sizes, seconds=seconds),
            )


def _name(structure: NodeTopology) -> LogFields:
    return fields(structure=structure.fingerprint, gpus=len(structure.gpus))

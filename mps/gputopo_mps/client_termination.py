"""Ends the work of clients on one GPU, before their processes are killed."""

import logging
from collections.abc import Set as AbstractSet

from gputopo.runtime.log import fields
from gputopo_mps.clients import Clients
from gputopo_mps.control import ControlError, ControlProgram, MpsClient
from gputopo_mps.metrics import MpsMetrics

_log = logging.getLogger(__name__)


class ClientTermination:
    """Terminates the clients of pods, each client once."""

    def __init__(self, control: ControlProgram, clients: Clients, metrics: MpsMetrics) -> None:
        self._control = control
        self._clients = clients
        self._metrics = metrics
        self._terminated: set[MpsClient] = set()

    async def terminate(self, pods: AbstractSet[str]) -> None:
        """Terminate the clients of these pods. A failure is logged and counted."""
        try:
            self._clients.update(await self._control.clients())
        except ControlError as error:
            self._record_failure(error)
            return
        listed = {each.client for each in self._clients.current}
        self._terminated &= listed
        for each in self._clients.current:
            if each.pod in pods and each.client not in self._terminated:
                await self._terminate(each.client)

    async def _terminate(self, client: MpsClient) -> None:
        try:
            await self._control.terminate(client)
        except ControlError as error:  # for example, the process has ended meanwhile
            self._record_failure(error)
            return
        self._terminated.add(client)
        self._metrics.count_terminated()

    def _record_failure(self, error: ControlError) -> None:
        self._metrics.count_failure("terminate")
        _log.warning("clients not terminated %s", fields(reason=error))

"""Keeps what the operator knows of all nodes, from one watch and one periodic list for all parts.

A GPUTopology has 25 kB, and so has a Node with many images. So no part reads these objects for each
decision. A part that must act after a change subscribes to the objects.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

import kopf

from gputopo.api.names import GROUP, VERSION
from gputopo.runtime.log import fields
from gputopo_cluster.topologies import GpuNode, UnreadableTopology
from gputopo_kube.document import Document
from gputopo_kube.errors import ApiError, DeniedError
from gputopo_kube.node_match import node_rules
from gputopo_operator.controller.job_api import JobApi
from gputopo_operator.controller.parsed_objects import ParsedObjects
from gputopo_operator.model.workloads import NO_REPORT, NodeReport
from gputopo_operator.parse.reports import parse_report

FIRST_READ_SECONDS: Final = 2.0
"""Time between two attempts to read all nodes at the start of the operator."""

MOST_DENIED: Final = 10
"""Rejections of a list of Nodes after which the operator works without them."""

_log = logging.getLogger(__name__)


class NodeStore:
    """The reports of GPUTopologies, and the labels and taints of Nodes. Any thread may read them.

    Attributes:
        reports: what the GPUTopology of each node reports.
        rules: name, labels and taints of each Node.
    """

    def __init__(self) -> None:
        self.reports = ParsedObjects[NodeReport](parse_report)
        self.rules = ParsedObjects[Document](node_rules)

    def report(self, node: str) -> NodeReport:
        """Return the newest report of a node; an empty one if there is none."""
        return self.reports.get(node) or NO_REPORT

    def gpus(self) -> dict[str, GpuNode | UnreadableTopology]:
        """Return the GPUs of all nodes with a GPUTopology."""
        return {name: each.gpus for name, each in self.reports.values().items()}

    def watch(self, registry: kopf.OperatorRegistry) -> None:
        """Register the watches of GPUTopologies and Nodes.

        kopf ends if it may not list what it watches. So Nodes are watched only if they were read.
        """

        @kopf.on.event(GROUP, VERSION, "gputopologies", registry=registry)
        async def topology_changed(event: kopf.RawEvent, **_: object) -> None:
            self.reports.follow(event)

        if self.rules.is_read:

            @kopf.on.event("", "v1", "nodes", registry=registry)
            async def node_changed(event: kopf.RawEvent, **_: object) -> None:
                self.rules.follow(event)

    async def read_first(self, api: JobApi, on_error: Callable[[], None]) -> None:
        """Read all nodes, until it succeeds. No part decides before, as if there were no nodes.

        An operator that may not list Nodes works without their labels and taints. An API server
        that has just started rejects requests too, so only several rejections count.
        """
        denied = 0
        while not (self.reports.is_read and (self.rules.is_read or denied >= MOST_DENIED)):
            try:
                if not self.reports.is_read:
                    await self.reports.read(api.topologies)
                await self.rules.read(api.nodes)
            except ApiError as error:
                denied += self.reports.is_read and isinstance(error, DeniedError)
                _log.warning("nodes not read, trying again %s", fields(reason=error))
                on_error()
                await asyncio.sleep(FIRST_READ_SECONDS)

    async def resync(self, api: JobApi, seconds: float, on_error: Callable[[], None]) -> None:
        """Read all nodes once every ``seconds`` until cancelled: a watch may lose an event."""
        while True:
            await asyncio.sleep(seconds)
            for read in (
                partial(self.reports.read, api.topologies),
                partial(self.rules.read, api.nodes),
            ):
                try:
                    await read()
                except ApiError as error:
                    _log.warning("nodes not read %s", fields(reason=error))
                    on_error()

"""Writes this node's GPUTopology: the spec when the hardware changed, the status when it did."""

import logging
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any, Protocol

from pydantic import ValidationError

from gputopo.api.topology import from_spec, to_spec
from gputopo.api.v1alpha1 import GPUTopologySpec, GPUTopologyStatus
from gputopo.runtime.log import fields
from gputopo.topology.model import NodeTopology, TopologyError
from gputopo_deviceplugin.gpus.hardware import NodeHardware
from gputopo_deviceplugin.report.status import Observed, Serving, status_of, withdrawn
from gputopo_deviceplugin.times import now
from gputopo_kube.document import Document
from gputopo_kube.errors import ApiError

_log = logging.getLogger(__name__)


class TopologyStore(Protocol):
    """Where the object is kept."""

    async def topology(self) -> Document | None:
        """Return the object, None where there is none."""
        ...

    async def create_topology(self, metadata: Document, spec: Document) -> Document:
        """Create and return it."""
        ...

    async def patch_topology(self, body: Document) -> Document:
        """Change spec or metadata and return it."""
        ...

    async def patch_topology_status(self, status: Document, version: str | None = None) -> Document:
        """Change the status, only of this version of the object where one is given; return it."""
        ...


class TopologyPublisher:
    """The published object, as far as this agent knows it."""

    def __init__(self, store: TopologyStore, clock: Callable[[], str] | None = None) -> None:
        """Write to ``store``; ``clock`` returns the time in RFC 3339."""
        self._store = store
        self._clock = clock or now
        self._object: Document | None = None

    async def load(self) -> NodeTopology | None:
        """Read the object anew and return the topology that it holds, None without any.

        Raises:
            ApiError: where it could not be read.
        """
        self._object = await self._store.topology()
        if self._object is None:
            return None
        try:
            return from_spec(GPUTopologySpec.model_validate(self._object.get("spec") or {}))
        except (ValidationError, TopologyError) as error:
            _log.warning("published topology unreadable, written anew %s", fields(reason=error))
            return None

    async def publish(
        self,
        owner: Document,
        hardware: NodeHardware,
        observed: Observed,
        serving: Serving,
        differing: Sequence[str],
    ) -> bool:
        """Make the object say this, with as few writes as that takes.

        A node that never had GPUs gets no object. Returns whether the status was written.

        Raises:
            ApiError: where a write failed; the next call settles it.
        """
        if hardware.topology is None:
            return False
        try:
            document = await self._written(owner, to_spec(hardware.topology))
            before = _status(document)
            after = status_of(
                hardware,
                observed,
                serving,
                differing,
                generation=int(document["metadata"].get("generation") or 0),
                before=before,
                now=self._clock(),
            )
            if after != before:
                document = await self._store.patch_topology_status(after.to_json())
            self._object = document
        except ApiError:
            self._object = None  # what is there now is not known
            raise
        return after != before

    async def withdraw(self) -> bool:
        """Say in the object that its agent ends; what else its status says stays.

        Where another agent of this node has written meanwhile, that one has the last word.
        Returns whether it was said: also a node without GPUs has nothing to say.

        Raises:
            ApiError: where it could not be written.
        """
        known = self._object if self._object is not None else await self._store.topology()
        if known is None:
            return False
        try:
            await self._withdraw(known)
        except ApiError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
            newer = await self._store.topology()
            if newer is None or newer.get("status") != known.get("status"):
                _log.info("another agent writes the topology already, left to it")
                return False
            await self._withdraw(newer)
        return True

    async def _withdraw(self, known: Document) -> None:
        conditions = withdrawn(_status(known), self._clock())
        told = [condition.to_json() for condition in conditions]
        version = known["metadata"].get("resourceVersion")
        await self._store.patch_topology_status({"conditions": told}, version)

    async def _written(self, owner: Document, spec: GPUTopologySpec) -> Document:
        """Return the object with this spec and owner."""
        wanted, owners = spec.to_json(), [_owner_reference(owner)]
        document = self._object if self._object is not None else await self._store.topology()
        if document is None:
            metadata = {"name": owner["metadata"]["name"], "ownerReferences": owners}
            return await self._store.create_topology(metadata, wanted)
        changes: dict[str, Any] = {}
        if _spec(document) != spec:
            changes["spec"] = wanted
        if document["metadata"].get("ownerReferences") != owners:
            changes["metadata"] = {"ownerReferences": owners}
        return await self._store.patch_topology(changes) if changes else document


def _owner_reference(node: Document) -> dict[str, str]:
    """The object goes when the Node goes; a Node of the same name made anew takes it over."""
    metadata = node["metadata"]
    return {"apiVersion": "v1", "kind": "Node", "name": metadata["name"], "uid": metadata["uid"]}


def _spec(document: Document) -> GPUTopologySpec | None:
    try:
        return GPUTopologySpec.model_validate(document.get("spec") or {})
    except ValidationError:
        return None


def _status(document: Document) -> GPUTopologyStatus:
    try:
        return GPUTopologyStatus.model_validate(document.get("status") or {})
    except ValidationError:
        return GPUTopologyStatus()

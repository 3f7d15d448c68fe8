"""Writes the spec and the status of this node's GPUTopology, each only when it has changed."""

import logging
from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final, Protocol

from pydantic import ValidationError

from gputopo.api.profile import NodeSample
from gputopo.api.topology import parse_spec, to_spec
from gputopo.api.v1alpha1 import GPUTopologySpec, GPUTopologyStatus
from gputopo.runtime.log import fields
from gputopo.runtime.times import utc_now
from gputopo.topology.model import NodeTopology, TopologyError
from gputopo_deviceplugin.report.status import NodeObservation, build_status, stopping_conditions
from gputopo_kube.document import Document
from gputopo_kube.errors import ApiError, RejectedError

_MEASURED: Final = ("measurements", "samples", "counters")
_INVALID: Final = (HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)

_log = logging.getLogger(__name__)


class TopologyStore(Protocol):
    """The requests to the API server about the GPUTopology. ``NodeApi`` implements them."""

    async def topology(self) -> Document | None:
        """Return the node's GPUTopology, or None if it does not exist."""
        ...

    async def create_topology(self, metadata: Document, spec: Document) -> Document:
        """Create the node's GPUTopology and return it."""
        ...

    async def patch_topology(self, body: Document) -> Document:
        """Change spec or metadata of the GPUTopology and return it."""
        ...

    async def patch_topology_status(self, status: Document, version: str | None = None) -> Document:
        """Change the status of the GPUTopology and return it. Fail if ``version`` is outdated."""
        ...


class TopologyPublisher:
    """Reads and writes this node's GPUTopology."""

    def __init__(self, store: TopologyStore, clock: Callable[[], str] | None = None) -> None:
        """Write to ``store``; ``clock`` returns the time in RFC 3339."""
        self._store = store
        self._clock = clock or utc_now
        self._object: Document | None = None
        self._loading_stopped = False
        self._unstored: frozenset[str] = frozenset()  # fields that the API server does not store

    def stores(self, field: str) -> bool:
        """Return whether the API server stores this field of the status.

        It does not if the CRDs are older than the agent. The result is true before the first write.
        """
        return field not in self._unstored

    def stop_loading(self) -> None:
        """Make ``load`` return None, so that this agent does not load what the next agent wrote."""
        self._loading_stopped = True

    async def load(self) -> NodeTopology | None:
        """Return the topology in the GPUTopology, or None if the object is missing or not valid.

        Raises:
            ApiError: the object could not be read.
        """
        found = await self._store.topology()
        if self._loading_stopped:
            return None
        self._object, self._unstored = found, frozenset()
        if found is None:
            return None
        try:
            return parse_spec(found.get("spec") or {})
        except (ValidationError, TopologyError) as error:
            _log.warning("published topology not valid, replacing it %s", fields(reason=error))
            return None

    async def publish(self, node: Document, observation: NodeObservation) -> bool:
        """Write the changed parts of the GPUTopology. Return whether the status was written.

        ``node`` becomes the owner of the GPUTopology. A node that never had GPUs has no
        GPUTopology.

        Raises:
            ApiError: a write failed; the next call reads the object again.
        """
        topology = observation.hardware.topology
        if topology is None:
            return False
        dropped: dict[str, Any] = dict.fromkeys(self._unstored)
        observation = replace(observation, **dropped)
        try:
            document = await self._publish_spec(node, to_spec(topology))
            before = _parse_status(document)
            after = build_status(
                observation,
                generation=int(document["metadata"].get("generation") or 0),
                before=before,
                now=self._clock(),
            )
            if after != before:
                document = await self._write_status(_replacing(before.to_json(), after.to_json()))
                self._unstored |= _unstored(after, _parse_status(document))
            self._object = document
        except ApiError:
            self._object = None  # its current state is unknown
            raise
        return after != before

    async def _write_status(self, status: Document) -> Document:
        """Write a status; if the API server rejects what was measured, write it without that.

        Rates and samples come from programs of users, so they may be invalid. The health of the
        GPUs must be published nevertheless.
        """
        try:
            return await self._store.patch_topology_status(status)
        except RejectedError as error:
            if error.status not in _INVALID:
                raise
            _log.error("rates, samples and counters not published %s", fields(reason=error))
            rest = {name: value for name, value in status.items() if name not in _MEASURED}
            return await self._store.patch_topology_status(rest)

    async def withdraw(self) -> bool:
        """Set ``Ready`` to false because the agent ends. Return whether the status was written.

        The method writes nothing on a node without GPUs. It also writes nothing if another agent of
        this node has written the status meanwhile.

        Raises:
            ApiError: the object could not be read or written.
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
                _log.info("agent ends without a report: the next agent has written the status")
                return False
            await self._withdraw(newer)
        return True

    async def _withdraw(self, known: Document) -> None:
        conditions = stopping_conditions(_parse_status(known), self._clock())
        values = [condition.to_json() for condition in conditions]
        version = known["metadata"].get("resourceVersion")
        await self._store.patch_topology_status({"conditions": values}, version)

    async def _publish_spec(self, node: Document, spec: GPUTopologySpec) -> Document:
        """Write spec and owner if they differ from the published ones; return the GPUTopology."""
        wanted, owners = spec.to_json(), [_owner_reference(node)]
        document = self._object if self._object is not None else await self._store.topology()
        if document is None:
            metadata = {"name": node["metadata"]["name"], "ownerReferences": owners}
            return await self._store.create_topology(metadata, wanted)
        changes: dict[str, Any] = {}
        if _parse_spec(document) != spec:
            changes["spec"] = wanted
        if document["metadata"].get("ownerReferences") != owners:
            changes["metadata"] = {"ownerReferences": owners}
        return await self._store.patch_topology(changes) if changes else document


def _owner_reference(node: Document) -> dict[str, str]:
    """Return an owner reference, so that Kubernetes deletes the GPUTopology with the Node."""
    metadata = node["metadata"]
    return {"apiVersion": "v1", "kind": "Node", "name": metadata["name"], "uid": metadata["uid"]}


def _parse_spec(document: Document) -> GPUTopologySpec | None:
    try:
        return GPUTopologySpec.model_validate(document.get("spec") or {})
    except ValidationError:
        return None


def _replacing(before: Document, after: Document) -> Document:
    """Return a merge patch with all of ``after``, which removes what else ``before`` has.

    Another client may have changed the status meanwhile, so equal fields are sent too.
    """
    removed = {name: None for name in before if name not in after}
    return removed | {
        name: _replacing(before.get(name) or {}, value) if isinstance(value, dict) else value
        for name, value in after.items()
    }


def _unstored(sent: GPUTopologyStatus, stored: GPUTopologyStatus) -> frozenset[str]:
    """Return the fields of ``NodeObservation`` that an older schema of the API server drops."""
    counted, uncounted = _uncounted(sent), _uncounted(stored)
    differing = {
        "measured": (sent.measurements, counted) != (stored.measurements, uncounted),
        "counted_samples": counted == uncounted and sent.samples != stored.samples,
        "counters": sent.counters != stored.counters,
        "sized_capacity": sent.sized_capacity != stored.sized_capacity,
        "alignment": sent.alignment != stored.alignment,
    }
    return frozenset(name for name, differs in differing.items() if differs)


def _uncounted(status: GPUTopologyStatus) -> list[NodeSample]:
    """Return the samples without what an older schema drops from them."""
    return [each.model_copy(update={"traffic": None, "load": None}) for each in status.samples]


def _parse_status(document: Document) -> GPUTopologyStatus:
    try:
        return GPUTopologyStatus.model_validate(document.get("status") or {})
    except ValidationError:
        return GPUTopologyStatus()

"""The operator's requests to the API server."""

import logging
import socket
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from itertools import islice
from typing import Final

from gputopo.api.names import API_VERSION, GROUP, JOB_LABEL, VERSION
from gputopo.errors import GputopoError
from gputopo.runtime.log import fields
from gputopo_kube.document import Document, ObjectKey, identity
from gputopo_kube.errors import ApiError, ConflictError, DeniedError, NotFoundError
from gputopo_kube.merge_patch import merge_patch
from gputopo_kube.sync import SyncApi
from gputopo_operator.model.jobs import ObjectEvent
from gputopo_operator.parse.jobs import has_ended, is_current

_GPUTOPO: Final = ("apis", GROUP, VERSION)
_JOBS: Final = ("apis", "batch", "v1")
_EVENTS: Final = ("apis", "events.k8s.io", "v1")
_PLURALS: Final = {
    "GPUJob": "gpujobs",
    "GPUProfile": "gpuprofiles",
    "GPUEnsemble": "gpuensembles",
}
_NOTE_BYTES: Final = 1024
"""Longest note of an event that the API server accepts, in bytes and not in characters."""

_EVENT_NAME_CHARACTERS: Final = 253 - len(".0123456789abcdef")
"""Longest part of an object's name in the name of an event, which has a dot and a hash too."""

_LARGE_PAGE_SIZE: Final = 50

_MOST_EVENTS: Final = 1000
"""Events of one Job that are read. The Job controller writes at most 25 in a row."""

MOST_PROFILES: Final = 1000
"""GPUProfiles of a namespace above which the operator creates none, by default."""

_log = logging.getLogger(__name__)


class ProfileLimitError(GputopoError):
    """A namespace has as many GPUProfiles as the operator may create."""


class JobApi:
    """Reads and writes GPUJobs, their Jobs and Pods, GPUProfiles and GPUTopologies.

    Any thread may call the methods. A method that reads one object returns None if the object does
    not exist. A method raises ``ApiError`` if its request fails. A method that writes raises
    ``ConflictError`` if another client has created, changed or deleted the object meanwhile.
    """

    def __init__(self, api: SyncApi, most_profiles: int = MOST_PROFILES) -> None:
        """Create GPUProfiles only in namespaces with less than ``most_profiles`` of them."""
        self._api = api
        self._most_profiles = most_profiles

    def gpu_job(self, key: ObjectKey) -> Document | None:
        """Return the GPUJob."""
        return self._api.find(*_objects(key, "gpujobs"), key.name)

    def job(self, key: ObjectKey) -> Document | None:
        """Return the batch/v1 Job with the name of the GPUJob."""
        return self._api.find(*_objects(key, "jobs", _JOBS), key.name)

    def profile(self, key: ObjectKey) -> Document | None:
        """Return the GPUProfile of this name."""
        return self._api.find(*_objects(key, "gpuprofiles"), key.name)

    def topology(self, node: str) -> Document | None:
        """Return the GPUTopology of a node."""
        return self._api.find(*_GPUTOPO, "gputopologies", node)

    def topologies(self) -> Iterator[Document]:
        """Yield the GPUTopologies of all nodes."""
        # A GPUTopology with all its samples has about 25 kB, parsed 150 kB.
        return self._api.each(*_GPUTOPO, "gputopologies", page_size=_LARGE_PAGE_SIZE)

    def nodes(self) -> Iterator[Document]:
        """Yield all Nodes."""
        return self._api.each("api", "v1", "nodes", page_size=_LARGE_PAGE_SIZE)

    def pods(self, key: ObjectKey) -> list[Document]:
        """Return the up-to-date list of the pods with the label of the GPUJob."""
        path = ("api", "v1", "namespaces", key.namespace, "pods")
        return self._api.list(*path, selector=f"{JOB_LABEL}={key.name}")

    def pods_of_controller(self, namespace: str, job_uid: str) -> list[Document]:
        """Return the pods that the Job controller counts as pods of a Job."""
        path = ("api", "v1", "namespaces", namespace, "pods")
        return self._api.list(*path, selector=f"batch.kubernetes.io/controller-uid={job_uid}")

    def failed_creates(self, namespace: str, job_uid: str) -> list[Document]:
        """Return the events that pods of a Job could not be created, at most 1,000 of them.

        The list is empty if the operator may not read events.
        """
        path = ("api", "v1", "namespaces", namespace, "events")
        selector = f"involvedObject.uid={job_uid},reason=FailedCreate"
        try:
            return [*islice(self._api.each(*path, fields=selector), _MOST_EVENTS)]
        except DeniedError as error:
            _log.warning("events not read %s", fields(namespace=namespace, reason=error))
            return []

    def gpu_jobs(self, namespace: str | None) -> dict[ObjectKey, bool]:
        """Return the GPUJobs in a namespace, or in all if ``namespace`` is None.

        The value is whether the job has ended and its status is up to date.
        """
        scope = () if namespace is None else ("namespaces", namespace)
        found = self._api.each(*_GPUTOPO, *scope, "gpujobs")
        return {ObjectKey.of(job): has_ended(job) and is_current(job) for job in found}

    def outdated_profiles(self, namespace: str | None) -> list[ObjectKey]:
        """Return the keys of the GPUProfiles whose status is older than their spec."""
        scope = () if namespace is None else ("namespaces", namespace)
        path = (*_GPUTOPO, *scope, "gpuprofiles")
        return [
            ObjectKey.of(profile)
            for profile in self._api.each(*path, page_size=_LARGE_PAGE_SIZE)
            if not is_current(profile)
        ]

    def create_job(self, key: ObjectKey, manifest: Document) -> None:
        """Create the child Job. The API server rejects unknown and duplicate fields."""
        path = _objects(key, "jobs", _JOBS)
        self._api.request("POST", path, manifest, {"fieldValidation": "Strict"})

    def patch_job(self, key: ObjectKey, patch: Document) -> None:
        """Change the child Job by a merge patch."""
        self._patch((*_objects(key, "jobs", _JOBS), key.name), patch)

    def patch_pod_metadata(self, key: ObjectKey, patch: Document) -> None:
        """Change annotations of a pod through ``pods/status``, which needs no right on ``pods``."""
        self._patch(("api", "v1", "namespaces", key.namespace, "pods", key.name, "status"), patch)

    def write_status(self, raw: Document, before: Document, after: Document) -> Document:
        """Change the status of an object that has not changed since it was read; return it.

        Args:
            raw: the object that was read.
            before: the fields of its status that this version of the operator knows.
            after: all fields of the new status.
        """
        change = merge_patch(before if raw.get("status") else {}, after)
        return self.patch_status(raw, identity(raw), change)

    def patch_status(self, raw: Document, preconditions: Document, change: Document) -> Document:
        """Change the status of a GPUJob, GPUProfile or GPUEnsemble by a merge patch; return it."""
        path = (*_objects(ObjectKey.of(raw), _PLURALS[raw["kind"]]), raw["metadata"]["name"])
        return self._patch((*path, "status"), {"metadata": preconditions, "status": change})

    def create_profile(self, key: ObjectKey) -> None:
        """Create an empty GPUProfile. Do nothing if a GPUProfile with this name exists.

        Raises:
            ProfileLimitError: the namespace has too many GPUProfiles already, also if this one
                was created meanwhile.
        """
        count = self._count_profiles(key)
        if count >= self._most_profiles:
            raise ProfileLimitError(
                f"namespace {key.namespace} has {count} GPUProfiles, and gputopo creates no more "
                f"than {self._most_profiles}: delete those that no workload uses, and let all runs "
                "of a program name the same GPUProfile"
            )
        metadata = {"name": key.name, "namespace": key.namespace}
        manifest = {"apiVersion": API_VERSION, "kind": "GPUProfile", "metadata": metadata}
        with suppress(ConflictError):
            self._api.request("POST", _objects(key, "gpuprofiles"), manifest)

    def _count_profiles(self, key: ObjectKey) -> int:
        """Return how many GPUProfiles the namespace has, by the metadata of a list of one."""
        page = self._api.get(*_objects(key, "gpuprofiles"), limit="1")
        return len(page["items"]) + int(page["metadata"].get("remainingItemCount") or 0)

    def create_event(
        self, regarding: Document, event: ObjectEvent, now: str, version: str | None = None
    ) -> None:
        """Create a Kubernetes Event on an object. A repeated call creates no second Event.

        The Event's name has a hash of ``version``, reason and note, so the API server rejects an
        Event that exists. The default of ``version`` is the resource version of the object. No
        decision reads Events, so a failure is only logged.
        """
        metadata = regarding["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        version = metadata["resourceVersion"] if version is None else version
        parts = (metadata["uid"], version, event.reason, event.note)
        digest = sha256("\0".join(parts).encode()).hexdigest()
        # A dot after a hyphen or a dot is not valid in a name.
        shortened = name[:_EVENT_NAME_CHARACTERS].rstrip("-.")
        manifest = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": f"{shortened}.{digest[:16]}", "namespace": namespace},
            "eventTime": now.removesuffix("Z") + ".000000Z",
            "reportingController": f"{GROUP}/operator",
            "reportingInstance": socket.gethostname(),
            "action": "Reconcile",
            "reason": event.reason,
            "note": event.note.encode()[:_NOTE_BYTES].decode(errors="ignore"),
            "type": event.type,
            "regarding": {
                "apiVersion": regarding["apiVersion"],
                "kind": regarding["kind"],
                "name": name,
                "namespace": namespace,
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
            },
        }
        path = (*_EVENTS, "namespaces", namespace, "events")
        try:
            self._api.request("POST", path, manifest)
        except ConflictError:
            return
        except ApiError as error:
            found = {"kind": regarding["kind"], "object": ObjectKey(namespace, name)}
            _log.warning("event not created %s", fields(event=event.reason, **found, reason=error))

    def _patch(self, path: tuple[str, ...], patch: Document) -> Document:
        try:
            return self._api.request("PATCH", path, patch)
        except NotFoundError as error:
            # The object of a patch was deleted since it was read. If the response to a POST is 404,
            # the kind or the namespace is missing, and a retry does not help.
            raise ConflictError(error.message, error.status) from None


def _objects(key: ObjectKey, plural: str, api: tuple[str, ...] = _GPUTOPO) -> tuple[str, ...]:
    return (*api, "namespaces", key.namespace, plural)

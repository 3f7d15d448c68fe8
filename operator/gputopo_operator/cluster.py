"""The reads and writes of the operator, on the official client.

Answers are taken raw: the client's typed models cost several times the time and memory, and
would refuse objects of a newer API server.
"""

import json
import secrets
import socket
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from gputopo.api.names import API_VERSION, GROUP, JOB_LABEL, VERSION
from gputopo_operator.model import Event, Key, Object, Refusal

_GPUJOBS: Final = (GROUP, VERSION, "gpujobs")
_PROFILES: Final = (GROUP, VERSION, "gpuprofiles")
_JOBS: Final = ("batch", "v1", "jobs")
_EVENTS: Final = ("events.k8s.io", "v1", "events")

_MERGE_PATCH: Final = "application/merge-patch+json"
_PAGE: Final = 500

_PERMANENT: Final = {
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
}


class JobRefusedError(Exception):
    """The API server does not take the child Job as it is."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class ConflictError(Exception):
    """An object changed, appeared or went away since it was read."""


class Cluster:
    """What the operator does at the API server. Methods may be called from any thread."""

    def __init__(self, api: client.ApiClient, timeout_s: float) -> None:
        # Any: raw answers are not what the signatures of the client say.
        self._objects: Any = client.CustomObjectsApi(api)
        self._core: Any = client.CoreV1Api(api)
        self._options: dict[str, Any] = {"_preload_content": False, "_request_timeout": timeout_s}

    def gpu_job(self, key: Key) -> Object | None:
        """Return the GPUJob, None where there is none."""
        return self._get(_GPUJOBS, key)

    def job(self, key: Key) -> Object | None:
        """Return the batch/v1 Job of this name."""
        return self._get(_JOBS, key)

    def profile(self, key: Key) -> Object | None:
        """Return the GPUProfile of this name."""
        return self._get(_PROFILES, key)

    def topology(self, node: str) -> Object | None:
        """Return the GPUTopology of a node."""
        get = self._objects.get_cluster_custom_object
        return _found(lambda: get(GROUP, VERSION, "gputopologies", node, **self._options))

    def pods(self, key: Key) -> list[Object]:
        """Return the pods that carry the GPUJob's label, straight from the store."""
        selector = f"{JOB_LABEL}={key.name}"
        answer = self._core.list_namespaced_pod(
            key.namespace, label_selector=selector, **self._options
        )
        pods: list[Object] = json.loads(answer.data)["items"]
        return pods

    def gpu_job_keys(self, namespace: str | None) -> list[Key]:
        """Return every GPUJob of a namespace, or of the cluster; read page by page."""
        keys: list[Key] = []
        token: str | None = ""
        while token is not None:
            page = self._gpu_job_page(namespace, token)
            metadatas = [item["metadata"] for item in page["items"]]
            keys += [Key(metadata["namespace"], metadata["name"]) for metadata in metadatas]
            token = page["metadata"].get("continue") or None
        return keys

    def create_job(self, key: Key, manifest: Object) -> None:
        """Create the child Job; unknown and doubled fields are errors.

        Raises:
            JobRefusedError: where the API server says that the Job is wrong or forbidden.
            ConflictError: where a Job of this name is there.
        """
        try:
            self._create(_JOBS, key, manifest, field_validation="Strict")
        except ApiException as error:
            if error.status in _PERMANENT or error.status == HTTPStatus.FORBIDDEN:
                permanent = error.status in _PERMANENT
                raise JobRefusedError(Refusal(_message(error), permanent)) from None
            raise

    def patch_job(self, key: Key, patch: Object) -> None:
        """Change the child Job.

        Raises:
            ConflictError: where it is not the one that was read any more.
        """
        patch_object = self._objects.patch_namespaced_custom_object
        _unless_changed(lambda: patch_object(*self._where(_JOBS, key), patch, **self._merge))

    def patch_status(self, key: Key, patch: Object) -> None:
        """Change the status of the GPUJob.

        Raises:
            ConflictError: where it is not the one that was read any more.
        """
        patch_status = self._objects.patch_namespaced_custom_object_status
        _unless_changed(lambda: patch_status(*self._where(_GPUJOBS, key), patch, **self._merge))

    def create_profile(self, key: Key) -> None:
        """Create an empty GPUProfile.

        Raises:
            ConflictError: where it is there.
        """
        manifest = {
            "apiVersion": API_VERSION,
            "kind": "GPUProfile",
            "metadata": {"name": key.name, "namespace": key.namespace},
            "spec": {},
        }
        self._create(_PROFILES, key, manifest)

    def create_event(self, gpu_job: Object, event: Event, now: str) -> None:
        """Tell something on a GPUJob."""
        metadata = gpu_job["metadata"]
        key = Key(metadata["namespace"], metadata["name"])
        manifest = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {
                "name": f"{key.name}.{secrets.token_hex(8)}",
                "namespace": key.namespace,
            },
            "eventTime": now.removesuffix("Z") + ".000000Z",
            "reportingController": f"{GROUP}/operator",
            "reportingInstance": socket.gethostname(),
            "action": "Reconcile",
            "reason": event.reason,
            "note": event.note,
            "type": event.type,
            "regarding": {
                "apiVersion": API_VERSION,
                "kind": "GPUJob",
                "name": key.name,
                "namespace": key.namespace,
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
            },
        }
        self._create(_EVENTS, key, manifest)

    @property
    def _merge(self) -> dict[str, Any]:
        return {**self._options, "_content_type": _MERGE_PATCH}

    def _where(self, kind: tuple[str, str, str], key: Key) -> tuple[str, str, str, str, str]:
        group, version, plural = kind
        return group, version, key.namespace, plural, key.name

    def _get(self, kind: tuple[str, str, str], key: Key) -> Object | None:
        get = self._objects.get_namespaced_custom_object
        return _found(lambda: get(*self._where(kind, key), **self._options))

    def _create(
        self, kind: tuple[str, str, str], key: Key, manifest: Object, **options: str
    ) -> None:
        group, version, plural = kind
        create = self._objects.create_namespaced_custom_object
        where = (group, version, key.namespace, plural)
        _unless_changed(lambda: create(*where, manifest, **options, **self._options))

    def _gpu_job_page(self, namespace: str | None, token: str) -> Object:
        options = {**self._options, "limit": _PAGE, "_continue": token}
        if namespace is None:
            answer = self._objects.list_cluster_custom_object(*_GPUJOBS, **options)
        else:
            group, version, plural = _GPUJOBS
            answer = self._objects.list_namespaced_custom_object(
                group, version, namespace, plural, **options
            )
        page: Object = json.loads(answer.data)
        return page


def _found(call: Callable[[], Any]) -> Object | None:
    try:
        answer = call()
    except ApiException as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return None
        raise
    document: Object = json.loads(answer.data)
    return document


def _unless_changed(call: Callable[[], Any]) -> None:
    try:
        call()
    except ApiException as error:
        if error.status in {HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND}:
            raise ConflictError(_message(error)) from None
        raise


def _message(error: ApiException) -> str:
    """Return what the API server said, without the headers that the client adds."""
    try:
        return str(json.loads(error.body or "")["message"])
    except (TypeError, ValueError, KeyError):
        return f"{error.status} {error.reason}"

"""The reads and writes of the operator, on the transport of the official client.

Only its ``ApiClient`` is used: credentials, TLS, connections. Its generated classes cost
70 MB and a second of CPU at start, and their typed models refuse objects of newer servers.
"""

import json
import socket
from contextlib import suppress
from hashlib import sha256
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from kubernetes import client
from urllib3.exceptions import HTTPError

from gputopo.api.names import API_VERSION, GROUP, JOB_LABEL, VERSION
from gputopo.errors import GputopoError
from gputopo_operator.model import Event, Key, Object, Refusal

_OURS: Final = f"/apis/{GROUP}/{VERSION}"
_PAGE: Final = 500
_NOTE_BYTES: Final = 1024
"""What the API server takes of an event's note; it counts bytes, not characters."""

_HTTP_OK: Final = range(200, 300)
_PERMANENT: Final = {
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
}


class ApiError(GputopoError):
    """An answer of the API server that is no success; status 0 where there was none."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message

    @property
    def rejected(self) -> bool:
        """Whether the server judged the request, so that an early retry gets the same answer."""
        return self.status == HTTPStatus.FORBIDDEN or self.status in _PERMANENT


class ConflictError(ApiError):
    """An object changed, appeared or went away since it was read."""


class JobRefusedError(GputopoError):
    """The API server does not take the child Job as it is."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class Cluster:
    """What the operator does at the API server. Methods may be called from any thread.

    Reads return None for what is not there. Every method raises ``ApiError`` where the
    server refuses or fails, ``ConflictError`` where what is written to is not what was read
    any more: patched meanwhile, gone, or made by somebody else.
    """

    def __init__(self, api: client.ApiClient, timeout_s: float) -> None:
        self._api = api
        self._timeout_s = timeout_s

    def gpu_job(self, key: Key) -> Object | None:
        """Return the GPUJob."""
        return self._read(_gpu_job_path(key))

    def job(self, key: Key) -> Object | None:
        """Return the batch/v1 Job of this name."""
        return self._read(f"{_jobs_path(key)}/{key.name}")

    def profile(self, key: Key) -> Object | None:
        """Return the GPUProfile of this name."""
        return self._read(f"{_profiles_path(key)}/{quote(key.name, safe='')}")

    def topology(self, node: str) -> Object | None:
        """Return the GPUTopology of a node."""
        return self._read(f"{_OURS}/gputopologies/{node}")

    def pods(self, key: Key) -> list[Object]:
        """Return the pods that carry the GPUJob's label, straight from the store."""
        path = f"/api/v1/namespaces/{key.namespace}/pods"
        answer = self._request("GET", path, query={"labelSelector": f"{JOB_LABEL}={key.name}"})
        pods: list[Object] = answer["items"]
        return pods

    def gpu_job_keys(self, namespace: str | None) -> list[Key]:
        """Return every GPUJob of a namespace, or of the cluster; read page by page."""
        scope = "" if namespace is None else f"/namespaces/{namespace}"
        keys: list[Key] = []
        query = {"limit": str(_PAGE)}
        while True:
            page = self._request("GET", f"{_OURS}{scope}/gpujobs", query=query)
            metadatas = [item["metadata"] for item in page["items"]]
            keys += [Key(metadata["namespace"], metadata["name"]) for metadata in metadatas]
            if not page["metadata"].get("continue"):
                return keys
            query["continue"] = page["metadata"]["continue"]

    def create_job(self, key: Key, manifest: Object) -> None:
        """Create the child Job; unknown and doubled fields are errors.

        Raises:
            JobRefusedError: where the API server says that the Job is wrong or forbidden.
        """
        query = {"fieldValidation": "Strict"}
        try:
            self._request("POST", _jobs_path(key), manifest, query=query)
        except ApiError as error:
            if error.rejected:
                permanent = error.status in _PERMANENT
                raise JobRefusedError(Refusal(error.message, permanent)) from None
            raise

    def patch_job(self, key: Key, patch: Object) -> None:
        """Change the child Job by a merge patch."""
        self._request("PATCH", f"{_jobs_path(key)}/{key.name}", patch)

    def patch_status(self, key: Key, patch: Object) -> None:
        """Change the status of the GPUJob by a merge patch."""
        self._request("PATCH", f"{_gpu_job_path(key)}/status", patch)

    def create_profile(self, key: Key) -> None:
        """Create an empty GPUProfile; one that another client has created meanwhile will do."""
        metadata = {"name": key.name, "namespace": key.namespace}
        manifest = {"apiVersion": API_VERSION, "kind": "GPUProfile", "metadata": metadata}
        with suppress(ConflictError):
            self._request("POST", _profiles_path(key), manifest)

    def create_event(self, gpu_job: Object, event: Event, now: str) -> None:
        """Create an event on a GPUJob, once for each version of the GPUJob.

        The name follows from the content: a repeated event is a conflict, which is ignored.
        """
        metadata = gpu_job["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        version = (metadata["uid"], metadata["resourceVersion"])
        digest = sha256("\0".join([*version, event.reason, event.note]).encode()).hexdigest()
        manifest = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": f"{name}.{digest[:16]}", "namespace": namespace},
            "eventTime": now.removesuffix("Z") + ".000000Z",
            "reportingController": f"{GROUP}/operator",
            "reportingInstance": socket.gethostname(),
            "action": "Reconcile",
            "reason": event.reason,
            "note": event.note.encode()[:_NOTE_BYTES].decode(errors="ignore"),
            "type": event.type,
            "regarding": {
                "apiVersion": API_VERSION,
                "kind": "GPUJob",
                "name": name,
                "namespace": namespace,
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
            },
        }
        path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
        with suppress(ConflictError):
            self._request("POST", path, manifest)

    def _read(self, path: str) -> Object | None:
        try:
            return self._request("GET", path)
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise

    def _request(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        query: dict[str, str] | None = None,
    ) -> Object:
        content = "application/merge-patch+json" if method == "PATCH" else "application/json"
        request = self._api.param_serialize(
            method,
            path,
            query_params=list((query or {}).items()),
            header_params={"Accept": "application/json", "Content-Type": content},
            body=body,
            auth_settings=["BearerToken"],
        )
        try:
            answer = self._api.call_api(*request, _request_timeout=self._timeout_s)
            document = _decoded(answer.read())  # type: ignore[no-untyped-call]
        except (HTTPError, client.ApiException) as error:
            raise ApiError(0, f"{method} {path}: no answer: {error}") from error
        if answer.status in _HTTP_OK:
            return document
        error_type = ApiError
        # A POST that finds nothing has no kind or namespace to go to: reading again cures nothing.
        gone = method == "PATCH" and answer.status == HTTPStatus.NOT_FOUND
        if answer.status == HTTPStatus.CONFLICT or gone:
            error_type = ConflictError
        raise error_type(answer.status, str(document.get("message", answer.reason)))


def _decoded(data: bytes) -> Object:
    """Return the object; what stands between may answer with other than JSON."""
    try:
        document: Object = json.loads(data)
    except ValueError:
        return {"message": data.decode(errors="replace")[:1000]}
    return document


def _gpu_job_path(key: Key) -> str:
    return f"{_OURS}/namespaces/{key.namespace}/gpujobs/{key.name}"


def _jobs_path(key: Key) -> str:
    return f"/apis/batch/v1/namespaces/{key.namespace}/jobs"


def _profiles_path(key: Key) -> str:
    return f"{_OURS}/namespaces/{key.namespace}/gpuprofiles"

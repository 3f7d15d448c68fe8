"""A client of the API server, fast enough for thousands of pods."""

import base64
import json
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx2
import yaml

from showcase.install import NAMESPACE

Object = dict[str, Any]
Value = TypeVar("Value")

OPERATOR = f"system:serviceaccount:{NAMESPACE}:gputopo-operator"

_PATIENCE_SECONDS = 60.0
# Thousands of objects are deleted in one request.
_COLLECTION_SECONDS = 70
# Short, because a watcher can only stop between two watches.
_WATCH_SECONDS = 5
_MERGE_PATCH = {"Content-Type": "application/merge-patch+json"}


class RejectedError(RuntimeError):
    """The API server responded with an error.

    Attributes:
        status: of HTTP.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class UnavailableError(RuntimeError):
    """No response from the API server, or it or etcd is not ready yet."""


class Client:
    """One client for any number of threads."""

    def __init__(self, kubeconfig: Path, *, user: str = "") -> None:
        """Connect as the only user of a kubeconfig, who has a certificate in it.

        Args:
            kubeconfig: of the cluster's administrator, as local cluster and kind write it.
            user: whose rights to use instead.
        """
        self._kubeconfig = kubeconfig
        config = yaml.safe_load(kubeconfig.read_text())
        [cluster], [administrator] = config["clusters"], config["users"]
        self._http = httpx2.Client(
            base_url=cluster["cluster"]["server"],
            verify=_trust(cluster["cluster"], administrator["user"]),
            trust_env=False,  # the addresses are this machine's own
            timeout=10,
            headers={"Impersonate-User": user} if user else {},
            limits=httpx2.Limits(max_connections=100, max_keepalive_connections=50),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def impersonating(self, user: str) -> "Client":
        """Another client, with the rights of a user."""
        return Client(self._kubeconfig, user=user)

    def get(self, path: str, **query: str) -> Object:
        """Return an object or a list."""
        return self._json("GET", path, params=query)

    def text(self, path: str, **query: str) -> str:
        """Return text that is not JSON, for example metrics."""
        return self._send("GET", path, params=query).text

    def create(self, path: str, manifest: Mapping[str, Any]) -> Object:
        """Create an object in a collection."""
        return self._json("POST", path, content=json.dumps(manifest))

    def patch(self, path: str, change: Mapping[str, Any]) -> Object:
        """Change parts of an object."""
        return self._json("PATCH", path, content=json.dumps(change), headers=_MERGE_PATCH)

    def patch_as_operator(self, path: str, change: Mapping[str, Any]) -> Object:
        """Change what an admission policy lets only the operator change."""
        headers = {**_MERGE_PATCH, "Impersonate-User": OPERATOR}
        return self._json("PATCH", path, content=json.dumps(change), headers=headers)

    def delete(self, path: str, **query: str) -> None:
        """Delete an object or a collection; a missing one is no error."""
        try:
            self._send(
                "DELETE",
                path,
                params={"propagationPolicy": "Background", **query},
                timeout=_COLLECTION_SECONDS,
            )
        except RejectedError as error:
            if error.status != httpx2.codes.NOT_FOUND:
                raise

    def watch(self, path: str, version: str, **more: str) -> Iterator[tuple[str, Object]]:
        """Yield the type and object of every change since a version, for some seconds.

        Args:
            path: of the collection.
            version: resource version of the list, or of the last change.
            more: further parameters, for example ``fieldSelector``.

        Raises:
            RejectedError: the version is too old.
            UnavailableError: the connection broke.
        """
        seconds = str(_WATCH_SECONDS)
        query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": seconds, **more}
        timeout = httpx2.Timeout(10, read=2 * _WATCH_SECONDS)
        try:
            with self._http.stream("GET", path, params=query, timeout=timeout) as response:
                _check(response, "watch")
                for line in response.iter_lines():
                    change = json.loads(line)
                    if change["type"] == "ERROR":
                        raise RejectedError(change["object"].get("code", 0), line)
                    yield change["type"], change["object"]
        except (httpx2.TransportError, json.JSONDecodeError) as error:  # cut off within a line
            raise UnavailableError(str(error)) from error

    def _json(self, method: str, path: str, **request: Any) -> Object:  # noqa: ANN401 - as httpx2 takes it
        found: Object = self._send(method, path, **request).json()
        return found

    def _send(self, method: str, path: str, **request: Any) -> httpx2.Response:  # noqa: ANN401
        try:
            response = self._http.request(method, path, **request)
        except httpx2.TransportError as error:
            raise UnavailableError(f"{method} {path}: {error}") from error
        _check(response, f"{method} {path}")
        return response


def _trust(cluster: Mapping[str, str], user: Mapping[str, str]) -> ssl.SSLContext:
    """TLS with the certificates of a kubeconfig's cluster and user."""
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=authority)
    with tempfile.NamedTemporaryFile() as chain:  # the ssl module reads keys from files only
        for part in ("client-certificate-data", "client-key-data"):
            chain.write(base64.b64decode(user[part]))
        chain.flush()
        context.load_cert_chain(chain.name)
    return context


def patient(call: Callable[[], Value]) -> Value:
    """Repeat a request while the API server does not respond.

    Raises:
        UnavailableError: no response for a minute.
    """
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return call()
        except UnavailableError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def create_patiently(client: Client, path: str, manifest: Mapping[str, Any]) -> Object:
    """Create an object; repeat the request while the API server does not respond.

    The API server may have created the object without a response. Then the object is returned.

    Raises:
        RejectedError: also if the object existed before.
        UnavailableError: no response for a minute.
    """
    attempts = 0

    def create() -> Object:
        nonlocal attempts
        attempts += 1
        try:
            return client.create(path, manifest)
        except RejectedError as error:
            if error.status != httpx2.codes.CONFLICT or attempts == 1:
                raise
            return client.get(f"{path}/{manifest['metadata']['name']}")

    return patient(create)


def _check(response: httpx2.Response, what: str) -> None:
    """Raise ``UnavailableError`` if a retry may succeed, otherwise ``RejectedError``."""
    if response.is_success:
        return
    text = f"{what}: {response.read().decode(errors='replace').strip()[:400]}"
    if response.is_server_error or response.status_code == httpx2.codes.TOO_MANY_REQUESTS:
        raise UnavailableError(text)
    raise RejectedError(response.status_code, text)

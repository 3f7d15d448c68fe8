"""Connects to the API server with the kubeconfig, as kubectl does, or as a pod's service account.

This module uses the official Python client of Kubernetes. Unlike lightkube, that client supports
all versions of exec plugins, and several files in ``KUBECONFIG``. Users often need these features.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kubernetes import client
from kubernetes.client import ApiException
from kubernetes.config import (
    ConfigException,
    list_kube_config_contexts,
    load_incluster_config,
    load_kube_config,
)
from urllib3.exceptions import HTTPError

from gputopo_kube.blocking_http import HttpRequest, HttpResponse, OpenStream, Send
from gputopo_kube.errors import CredentialsError, UnavailableError
from gputopo_kube.sync import SyncApi

_TIMEOUT_SECONDS: Final = 10.0
_DEFAULT_FILE: Final = "~/.kube/config"
_SILENCE_SECONDS: Final = 330.0
"""A watch without a byte for this time is lost. The API server ends watches before."""


@dataclass(frozen=True, slots=True)
class Connection:
    """A connection to an API server; any thread may use it.

    Attributes:
        server: URL of the API server.
        context: name of the kubeconfig's context; None for a service account.
    """

    server: str
    context: str | None
    send: Send
    open_stream: OpenStream

    @property
    def api(self) -> SyncApi:
        """Sends single requests."""
        return SyncApi(self.send, self.server)


@contextmanager
def connected(context: str | None = None) -> Iterator[SyncApi]:
    """Connect to the API server that the kubeconfig names.

    Args:
        context: name of a context; None selects the current context.

    Raises:
        CredentialsError: if the kubeconfig cannot be used.
    """
    with connection(context) as found:
        yield found.api


@contextmanager
def connection(
    context: str | None = None, *, service_account: bool = False, parallel: int = 4
) -> Iterator[Connection]:
    """Connect with the kubeconfig, or with the service account of the pod.

    Args:
        context: name of a context of the kubeconfig; None selects the current context.
        service_account: use the service account, and no kubeconfig.
        parallel: how many connections are kept for further requests.

    Raises:
        CredentialsError: if the kubeconfig or the service account cannot be used.
    """
    configuration: Any = client.Configuration()
    configuration.retries = False
    configuration.connection_pool_maxsize = parallel
    if service_account:
        _load_service_account(configuration)
    else:
        context = _load_kubeconfig(configuration, context)
    if (renew := configuration.refresh_api_key_hook) is not None:
        configuration.refresh_api_key_hook = one_at_a_time(renew, threading.Lock())
    with client.ApiClient(configuration) as opened:
        host = configuration.host
        yield Connection(
            host,
            None if service_account else context,
            lambda request: _send(opened, host, request),
            lambda request: _open(opened, host, request),
        )


def _load_service_account(configuration: Any) -> None:  # noqa: ANN401 - untyped
    load: Any = load_incluster_config
    try:
        load(client_configuration=configuration)
    except (ConfigException, OSError) as error:
        reason = _first_line(error).rstrip(".")
        raise CredentialsError(
            f"service account: {reason}; run this in a pod with a service account"
        ) from None


def _load_kubeconfig(configuration: Any, context: str | None) -> str | None:  # noqa: ANN401 - untyped
    """Load the kubeconfig and return the name of the context."""
    load: Any = load_kube_config
    # The official client reads this variable only once, at its import.
    file = os.environ.get("KUBECONFIG") or None
    _require_a_file(file or _DEFAULT_FILE)
    try:
        load(config_file=file, context=context, client_configuration=configuration)
    except (ConfigException, OSError) as error:
        names = _list_contexts(file)
        if names and context is not None and context not in names:
            raise CredentialsError(
                f"kubeconfig: has no context {context!r}, but {', '.join(map(repr, names))}"
            ) from None
        raise CredentialsError(f"kubeconfig: {_first_line(error)}") from None
    except Exception as error:  # noqa: BLE001 - raised for YAML that is not a kubeconfig, of any type
        raise CredentialsError(
            f"kubeconfig: {file or _DEFAULT_FILE} is not valid: {_first_line(error)}"
        ) from None
    if context is None:
        with suppress(ConfigException, OSError, KeyError, TypeError):
            list_contexts: Any = list_kube_config_contexts
            return str(list_contexts(config_file=file)[1]["name"])
    return context


def _list_contexts(file: str | None) -> list[str]:
    """Return the names of all contexts; none if the kubeconfig is not valid."""
    list_contexts: Any = list_kube_config_contexts
    with suppress(ConfigException, OSError, KeyError, TypeError):
        return [str(each["name"]) for each in list_contexts(config_file=file)[0]]
    return []


def _require_a_file(names: str) -> None:
    """Reject a list of kubeconfigs, separated as in ``PATH``, of which none exists."""
    if not any(Path(name).expanduser().exists() for name in names.split(os.pathsep) if name):
        raise CredentialsError(
            f"kubeconfig: {names} not found; set KUBECONFIG to the kubeconfig of a cluster"
        )


def one_at_a_time(refresh: Callable[[Any], None], lock: threading.Lock) -> Callable[[Any], None]:
    """Return a function that renews credentials in one thread at a time.

    The official client renews expired credentials in each thread that sends a request. Then some
    exec plugins open the browser once for each thread.

    Raises (the returned function):
        UnavailableError: if the credentials cannot be renewed.
    """

    def renew(configuration: Any) -> None:  # noqa: ANN401 - untyped
        with lock:
            try:
                refresh(configuration)
            except Exception as error:  # noqa: BLE001 - providers raise errors of any type
                raise UnavailableError(f"credentials: {_first_line(error)}") from None

    return renew


def _serialized(connection: Any, request: HttpRequest) -> Any:  # noqa: ANN401 - untyped
    return connection.param_serialize(
        request.method,
        request.path,
        query_params=list(request.query.items()),
        header_params=request.headers,
        body=request.body,
        auth_settings=["BearerToken"],
    )


def _call(connection: Any, host: str, request: HttpRequest, timeout: object) -> Any:  # noqa: ANN401
    try:
        serialized = _serialized(connection, request)
        return connection.call_api(*serialized, _request_timeout=timeout)
    except ApiException as error:  # raised for TLS errors
        raise UnavailableError(f"{host}: {error.reason}") from None
    except (HTTPError, OSError) as error:
        raise UnavailableError(f"{host}: {_first_line(error)}") from None


def _send(connection: Any, host: str, request: HttpRequest) -> HttpResponse:  # noqa: ANN401
    response = _call(connection, host, request, _TIMEOUT_SECONDS)
    try:
        return HttpResponse(response.status, response.reason, response.response.data)
    except (HTTPError, OSError) as error:
        raise UnavailableError(f"{host}: {_first_line(error)}") from None


def _open(connection: Any, host: str, request: HttpRequest) -> "_Stream":  # noqa: ANN401
    response = _call(connection, host, request, _TIMEOUT_SECONDS)
    # The headers arrive at once, but the time limit of the body is longer.
    if (opened := response.response.connection) is not None and opened.sock is not None:
        opened.sock.settimeout(_SILENCE_SECONDS)
    return _Stream(response.status, response.reason or "", host, response.response)


@dataclass(slots=True)
class _Stream:
    """A response of urllib3 whose body arrives in parts."""

    status: int
    reason: str
    host: str
    response: Any

    def parts(self) -> Iterator[bytes]:
        try:
            yield from self.response.stream(amt=None, decode_content=True)
        except (HTTPError, OSError, ValueError) as error:
            # ValueError: another thread has closed the response.
            raise UnavailableError(f"{self.host}: {_first_line(error)}") from None

    def close(self) -> None:
        # shutdown ends a read that another thread waits for; close would wait for that read.
        with suppress(HTTPError, OSError, ValueError, RuntimeError, AttributeError):
            self.response.shutdown()
        with suppress(HTTPError, OSError, ValueError):
            self.response.close()


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]

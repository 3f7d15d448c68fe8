"""Connects the command line to the API server with the kubeconfig, as kubectl does.

This module uses the official Python client of Kubernetes. Unlike lightkube, that client supports
all versions of exec plugins, and several files in ``KUBECONFIG``. Users often need these features.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from kubernetes import client
from kubernetes.client import ApiException
from kubernetes.config import ConfigException, load_kube_config
from urllib3.exceptions import HTTPError

from gputopo_kube.blocking_http import HttpRequest, HttpResponse
from gputopo_kube.errors import CredentialsError, UnavailableError
from gputopo_kube.sync import SyncApi

_TIMEOUT_SECONDS: Final = 10.0


@contextmanager
def connected(context: str | None = None) -> Iterator[SyncApi]:
    """Connect to the API server that the kubeconfig names.

    Args:
        context: name of a context; None selects the current context.

    Raises:
        CredentialsError: if the kubeconfig cannot be used.
    """
    configuration = client.Configuration()
    configuration.retries = False
    load: Any = load_kube_config
    # The official client reads this variable only once, at its import.
    file = os.environ.get("KUBECONFIG")
    try:
        load(config_file=file, context=context, client_configuration=configuration)
    except (ConfigException, OSError) as error:
        raise CredentialsError(f"kubeconfig: {_first_line(error)}") from None
    with client.ApiClient(configuration) as connection:
        host = configuration.host
        yield SyncApi(lambda request: _send(connection, host, request), host)


def _send(connection: Any, host: str, request: HttpRequest) -> HttpResponse:  # noqa: ANN401 - untyped
    serialized = connection.param_serialize(
        request.method,
        request.path,
        query_params=list(request.query.items()),
        header_params=request.headers,
        body=request.body,
        auth_settings=["BearerToken"],
    )
    try:
        response = connection.call_api(*serialized, _request_timeout=_TIMEOUT_SECONDS)
        return HttpResponse(response.status, response.reason, response.response.data)
    except ApiException as error:  # raised for TLS errors
        raise UnavailableError(f"{host}: {error.reason}") from None
    except (HTTPError, OSError) as error:
        raise UnavailableError(f"{host}: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]

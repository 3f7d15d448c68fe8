"""Reading objects of a cluster as they are on the wire; nothing is ever written."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from gputopo_cli.shared.errors import InputError

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

Document = dict[str, Any]

FORBIDDEN: Final = 403
NOT_FOUND: Final = 404
_OK: Final = 200
_TIMEOUT_SECONDS: Final = 10
_PAGE: Final = 500


class UnreachableError(InputError):
    """The API server does not answer, or not as one."""


class RefusedError(InputError):
    """The API server answers no; ``status`` is HTTP's."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(said)
        self.status = status


@dataclass(frozen=True, slots=True)
class Reader:
    """One connection to an API server at ``host``."""

    connection: "ApiClient"
    host: str

    def get(self, *path: str, **query: str) -> Document:
        """Return what lies at a path, given by its parts.

        Raises:
            RefusedError: where the server says no.
            UnreachableError: where it says nothing, or no JSON object.
        """
        from kubernetes.client import ApiException
        from urllib3.exceptions import HTTPError

        request = self.connection.param_serialize(
            "GET",
            "/" + "/".join(quote(part, safe="") for part in path),
            query_params=list(query.items()),
            header_params={"Accept": "application/json"},
            auth_settings=["BearerToken"],
        )
        try:
            answer = self.connection.call_api(*request, _request_timeout=_TIMEOUT_SECONDS)
            body: bytes = answer.response.data
        except ApiException as error:  # what the client makes of TLS that fails
            raise UnreachableError(f"cluster: {self.host} {error.reason}") from None
        except (HTTPError, OSError) as error:
            raise UnreachableError(f"cluster: {self.host} {_first_line(error)}") from None
        document = _decoded(body)
        if answer.status != _OK:
            said = (document or {}).get("message")
            raise RefusedError(
                answer.status, said or f"the cluster answered {answer.status} {answer.reason}"
            )
        if document is None:
            raise UnreachableError(f"cluster: {self.host} does not answer as an API server does")
        return document

    def list(self, *path: str, selector: str = "") -> list[Document]:
        """Return the objects of a list, which is read in pages.

        Raises:
            RefusedError: where the server says no.
            UnreachableError: where it says nothing, or no list.
        """
        query = {"limit": str(_PAGE), **({"labelSelector": selector} if selector else {})}
        found: list[Document] = []
        while True:
            page = self.get(*path, **query)
            found += page.get("items") or ()
            following = (page.get("metadata") or {}).get("continue")
            if not following:
                return found
            query["continue"] = following


@contextmanager
def connected(context: str | None = None) -> Iterator[Reader]:
    """Connect to the cluster of the kubeconfig.

    Args:
        context: of the kubeconfig; its current one if None.

    Raises:
        InputError: where the kubeconfig is no good.
    """
    from kubernetes import client
    from kubernetes.config import ConfigException, load_kube_config

    configuration = client.Configuration()
    configuration.retries = False
    load: Any = load_kube_config
    # The client looks at the environment only when it is first imported.
    file = os.environ.get("KUBECONFIG")
    try:
        load(config_file=file, context=context, client_configuration=configuration)
    except (ConfigException, OSError) as error:
        raise InputError(f"kubeconfig: {_first_line(error)}") from None
    with client.ApiClient(configuration) as connection:
        yield Reader(connection, configuration.host)


def _decoded(body: bytes) -> Document | None:
    try:
        document = json.loads(body)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]

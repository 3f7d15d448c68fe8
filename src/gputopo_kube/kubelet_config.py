"""Reads the configuration of a kubelet from the kubelet itself, with the token of the pod.

The API server can forward such a request, but requires ``nodes/proxy`` for it. This permission lets
its owner run commands in every pod of the node. The kubelet requires only ``nodes/configz``, since
Kubernetes 1.33.
"""

import asyncio
import json
import ssl
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import httpx2

from gputopo.errors import GputopoError
from gputopo.runtime.messages import quoted
from gputopo_kube.document import Document

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where kubelet mounts the token of the pod, and the certificate of the cluster's CA."""

_MAX_BYTES: Final = 2**20
"""A configuration has some 10 KB. The limit protects the memory of the caller."""

_HINTS: Final[dict[int, str]] = {
    HTTPStatus.UNAUTHORIZED: "kubelet does not accept tokens of service accounts",
    HTTPStatus.FORBIDDEN: "the service account needs get on nodes/configz, and kubelet 1.33",
}


class KubeletConfigError(GputopoError):
    """The configuration of a kubelet could not be read; the message says why."""


@dataclass(frozen=True, slots=True)
class KubeletCredentials:
    """How to verify a kubelet, and how to identify to it.

    Attributes:
        token_file: token of a service account; read for each request, because it is rotated.
        ca_file: certificates that may have signed the kubelet's certificate. None accepts any
            certificate. Then a program with the address of the kubelet can get the token.
    """

    token_file: Path
    ca_file: Path | None


def kubelet_endpoint(node: Document) -> str:
    """Return ``HOST:PORT`` of the kubelet of a Node.

    Raises:
        KubeletConfigError: the Node does not have it yet; the message names the missing field.
    """
    status = node.get("status") or {}
    port = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port")
    if not port:
        raise KubeletConfigError("no status.daemonEndpoints.kubeletEndpoint.Port")
    for address in status.get("addresses") or ():
        if address.get("type") == "InternalIP":
            host = address["address"]
            return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    raise KubeletConfigError("no InternalIP in status.addresses")


async def read_kubelet_config(
    endpoint: str, credentials: KubeletCredentials, *, timeout_seconds: float
) -> dict[str, Any]:
    """Return the fields of ``KubeletConfiguration`` of the kubelet at ``HOST:PORT``.

    Raises:
        KubeletConfigError: there is no response, or it is not a configuration.
    """
    url = f"https://{endpoint}/configz"
    try:
        # If this limit ended a TLS handshake, the transport would stay open. So each step has a
        # limit of its own, and this one ends only a response that arrives too slowly.
        async with asyncio.timeout(2 * timeout_seconds):
            body = await _read(url, credentials, timeout_seconds)
        config = json.loads(body)["kubeletconfig"]
    except (TimeoutError, httpx2.TimeoutException):
        raise KubeletConfigError(f"{url}: no response within {timeout_seconds:g} s") from None
    except httpx2.HTTPError as error:
        reason = str(error) or type(error).__name__
        raise KubeletConfigError(f"{url}: {reason}") from error
    except OSError as error:  # a file of the credentials
        raise KubeletConfigError(str(error)) from error
    except (ValueError, KeyError, TypeError, RecursionError):
        raise KubeletConfigError(f"{url}: the response is not a kubelet's configuration") from None
    if not isinstance(config, dict):
        raise KubeletConfigError(f"{url}: kubeletconfig: {quoted(config)} is not an object")
    return config


async def _read(url: str, credentials: KubeletCredentials, timeout_seconds: float) -> bytes:
    token = credentials.token_file.read_text().strip()
    headers = {"Authorization": f"Bearer {token}", "Accept-Encoding": "identity"}
    body = bytearray()
    async with (
        # No proxy and no redirect, so that only the kubelet gets the token.
        httpx2.AsyncClient(
            verify=_tls(credentials.ca_file),
            timeout=timeout_seconds,
            trust_env=False,
            follow_redirects=False,
        ) as client,
        client.stream("GET", url, headers=headers) as response,
    ):
        if (status := response.status_code) != HTTPStatus.OK:
            hint = _HINTS.get(status)
            raise KubeletConfigError(f"{url}: status {status}" + (f": {hint}" if hint else ""))
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > _MAX_BYTES:
                raise KubeletConfigError(f"{url}: more than {_MAX_BYTES} bytes")
    return bytes(body)


def _tls(ca_file: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca_file)
    if ca_file is None:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context

"""Connects the operator to the API server: in pods by service account, else by kubeconfig."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import httpx2
import yaml
from lightkube import KubeConfig
from lightkube.config.client_adapter import Client, ConnectionParams
from lightkube.config.kubeconfig import SingleConfig
from lightkube.config.models import User
from lightkube.core.exceptions import ConfigError

from gputopo_kube.errors import CredentialsError
from gputopo_kube.lightkube_sender import LightkubeSender
from gputopo_kube.sync import SyncApi


@contextmanager
def connected(timeout_seconds: float, user_agent: str) -> Iterator[SyncApi]:
    """Connect to the API server; any thread may use the connection.

    If the API server rejects the service account's token, the client reads the token file again.

    Raises:
        CredentialsError: if there are no usable credentials.
    """
    timeout = httpx2.Timeout(timeout_seconds)
    with Client(_load()[0], ConnectionParams(timeout=timeout)) as client:
        client.headers["User-Agent"] = user_agent
        yield SyncApi(LightkubeSender(client), str(client.base_url))


def connection_fields() -> dict[str, Any]:
    """Return the current address and credentials as fields of ``kopf.ConnectionInfo``.

    Raises:
        CredentialsError: if there are no usable credentials.
    """
    config, user = _load()
    cluster = config.cluster
    token = user.token
    if token is None and user.token_file is not None:
        token = Path(config.abs_file(user.token_file)).read_text(encoding="utf-8").strip()
    return {
        "server": cluster.server,
        "insecure": cluster.insecure,
        "username": user.username,
        "password": user.password,
        "token": token,
        **_file_or_data(config, "ca", cluster.certificate_auth, cluster.certificate_auth_data),
        **_file_or_data(config, "certificate", user.client_cert, user.client_cert_data),
        **_file_or_data(config, "private_key", user.client_key, user.client_key_data),
    }


def _file_or_data(
    config: SingleConfig, field: str, path: str | None, data: str | None
) -> dict[str, Any]:
    """Return ``data`` if it is not None, else the file path: kopf accepts only one of them."""
    if data is not None or path is None:
        return {f"{field}_data": data}
    return {f"{field}_path": config.abs_file(path)}


def _load() -> tuple[SingleConfig, User]:
    try:
        config = cast("SingleConfig", KubeConfig.from_env().get())
    except (ConfigError, OSError, KeyError, yaml.YAMLError) as error:
        raise CredentialsError(f"kubeconfig: {error}") from None
    user = config.user
    if user is None:
        raise CredentialsError(f"kubeconfig: context {config.context_name} has no user")
    if user.exec or user.auth_provider:
        raise CredentialsError(
            f"kubeconfig: user {config.context.user} has an exec plugin or an auth provider: "
            "use a user with a token or a certificate"
        )
    return config, user

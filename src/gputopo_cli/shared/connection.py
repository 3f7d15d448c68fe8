"""Connect to the API server of a cluster."""

from collections.abc import Iterator
from contextlib import contextmanager

from gputopo_cli.shared.errors import InputError
from gputopo_kube.errors import ApiError, CredentialsError
from gputopo_kube.sync import SyncApi


@contextmanager
def connect(context: str | None = None) -> Iterator[SyncApi]:
    """Connect to the cluster of a kubeconfig context. None selects the current context.

    Raises:
        InputError: if the kubeconfig cannot be used, or a request fails.
    """
    from gputopo_kube.kubeconfig import connected

    try:
        with connected(context) as api:
            yield api
    except (ApiError, CredentialsError) as error:
        raise InputError(str(error)) from None

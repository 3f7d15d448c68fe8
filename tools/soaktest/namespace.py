"""The namespace of a run; it is deleted with all its objects."""

from showcase.kubectl import wait_for
from soaktest.client import Client, RejectedError, UnavailableError

_NAMESPACES = "/api/v1/namespaces"


def create(client: Client, name: str) -> None:
    """Create it again, and wait until pods can be created in it."""
    remove(client, name)
    client.create(_NAMESPACES, {"metadata": {"name": name}})
    account = f"{_NAMESPACES}/{name}/serviceaccounts/default"
    wait_for("the namespace's service account", lambda: exists(client, account))


def remove(client: Client, name: str, *, timeout_s: float = 180) -> None:
    """Delete it with all objects of the run, and wait until it is gone."""

    def gone() -> bool:
        try:
            client.delete(f"{_NAMESPACES}/{name}")
        except (UnavailableError, RejectedError):
            return False
        return not exists(client, f"{_NAMESPACES}/{name}")

    wait_for(f"namespace {name} is gone", gone, timeout_s=timeout_s, interval_s=1)


def exists(client: Client, path: str) -> bool:
    """Return whether an object exists at this path; False while the server does not respond."""
    try:
        client.get(path)
    except (UnavailableError, RejectedError):
        return False
    return True

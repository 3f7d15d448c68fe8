"""The requests of this tool to the Kubernetes API server."""

import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from localcluster import settings
from localcluster.errors import ClusterError
from localcluster.settings import Paths


@dataclass(frozen=True, slots=True)
class NodeSummary:
    """State of a node for `status`."""

    name: str
    ready: bool
    resources: dict[str, str]


def by_name(summaries: Sequence[NodeSummary]) -> dict[str, dict[str, Any]]:
    """The nodes for JSON."""
    return {each.name: {"ready": each.ready, "resources": each.resources} for each in summaries}


class ApiClient:
    """Reads with the administrator's certificate."""

    def __init__(self, paths: Paths) -> None:
        context = ssl.create_default_context(cafile=str(paths.pki / "ca.crt"))
        context.load_cert_chain(paths.pki / "admin.crt", paths.pki / "admin.key")
        # The addresses are this machine's own: a proxy from the environment has no part in it.
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )

    def get(self, path: str) -> bytes | None:
        """Body of a successful response; None without one."""
        try:
            with self._opener.open(settings.API_SERVER + path, timeout=5) as response:
                body: bytes = response.read()
                return body
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            return None

    def is_ready(self) -> bool:
        """Whether the API server serves, its start-up hooks included."""
        return self.get("/readyz") is not None

    def nodes(self) -> list[NodeSummary]:
        """The nodes that have registered."""
        body = self.get("/api/v1/nodes")
        return summarise_nodes(json.loads(body)) if body is not None else []

    def has_default_account(self) -> bool:
        """Whether pods can be created in the namespace `default`."""
        return self.get("/api/v1/namespaces/default/serviceaccounts/default") is not None


def summarise_nodes(node_list: dict[str, Any]) -> list[NodeSummary]:
    """The nodes of a NodeList."""
    return [
        NodeSummary(
            name=item["metadata"]["name"],
            ready=any(
                condition["type"] == "Ready" and condition["status"] == "True"
                for condition in item["status"].get("conditions", [])
            ),
            resources={
                name: amount
                for name, amount in item["status"].get("allocatable", {}).items()
                if "/" in name
            },
        )
        for item in node_list["items"]
    ]


def wait_until(condition: Callable[[], bool], what: str, seconds: float) -> None:
    """Poll until the condition holds.

    Raises:
        ClusterError: it did not in the given time.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise ClusterError(f"waited {seconds:.0f} s in vain for {what}")
        time.sleep(0.1)

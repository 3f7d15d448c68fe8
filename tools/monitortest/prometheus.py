"""A Prometheus server for the time of the checks, and the part of its API that they use."""

import math
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2
import yaml

from localcluster.errors import ClusterError
from localcluster.settings import current_paths
from showcase.kubectl import wait_for

_START_SECONDS: Final = 30.0
_STOP_SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A running server."""

    http: httpx2.Client

    def values(self, expression: str) -> list[float]:
        """Return the values of a query now, one for each series.

        Raises:
            ClusterError: Prometheus rejects the query.
        """
        return [float(each["value"][1]) for each in self._get("query", query=expression)["result"]]

    def number(self, expression: str) -> float | None:
        """Return the largest value of a query, or None if there is no number."""
        return max((each for each in self.values(expression) if not math.isnan(each)), default=None)

    def firing(self, alert: str, node: str | None = None) -> Mapping[str, Any] | None:
        """Return an alert that fires, with labels and annotations; None if it does not fire.

        With ``node``, alerts about other nodes do not count.
        """
        return next(
            (
                each
                for each in self._get("alerts")["alerts"]
                if each["labels"]["alertname"] == alert
                and each["state"] == "firing"
                and (node is None or each["labels"].get("node", node) == node)
            ),
            None,
        )

    def targets(self) -> list[Mapping[str, Any]]:
        """Return the pods from which Prometheus reads metrics."""
        found: list[Mapping[str, Any]] = self._get("targets", state="active")["activeTargets"]
        return found

    def failed_rules(self) -> list[str]:
        """Return the rules whose last evaluation failed, with the error."""
        return [
            f"{rule['name']}: {rule['lastError']}"
            for group in self._get("rules")["groups"]
            for rule in group["rules"]
            if rule.get("lastError")
        ]

    def _get(self, path: str, **query: str) -> Any:  # noqa: ANN401 - any JSON
        response = self.http.get(f"/api/v1/{path}", params=query)
        if response.is_error:
            raise ClusterError(f"Prometheus rejects {path} {query}: {response.text}")
        return response.json()["data"]


@contextmanager
def running(
    folder: Path, configuration: Mapping[str, Any], groups: Sequence[Mapping[str, Any]]
) -> Iterator[Prometheus]:
    """Run Prometheus with its data in ``folder``; the configuration names ``folder/rules.yaml``.

    Raises:
        ClusterError: Prometheus is not installed, or it does not start.
    """
    program = current_paths().cache / "prometheus" / "prometheus"
    if not program.exists():
        raise ClusterError(f"{program}: not found; run tools/setup")
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": list(groups)}))
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(dict(configuration)))
    address = _free_address()
    options = (
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}",
    )
    with (folder / "prometheus.log").open("wb") as log:
        # Without the proxies of this environment: the cluster is on this machine.
        server = subprocess.Popen([program, *options], stdout=log, stderr=log, env={})
    try:
        with httpx2.Client(base_url=f"http://{address}", trust_env=False, timeout=10) as http:
            wait_for(
                "Prometheus is ready", lambda: _is_ready(http, server), timeout_s=_START_SECONDS
            )
            yield Prometheus(http)
    finally:
        server.terminate()
        server.wait(_STOP_SECONDS)


def _free_address() -> str:
    """Return an address that no server uses, such as one of a run that was killed."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return "{}:{}".format(*unused.getsockname())


def _is_ready(http: httpx2.Client, server: subprocess.Popen[bytes]) -> bool:
    if server.poll() is not None:
        raise ClusterError(f"Prometheus ended at its start, with exit status {server.returncode}")
    try:
        return http.get("/-/ready").is_success
    except httpx2.TransportError:
        return False

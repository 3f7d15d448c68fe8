"""A thin, typed interface of kubectl."""

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

Object = dict[str, Any]

_READ_SECONDS = 60.0
_TRANSIENT = re.compile(
    r"etcdserver: (request timed out|leader changed)|TLS handshake timeout|was refused"
    r"|connection refused|connection reset by peer|client connection lost|\bEOF\b"
)
"""Texts of kubectl while the API server or etcd restarts or is slow."""

Value = TypeVar("Value")


class KubectlError(RuntimeError):
    """kubectl failed; the message is its output."""


@dataclass(frozen=True, slots=True)
class Kubectl:
    """kubectl of one cluster.

    Attributes:
        binary: the program.
        kubeconfig: address and credentials of the cluster.
        cache: folder of its discovery cache; None for its default.
    """

    binary: Path
    kubeconfig: Path
    cache: Path | None = None

    @property
    def environment(self) -> dict[str, str]:
        """The environment for this and other clients of the cluster."""
        cache = {"KUBECACHEDIR": str(self.cache)} if self.cache else {}
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig), **cache}

    def run(self, *arguments: str, stdin: str | None = None, timeout_s: float = 120) -> str:
        """Return the output of the command.

        Raises:
            KubectlError: when it fails.
        """
        done = subprocess.run(
            [str(self.binary), *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            env=self.environment,
            timeout=timeout_s,
            check=False,
        )
        if done.returncode:
            raise KubectlError(done.stderr.strip() or done.stdout.strip())
        return done.stdout

    def get(self, kind: str, name: str, namespace: str | None = None) -> Object:
        """Return one object. Errors while the API server restarts are retried, as in ``list``."""
        return self._json("get", kind, name, *_in(namespace))

    def list(
        self, kind: str, namespace: str | None = None, *, selector: str = ""
    ) -> Sequence[Object]:
        """Return the objects of a kind, of all namespaces by default."""
        where = _in(namespace) if namespace else ("--all-namespaces",)
        listed = self._json("get", kind, *where, *(("-l", selector) if selector else ()))
        return listed["items"]  # type: ignore[no-any-return]

    def apply(self, *manifests: Mapping[str, Any]) -> None:
        """Create or update objects, with strict field validation."""
        items = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        self.run("apply", "-f", "-", stdin=json.dumps(items))

    def create(self, *manifests: Mapping[str, Any]) -> None:
        """Create objects; one that exists is an error."""
        items = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        self.run("create", "-f", "-", stdin=json.dumps(items))

    def rejection_message(self, *arguments: str, stdin: str | None = None) -> str:
        """Return the message with which the API server rejects the command.

        Raises:
            AssertionError: when it does not reject it.
        """
        try:
            printed = self.run(*arguments, stdin=stdin)
        except KubectlError as error:
            return str(error)
        raise AssertionError(f"kubectl {' '.join(arguments)} was not rejected: {printed}")

    def execute(self, pod: str, namespace: str, *command: str, container: str = "") -> str:
        """Return the output of a command inside a container."""
        chosen = ("-c", container) if container else ()
        return self.run("exec", "-n", namespace, pod, *chosen, "--", *command)

    def _json(self, *arguments: str) -> Object:
        deadline = time.monotonic() + _READ_SECONDS
        while True:
            try:
                return json.loads(self.run(*arguments, "-o", "json"))  # type: ignore[no-any-return]
            except KubectlError as error:
                if not _TRANSIENT.search(str(error)) or time.monotonic() >= deadline:
                    raise
            time.sleep(0.5)


def wait_for(
    what: str,
    look: Callable[[], Value | None],
    *,
    timeout_s: float = 120,
    interval_s: float = 0.3,
) -> Value:
    """Call ``look`` until it returns a true value, and return that.

    The last call begins after the deadline, so that a slow machine does not skip it.

    Raises:
        TimeoutError: it did not in time; the message names the awaited state.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        is_last = time.monotonic() >= deadline
        if value := look():
            return value
        if is_last:
            raise TimeoutError(f"not within {timeout_s:g} s: {what}")
        time.sleep(interval_s)


def _in(namespace: str | None) -> tuple[str, ...]:
    return ("-n", namespace) if namespace else ()

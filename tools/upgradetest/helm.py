"""Runs helm and waits until the pods of a version are ready."""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from showcase.install import NAMESPACE, image_options
from showcase.kubectl import Kubectl, Object, wait_for
from upgradetest.previous import Version

RELEASE = "gputopo"
_TIMEOUT_SECONDS = 240
_COMPONENTS = {
    # container of a pod: component in the values
    "operator": "operator",
    "extender": "extender",
    "kube-scheduler": "scheduler",
    "deviceplugin": "devicePlugin",
}


class HelmFailedError(RuntimeError):
    """helm failed; the message is its output."""


@dataclass(frozen=True, slots=True)
class Helm:
    """helm, for one release on one cluster.

    Attributes:
        waits: whether a command waits until the pods are ready.
    """

    kubectl: Kubectl
    waits: bool = True

    def run(self, *words: str) -> str:
        """Return the output of a helm command.

        Raises:
            HelmFailedError: it failed.
        """
        binary = str(self.kubectl.binary.with_name("helm"))
        done = subprocess.run(
            [binary, *words, "--namespace", NAMESPACE],
            env=self.kubectl.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise HelmFailedError(f"helm {words[0]}: {done.stderr.strip()}\n{done.stdout.strip()}")
        return done.stdout

    def install(self, version: Version, *options: str) -> None:
        """Install a version in a namespace that may not exist yet."""
        self._upgrade(version, "--install", "--create-namespace", *options)

    def upgrade(self, version: Version) -> None:
        """Upgrade to a version with the values of the release."""
        self._upgrade(version, "--reuse-values")

    def _upgrade(self, version: Version, *options: str) -> None:
        images = image_options(version.images)
        self.run("upgrade", RELEASE, str(version.chart), *options, *images, *self._waiting())

    def rollback(self, revision: int) -> None:
        """Return to a revision of the release."""
        self.run("rollback", RELEASE, str(revision), *self._waiting())

    def uninstall(self) -> None:
        """Remove the release."""
        self.run("uninstall", RELEASE, *self._waiting())

    def _waiting(self) -> Sequence[str]:
        return ("--wait", f"--timeout={_TIMEOUT_SECONDS}s") if self.waits else ()

    def test(self) -> str:
        """Run ``helm test``; return the log of its pod."""
        return self.run("test", RELEASE, "--logs", "--timeout=150s")

    def exists(self) -> bool:
        """Return whether the release is installed."""
        return RELEASE in self.run("list", "--short").split()


def wait_until_replaced(kubectl: Kubectl, version: Version) -> None:
    """Wait until only pods of a version run, and all of them are ready.

    helm waits for the new pods to be ready, but not for the old ones to end.

    Raises:
        TimeoutError: if they are not.
    """

    def replaced() -> bool:
        pods = component_pods(kubectl)
        return bool(pods) and not wrong_pods(pods, version.images)

    wait_for("only pods with the images of this version run", replaced, timeout_s=120)


def component_pods(kubectl: Kubectl) -> Sequence[Object]:
    """Return the pods of operator, scheduler and agents."""
    parts = "app.kubernetes.io/component in (operator,scheduler,deviceplugin)"
    return kubectl.list("pods", NAMESPACE, selector=parts)


def wrong_pods(pods: Sequence[Object], images: Mapping[str, str]) -> Sequence[str]:
    """Return the names of the pods that end, are not ready, or have other images. Pure."""
    return [
        str(pod["metadata"]["name"])
        for pod in pods
        if "deletionTimestamp" in pod["metadata"]
        or not _is_ready(pod)
        or any(each["image"] != images[_COMPONENTS[each["name"]]] for each in _containers(pod))
    ]


def _containers(pod: Object) -> Sequence[Object]:
    spec = pod["spec"]
    return [*spec.get("initContainers", []), *spec["containers"]]


def _is_ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

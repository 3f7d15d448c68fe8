"""Render the chart with Helm, and return Kubernetes objects."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parents[2] / "charts" / "gputopo"

Object = dict[str, Any]
Values = Mapping[str, Any]


class HelmError(Exception):
    """Helm failed; the text is its output."""


class Helm:
    """The chart, with one helm binary."""

    def __init__(self, binary: Path, folder: Path) -> None:
        """Keep values files and Helm's own caches in ``folder``."""
        self._binary = binary
        self._folder = folder
        self._rendered: dict[str, str] = {}

    def render(
        self,
        values: Values | None = None,
        *,
        kubernetes: str = "v1.36.2",
        served: Sequence[str] = (),
        hooks: bool = False,
    ) -> list[Object]:
        """Return the objects of a release ``gputopo`` in namespace ``gputopo-system``.

        Args:
            values: the values that differ from the defaults.
            kubernetes: version of the cluster.
            served: kinds that the cluster serves, as ``apps/v1/Deployment``.
            hooks: return the objects that ``helm test`` creates, and not those of the release.

        Raises:
            HelmError: if the chart rejects the values.
        """
        text = self.manifests(values, kubernetes=kubernetes, served=served)
        # libyaml parses the chart's 230 kB eight times as fast as Python does.
        documents = [each for each in yaml.load_all(text, Loader=yaml.CSafeLoader) if each]
        return [each for each in documents if is_hook(each) == hooks]

    def manifests(
        self,
        values: Values | None = None,
        *,
        kubernetes: str = "v1.36.2",
        served: Sequence[str] = (),
    ) -> str:
        """Return the text that Helm renders, with the name of each template."""
        cluster = ["--kube-version", kubernetes, *(f"--api-versions={kind}" for kind in served)]
        key = json.dumps([values, cluster], sort_keys=True)
        if key not in self._rendered:
            self._rendered[key] = self.run("template", "gputopo", *self._common(values), *cluster)
        return self._rendered[key]

    def notes(self, values: Values | None = None) -> str:
        """Return the notes that Helm prints after the installation."""
        return self.run("install", "gputopo", *self._common(values), "--dry-run=client")

    def install(self, kubeconfig: Path, values: Values | None = None) -> None:
        """Install the chart on a cluster without waiting."""
        access = ("--kubeconfig", str(kubeconfig), "--create-namespace")
        self.run("upgrade", "--install", "gputopo", *self._common(values), *access)

    def run(self, *words: str) -> str:
        """Run helm and return its output."""
        environment = {"HOME": str(self._folder), "PATH": "/usr/bin:/bin"}
        done = subprocess.run(
            [self._binary, *words], env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise HelmError(done.stderr)
        return done.stdout

    def write(self, values: Values | None) -> Path:
        """Write a values file and return its path."""
        path = self._folder / "values.json"
        path.write_text(json.dumps(values or {}))
        return path

    def _common(self, values: Values | None) -> Sequence[str]:
        return (str(CHART), "--namespace", "gputopo-system", "--values", str(self.write(values)))


def is_hook(document: Object) -> bool:
    """Return whether Helm creates an object only for a test."""
    return "helm.sh/hook" in document["metadata"].get("annotations", {})


def find(objects: Sequence[Object], kind: str, name: str) -> Object:
    """Return the one object of this kind and name."""
    (found,) = [
        candidate
        for candidate in objects
        if candidate["kind"] == kind and candidate["metadata"]["name"] == name
    ]
    return found


def pod_of(workload: Object) -> Object:
    """Return the pod spec of a Deployment or DaemonSet."""
    pod: Object = workload["spec"]["template"]["spec"]
    return pod


def containers_of(workload: Object) -> list[Object]:
    """Return the containers of a Deployment or DaemonSet, sidecars included."""
    pod = pod_of(workload)
    return [*pod.get("initContainers", []), *pod["containers"]]


def container(workload: Object, name: str) -> Object:
    """Return a container of a Deployment or DaemonSet."""
    (found,) = [each for each in containers_of(workload) if each["name"] == name]
    return dict(found)

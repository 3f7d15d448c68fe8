"""Manifests of the scenarios' pods. Pure."""

from collections.abc import Sequence

from soaktest import manifests
from soaktest.client import Object

NAMESPACE = "gputopo-faults"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


def pod(name: str, gpus: int, image: str, node: str | None = None) -> Object:
    """Return a pod that ends immediately when it is deleted."""
    return manifests.pod(name, gpus, image, {}, node)


def stubborn(name: str, gpus: int, image: str, node: str) -> Object:
    """Return a pod that ignores SIGTERM and has ten minutes to end."""
    return manifests.stubborn_pod(name, gpus, image, {}, node)


def short(name: str, gpus: int, image: str, node: str | None, seconds: float) -> Object:
    """Return a pod that succeeds after some seconds."""
    made = pod(name, gpus, image, node)
    made["spec"]["restartPolicy"] = "Never"
    return with_command(made, ("sh", "-c", f"sleep {seconds:g}"))


def with_command(made: Object, command: Sequence[str]) -> Object:
    """Return the pod with another command."""
    made["spec"]["containers"][0]["command"] = list(command)
    return made


def deployment(name: str, replicas: int, image: str, node: str) -> Object:
    """Return a Deployment of pods with one GPU each."""
    template = pod(name, 1, image, node)
    template["metadata"] = {"labels": {"app": name}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template,
        },
    }

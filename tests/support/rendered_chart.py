"""Parts of the objects that the chart renders."""

import yaml

from support.helm_chart import Object, find

COMPONENTS = {
    "operator": ("Deployment", "gputopo-operator"),
    "scheduler": ("Deployment", "gputopo-scheduler"),
    "deviceplugin": ("DaemonSet", "gputopo-deviceplugin"),
}


def configuration(objects: list[Object], release: str = "gputopo") -> Object:
    """Return the configuration of kube-scheduler."""
    text = find(objects, "ConfigMap", f"{release}-scheduler")["data"]["config.yaml"]
    document: Object = yaml.safe_load(text)
    return document


def workloads(objects: list[Object]) -> list[Object]:
    """Return the Deployments and the DaemonSet of gputopo."""
    return [find(objects, kind, name) for kind, name in COMPONENTS.values()]

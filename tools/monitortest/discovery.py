"""The targets of Prometheus, from the pods. Pure.

Debian's Prometheus is built without the discovery of Kubernetes. So the tool writes the pods into a
file, with the labels that this discovery would set.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

_LABEL: Final = "app.kubernetes.io/part-of"
_META: Final = "__meta_kubernetes_pod_"


def targets(pods: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one target for each port of each pod that has an address."""
    return [
        {
            "targets": [f"{pod['status']['podIP']}:{port['containerPort']}"],
            "labels": {
                f"{_META}label_app_kubernetes_io_part_of": pod["metadata"]["labels"].get(
                    _LABEL, ""
                ),
                f"{_META}container_port_name": port.get("name", ""),
                f"{_META}name": pod["metadata"]["name"],
                f"{_META}node_name": pod["spec"].get("nodeName", ""),
            },
        }
        for pod in pods
        if pod["status"].get("podIP")
        for container in (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"])
        for port in container.get("ports", ())
    ]

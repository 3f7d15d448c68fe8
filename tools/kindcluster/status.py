"""State of the running cluster, as `tools/kind status` prints it."""

import json
from dataclasses import dataclass

from localcluster.api import NodeSummary, by_name


@dataclass(frozen=True, slots=True)
class KindStatus:
    """State of the cluster.

    Attributes:
        kubernetes: version, as v1.36.4.
        own_docker: whether Docker was started for it.
        containers: each node's container, and whether it runs; none if Docker does not run.
        nodes: nodes of the API server.
    """

    kubernetes: str
    own_docker: bool
    containers: dict[str, bool]
    nodes: list[NodeSummary]


def as_json(status: KindStatus) -> str:
    """One JSON object."""
    return json.dumps(
        {
            "kubernetes": status.kubernetes,
            "docker": "own" if status.own_docker else "machine",
            "containers": status.containers,
            "nodes": by_name(status.nodes),
        }
    )


def as_text(status: KindStatus) -> str:
    """The versions, then a line for each node."""
    docker = "of its own" if status.own_docker else "of this machine"
    state = "runs" if status.containers else "is off"
    lines = [f"{'Kubernetes':<24} {status.kubernetes}", f"{'Docker':<24} {state}; {docker}"]
    summaries = {summary.name: summary for summary in status.nodes}
    for name, runs in status.containers.items():
        words = ["runs;" if runs else "is off;"]
        summary = summaries.get(name)
        if summary is None:
            words.append("unknown to the API server")
        else:
            words.append("Ready" if summary.ready else "NotReady")
            words += [f"{resource}={count}" for resource, count in summary.resources.items()]
        lines.append(f"{name:<24} {' '.join(words)}")
    return "\n".join(lines)

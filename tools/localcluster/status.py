"""State of the running cluster, as `tools/cluster status` prints it."""

import json
from dataclasses import dataclass
from pathlib import Path

from localcluster import controlplane, node, releases
from localcluster.api import ApiClient, NodeSummary, by_name
from localcluster.processes import ProcessFiles
from localcluster.settings import Paths
from localcluster.state import Record


@dataclass(frozen=True, slots=True)
class Status:
    """State of the cluster.

    Attributes:
        kubernetes: version of its programs, as v1.36.4.
        parts: each process of the control plane, and whether it runs.
        services: the running programs of each node; None for a node that is off.
        nodes: nodes of the API server.
    """

    kubernetes: str
    parts: dict[str, bool]
    services: dict[str, list[str] | None]
    nodes: list[NodeSummary]


def read(record: Record, paths: Paths, files: ProcessFiles) -> Status:
    """State of the cluster with this record."""
    return Status(
        releases.built_version(Path(record.binaries)),
        {part: files.recall(part) is not None for part in controlplane.PARTS},
        {
            target.name: node.running_services(target, paths) if files.recall(target.name) else None
            for target in record.nodes
        },
        ApiClient(paths).nodes(),
    )


def as_json(status: Status) -> str:
    """One JSON object."""
    return json.dumps(
        {
            "kubernetes": status.kubernetes,
            "parts": status.parts,
            "services": status.services,
            "nodes": by_name(status.nodes),
        }
    )


def as_text(status: Status) -> str:
    """The version, then a line for each process of the control plane and each node."""
    ready = {summary.name: "Ready" if summary.ready else "NotReady" for summary in status.nodes}
    resources = {
        summary.name: " ".join(f"{name}={count}" for name, count in summary.resources.items())
        for summary in status.nodes
    }
    lines = [f"{'Kubernetes':<24} {status.kubernetes}"]
    lines += [f"{part:<24} {'runs' if runs else 'is off'}" for part, runs in status.parts.items()]
    for name, services in status.services.items():
        what = "is off" if services is None else f"runs {' '.join(services)}"
        said = f"{ready.get(name, 'unknown to the API server')} {resources.get(name, '')}"
        lines.append(f"{name:<24} {what}; {said}".rstrip())
    return "\n".join(lines)

"""Checks the types of the fields of a manifest that decide which nodes a pod may use.

The API server has checked the pods of a cluster. A manifest may have any content.
"""

from typing import Any

from gputopo.api.model import ApiModel
from gputopo_kube.node_match import NodeAffinity


class _Affinity(ApiModel):
    node_affinity: NodeAffinity | None = None
    pod_affinity: dict[str, Any] | None = None
    pod_anti_affinity: dict[str, Any] | None = None


class _Ports(ApiModel):
    ports: list[dict[str, Any]] | None = None


class ManifestRules(ApiModel):
    """The fields of ``spec`` of a pod that ``gputopo_explain`` uses as they are."""

    scheduler_name: str | None = None
    node_selector: dict[str, str] | None = None
    affinity: _Affinity | None = None
    tolerations: list[dict[str, str | int | None]] | None = None
    topology_spread_constraints: list[dict[str, Any]] | None = None
    scheduling_gates: list[dict[str, Any]] | None = None
    resource_claims: list[dict[str, Any]] | None = None
    volumes: list[dict[str, Any]] | None = None
    containers: list[_Ports] | None = None
    init_containers: list[_Ports] | None = None

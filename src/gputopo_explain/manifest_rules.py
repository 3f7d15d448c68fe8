"""Checks the types of the fields of a manifest that decide which nodes a pod may use.

The API server has checked the pods of a cluster. A manifest may have any content.
"""

from typing import Any

from gputopo.api.model import ApiModel


class _Requirement(ApiModel):
    key: str
    operator: str
    values: list[str] | None = None


class _Term(ApiModel):
    match_expressions: list[_Requirement] | None = None
    match_fields: list[_Requirement] | None = None


class _NodeSelector(ApiModel):
    node_selector_terms: list[_Term] | None = None


class _NodeAffinity(ApiModel):
    required_during_scheduling_ignored_during_execution: _NodeSelector | None = None


class _Affinity(ApiModel):
    node_affinity: _NodeAffinity | None = None
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

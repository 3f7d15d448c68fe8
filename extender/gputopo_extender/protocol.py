"""The bodies of kube-scheduler's extender protocol (``k8s.io/kube-scheduler/extender/v1``).

kube-scheduler sends keys in PascalCase (``NodeNames``). This module also accepts ``nodeNames`` and
``nodenames``, as an extender in Go would, because Go ignores the case of keys. pydantic models
validate requests. Responses are plain dicts, because building models for thousands of nodes would
take milliseconds.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, field_validator

from gputopo_kube.document import ObjectName


def _either(name: str) -> AliasChoices:
    return AliasChoices(name, name[0].lower() + name[1:], name.lower())


def _uid(victim: object) -> object:
    """Return the UID of a victim, which is ``{"UID": ...}`` or a pod. The UID may be invalid."""
    if not isinstance(victim, dict):
        return None
    metadata = victim.get("metadata")
    if isinstance(metadata, dict):
        return metadata.get("uid")
    return victim.get("UID", victim.get("uid"))


def _has_name(item: object) -> bool:
    metadata = item.get("metadata") if isinstance(item, dict) else None
    return isinstance(metadata, dict) and isinstance(metadata.get("name"), str)


class ExtenderArgs(BaseModel):
    """Body of filter and prioritize: the pod, and the nodes that kube-scheduler still considers.

    kube-scheduler sends ``NodeNames`` if its configuration has ``nodeCacheCapable: true``, and
    ``Nodes`` otherwise.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    pod: dict[str, Any] = Field(validation_alias=_either("Pod"))
    nodes: dict[str, Any] | None = Field(default=None, validation_alias=_either("Nodes"))
    node_names: list[str] | None = Field(default=None, validation_alias=_either("NodeNames"))

    @field_validator("nodes")
    @classmethod
    def _named(cls, nodes: dict[str, Any] | None) -> dict[str, Any] | None:
        """Reject items without a name, because ``candidates`` needs the name."""
        items = (nodes or {}).get("items") or []
        if not isinstance(items, list) or not all(map(_has_name, items)):
            raise ValueError("items is not a list of objects with metadata.name")
        return nodes

    def candidates(self) -> list[str]:
        """Return the names of the nodes to evaluate, from ``NodeNames`` or ``Nodes``."""
        if self.node_names is not None:
            return self.node_names
        items = (self.nodes or {}).get("items") or []
        return [item["metadata"]["name"] for item in items]


class Victims(BaseModel):
    """The UIDs of the pods that kube-scheduler would delete on one node for the preemptor.

    kube-scheduler sends a victim as ``{"UID": ...}`` if its configuration has
    ``nodeCacheCapable: true``, and as a pod object otherwise.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    pods: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        default=(), validation_alias=_either("Pods")
    )
    pdb_violations: int = Field(
        default=0, ge=0, lt=2**63, validation_alias=_either("NumPDBViolations")
    )

    @field_validator("pods", mode="before")
    @classmethod
    def _uids(cls, pods: object) -> object:
        return [] if pods is None else [*map(_uid, pods)] if isinstance(pods, list) else pods


class ExtenderPreemptionArgs(BaseModel):
    """Body of preempt: the preemptor, and the victims that kube-scheduler found on each node."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    pod: dict[str, Any] = Field(validation_alias=_either("Pod"))
    victims: dict[str, Victims] | None = Field(
        default=None, validation_alias=_either("NodeNameToVictims")
    )
    meta_victims: dict[str, Victims] | None = Field(
        default=None, validation_alias=_either("NodeNameToMetaVictims")
    )

    def offers(self) -> dict[str, Victims]:
        """Return the victims by node, from the field that kube-scheduler has set."""
        return (self.victims if self.meta_victims is None else self.meta_victims) or {}


class ExtenderBindingArgs(BaseModel):
    """Body of bind, which has the name and UID of the pod instead of the pod object."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    pod_name: ObjectName = Field(validation_alias=_either("PodName"))
    pod_namespace: ObjectName = Field(validation_alias=_either("PodNamespace"))
    pod_uid: str = Field(min_length=1, max_length=253, validation_alias=_either("PodUID"))
    node: ObjectName = Field(validation_alias=_either("Node"))


def filter_result(
    args: ExtenderArgs,
    fitting: Iterable[str],
    *,
    failed: Mapping[str, str],
    unresolvable: Mapping[str, str],
) -> dict[str, Any]:
    """Return the response of filter, with node names or Node objects as in the request.

    Preemption may help on ``failed`` nodes. It does not help on ``unresolvable`` nodes.
    """
    names = list(fitting)
    result: dict[str, Any] = {
        "Nodes": None,
        "NodeNames": names,
        "FailedNodes": dict(failed),
        "FailedAndUnresolvableNodes": dict(unresolvable),
        "Error": "",
    }
    if args.node_names is None:
        kept = set(names)
        items = (args.nodes or {}).get("items") or []
        result["Nodes"] = {
            **(args.nodes or {}),
            "items": [item for item in items if item["metadata"]["name"] in kept],
        }
        result["NodeNames"] = None
    return result


def filter_error(message: str) -> dict[str, Any]:
    """Return a response of filter with an error; kube-scheduler then soon tries the pod again."""
    return {
        "Nodes": None,
        "NodeNames": None,
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {},
        "Error": message,
    }


def priorities(scores: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the response of prioritize: scores of 0..``MAX_SCORE``."""
    return [{"Host": host, "Score": score} for host, score in scores.items()]


def preempt_result(offers: Mapping[str, Victims]) -> dict[str, Any]:
    """Return the response of preempt, in which victims are always UIDs."""
    return {
        "NodeNameToMetaVictims": {
            node: {
                "Pods": [{"UID": uid} for uid in victims.pods],
                "NumPDBViolations": victims.pdb_violations,
            }
            for node, victims in offers.items()
        }
    }


def bind_result(error: str = "") -> dict[str, str]:
    """Return the response of bind; an empty error means that the pod is bound."""
    return {"Error": error}

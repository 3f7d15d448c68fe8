"""A Kubernetes object as a dict, and what identifies an object and its version."""

from typing import Annotated, Any, NamedTuple, Self, TypeAlias

from pydantic import Field

Document: TypeAlias = dict[str, Any]
"""A Kubernetes object, decoded from JSON."""


ObjectName = Annotated[str, Field(max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
"""Name of an object or namespace, without characters that have a meaning in the path of a URL."""


class ObjectKey(NamedTuple):
    """Namespace and name of an object."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @classmethod
    def of(cls, document: Document) -> Self:
        """Return the key of an object that has a namespace."""
        return cls(document["metadata"]["namespace"], document["metadata"]["name"])


def identity(document: Document) -> Document:
    """Return UID and resource version: with them, a patch fails if the object has changed."""
    metadata = document["metadata"]
    return {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}


def controller_of(raw: Document) -> Document:
    """Return the owner reference of the controller of an object; empty if it has none."""
    owners = raw["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), {})


def true_condition(raw: Document, *types: str) -> Document | None:
    """Return the first condition of these types in the status of an object that is True."""
    for condition in (raw.get("status") or {}).get("conditions") or ():
        if condition.get("type") in types and condition.get("status") == "True":
            found: Document = condition
            return found
    return None

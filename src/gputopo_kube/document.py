"""Types for a Kubernetes object as a dict, and for the namespace and name of an object."""

from typing import Any, NamedTuple, TypeAlias

Document: TypeAlias = dict[str, Any]
"""A Kubernetes object, decoded from JSON."""


class ObjectKey(NamedTuple):
    """Namespace and name of an object."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

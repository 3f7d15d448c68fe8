"""The type of Kubernetes objects that are not parsed."""

from typing import Any, TypeAlias

Document: TypeAlias = dict[str, Any]
"""A Kubernetes object, decoded from JSON."""

"""Names of extended resources."""

from collections.abc import Iterable


def is_named(resource: str, patterns: Iterable[str]) -> bool:
    """Return whether a resource is one of these.

    A trailing ``*`` stands for any rest: ``nvidia.com/mig-*`` for ``nvidia.com/mig-1g.10gb``.
    """
    return any(
        resource.startswith(pattern[:-1]) if pattern.endswith("*") else resource == pattern
        for pattern in patterns
    )

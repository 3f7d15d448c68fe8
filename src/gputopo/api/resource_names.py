"""Match extended resource names against patterns."""

from collections.abc import Iterable


def matches_any(resource: str, patterns: Iterable[str]) -> bool:
    """Return whether a resource name matches one of the patterns.

    A ``*`` at the end matches any text: ``nvidia.com/mig-*`` matches ``nvidia.com/mig-1g.10gb``.
    """
    return any(
        resource.startswith(pattern[:-1]) if pattern.endswith("*") else resource == pattern
        for pattern in patterns
    )

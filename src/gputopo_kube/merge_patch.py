"""JSON merge patches (RFC 7386)."""

from gputopo_kube.document import Document


def merge_patch(before: Document, after: Document) -> Document:
    """Return the patch that changes the JSON object ``before`` into ``after``.

    A list is replaced as a whole. Neither object may contain null, because null in a merge patch
    removes a field.

    >>> merge_patch({"rate": {"low": 1, "high": 2}, "old": 3}, {"rate": {"low": 1}})
    {'old': None, 'rate': {'high': None}}
    """
    patch: Document = {name: None for name in before if name not in after}
    for name, value in after.items():
        known = before.get(name)
        if isinstance(known, dict) and isinstance(value, dict):
            if change := merge_patch(known, value):
                patch[name] = change
        elif name not in before or known != value:
            patch[name] = value
    return patch

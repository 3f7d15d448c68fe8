"""Values of the PriorityClasses of a cluster."""

from collections.abc import Iterable

from gputopo_kube.document import Document


def priorities_of(classes: Iterable[Document]) -> dict[str, int]:
    """Return the values of the PriorityClasses by name; the key of the default class is empty.

    If several classes are the default, the API server uses the one with the smallest value.

    >>> low = {"metadata": {"name": "low"}, "value": 1, "globalDefault": True}
    >>> high = {"metadata": {"name": "high"}, "value": 9}
    >>> priorities_of([high, low])
    {'high': 9, 'low': 1, '': 1}
    """
    known = [each for each in classes if isinstance(each.get("value"), int)]
    values = {each["metadata"]["name"]: each["value"] for each in known}
    defaults = [each["value"] for each in known if each.get("globalDefault")]
    return {**values, **({"": min(defaults)} if defaults else {})}

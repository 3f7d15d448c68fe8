"""The request of a user that was valid when the extender bound the pod, recorded in the Binding.

The user may change an annotation of a bound pod, where no admission policy prevents this. Another
pod's memory, neighbours and measurements must not depend on it. So the extender records the values
in ``gputopo.io/gpus``, which only it may write, and all parts read the recorded values.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from gputopo.api.names import (
    AVOID_ANNOTATION,
    GPUS_ANNOTATION,
    GROUP,
    PROFILE_ANNOTATION,
    SENSITIVITY_ANNOTATION,
    SHARING_IF_SLOW_ANNOTATION,
    SHARING_MAX_SLOWDOWN_ANNOTATION,
    SHARING_MEMORY_ANNOTATION,
    SHARING_TERMINATION_ANNOTATION,
)

BOUND_REQUEST: Final = (
    AVOID_ANNOTATION,
    PROFILE_ANNOTATION,
    SENSITIVITY_ANNOTATION,
    SHARING_IF_SLOW_ANNOTATION,
    SHARING_MAX_SLOWDOWN_ANNOTATION,
    SHARING_MEMORY_ANNOTATION,
    SHARING_TERMINATION_ANNOTATION,
)
"""The annotations of a request that parts read after the Binding."""

_KEY: Final = "request"
_SHORT: Final = {name: name.removeprefix(f"{GROUP}/") for name in BOUND_REQUEST}


def request_record(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return ``request`` of the annotation ``gputopo.io/gpus`` of a pod with these annotations.

    >>> request_record({"gputopo.io/profile": "bert", "gputopo.io/pattern": "Ring"})
    {'profile': 'bert'}
    """
    return {short: annotations[name] for name, short in _SHORT.items() if name in annotations}


def with_bound_request(annotations: dict[str, str], uid: str, node: str | None) -> dict[str, str]:
    """Return the annotations of a pod with the values that were valid at its Binding.

    An annotation without recorded value is left out. The result is ``annotations`` itself if the
    pod is not bound, or if its Binding has no record, which is so with an older extender.
    """
    text = annotations.get(GPUS_ANNOTATION)
    if node is None or text is None or f'"{_KEY}":' not in text:
        return annotations
    record = _record(text, uid, node)
    if record is None:
        return annotations
    recorded = {name: record[short] for name, short in _SHORT.items() if short in record}
    return with_request(annotations, recorded)


def with_request(annotations: Mapping[str, str], requested: Mapping[str, str]) -> dict[str, str]:
    """Return the annotations with the request of ``requested`` instead of their own."""
    others = {name: text for name, text in annotations.items() if name not in _SHORT}
    return others | {name: requested[name] for name in BOUND_REQUEST if name in requested}


def _record(text: str, uid: str, node: str) -> Mapping[str, str] | None:
    """Return the recorded request; None if the annotation is not the pod's own, or not valid.

    Each event of a watch parses it. Without pydantic, this takes a tenth of the time.
    """
    try:
        found: Any = json.loads(text)
        own = (found["uid"], found["node"]) == (uid, node)
        record = {str(key): str(value) for key, value in found[_KEY].items()}
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        return None
    return record if own else None

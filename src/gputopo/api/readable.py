"""Reads the valid part of a status, so that one impossible value does not stop the reader."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, TypeVar

from pydantic import ValidationError

from gputopo.api.model import ApiModel
from gputopo.runtime.messages import first_error

Model = TypeVar("Model", bound=ApiModel)


def readable_status(model: type[Model], status: Mapping[str, Any] | None) -> tuple[Model, str]:
    """Return a status without its invalid values, and the first of them as text.

    Without a value that is required, the object or list item around it is left out too. The text is
    empty if the whole status is valid. All fields of ``model`` must have defaults.
    """
    kept, first = dict(status or {}), ""
    while True:  # not endless: each repetition has one value less
        try:
            return model.model_validate(kept), first
        except ValidationError as error:
            kept = kept if first else deepcopy(kept)
            first = first or first_error(error, prefix="status")
            detail = error.errors(include_url=False, include_context=False, include_input=False)[0]
            _remove(kept, detail["loc"][:-1] if detail["type"] == "missing" else detail["loc"])


def _remove(kept: dict[str, Any], path: Sequence[int | str]) -> None:
    parent: Any = kept
    try:
        for part in path[:-1]:
            parent = parent[part]
        del parent[path[-1]]
    except (LookupError, TypeError):  # pydantic's path has parts that are no keys
        del kept[str(path[0])]

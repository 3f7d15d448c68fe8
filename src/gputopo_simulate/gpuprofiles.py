"""Parse exported GPUProfiles: the output of ``kubectl get gpuprofiles -o json``."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from pydantic import ValidationError

from gputopo.api.profile import GPUProfile
from gputopo.runtime.messages import first_error, quoted
from gputopo_simulate.errors import SimulationError


class ExportedProfile(NamedTuple):
    """A GPUProfile with its name; ``where`` is its position in the text, for messages."""

    where: str
    name: str
    profile: GPUProfile


def parse_gpuprofiles(text: str) -> Iterator[ExportedProfile]:
    """Yield the profiles in the output of ``kubectl get``, with ``-A`` or for one object.

    Raises:
        SimulationError: the text is invalid.
    """
    for where, document in _documents(text):
        try:
            name = str(document["metadata"]["name"])
            profile = GPUProfile.model_validate(document)
        except (KeyError, TypeError):
            raise SimulationError(f"{where}.metadata.name: missing") from None
        except ValidationError as error:
            raise SimulationError(first_error(error, prefix=where)) from None
        yield ExportedProfile(where, name, profile)


def repeated_name(where: str, name: str) -> SimulationError:
    """Return the error that a name is not unique among the profiles."""
    return SimulationError(
        f"{where}.metadata.name: {quoted(name)} occurs twice; export one namespace only"
    )


def _documents(text: str) -> Iterator[tuple[str, Any]]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SimulationError(f"profiles: invalid JSON: {error}") from None
    items = document.get("items", [document]) if isinstance(document, dict) else document
    if not isinstance(items, list):
        raise SimulationError(
            "profiles: expected the output of `kubectl get gpuprofiles -A -o json`"
        )
    return ((f"profiles: items[{index}]", item) for index, item in enumerate(items))

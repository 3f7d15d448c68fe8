"""Parse a node topology in any of the supported text formats."""

import json
from collections.abc import Mapping
from typing import Final

from pydantic import ValidationError

from gputopo.api.topology import parse_spec
from gputopo.runtime.messages import first_error
from gputopo.topology.model import NodeTopology, TopologyError
from gputopo_topologies.handwritten import parse_handwritten
from gputopo_topologies.recorded import parse_recording
from gputopo_topologies.topo_matrix import has_matrix

_KIND: Final = "GPUTopology"
_LISTS: Final = ("List", "GPUTopologyList")


def parse(text: str, name: str) -> NodeTopology:
    """Return the topology in a text. The content of the text decides its format.

    The text is JSON (see :func:`parse_document`) or the output of ``nvidia-smi topo -m``, if
    possible with the output of ``nvidia-smi -L``, which lists models and UUIDs. UUIDs that the text
    does not contain are derived from ``name``.

    Raises:
        TopologyError: if the text has another format; the message starts with ``name``.
    """
    try:
        return _of_text(text, name)
    except TopologyError as error:
        raise TopologyError(f"{name}: {error}") from None


def parse_document(document: object, name: str) -> NodeTopology:
    """Return the topology of a decoded JSON or YAML document.

    The document is a GPUTopology object as ``kubectl get gputopology NODE -o json`` prints it, a
    list with exactly one such object, or a handwritten topology (``docs/reference/topologies.md``).

    Raises:
        TopologyError: if the document is none of these; the message starts with ``name``.
    """
    try:
        return _of_document(document, name)
    except TopologyError as error:
        raise TopologyError(f"{name}: {error}") from None


def _of_text(text: str, name: str) -> NodeTopology:
    if text.lstrip().startswith("{"):
        return _of_document(_json(text), name)
    if has_matrix(text):
        return parse_recording(text, name)
    raise TopologyError(
        "is neither a JSON object nor output of `nvidia-smi topo -m`:"
        " no line has the columns GPU0 GPU1 ..."
    )


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise TopologyError(
            f"line {error.lineno}, column {error.colno}: is not JSON: {error.msg}"
        ) from None
    except (ValueError, RecursionError) as error:  # a number of 5000 digits, or deep nesting
        raise TopologyError(f"is JSON that cannot be parsed: {error}") from None


def _of_document(document: object, name: str) -> NodeTopology:
    if not isinstance(document, Mapping) or "kind" not in document:
        return parse_handwritten(document, name)
    if document["kind"] in _LISTS:
        return _of_object(_only_item(document))
    return _of_object(document)


def _only_item(document: Mapping[str, object]) -> object:
    items = document.get("items")
    count = len(items) if isinstance(items, list) else 0
    if not isinstance(items, list) or count != 1:
        raise TopologyError(f"items: {count} objects, not one {_KIND}; give kubectl a node's name")
    return items[0]


def _of_object(document: object) -> NodeTopology:
    kind = document.get("kind") if isinstance(document, Mapping) else document
    if not isinstance(document, Mapping) or kind != _KIND:
        raise TopologyError(f"kind: {kind!r} is neither {_KIND} nor a list with one {_KIND}")
    try:
        return parse_spec(document.get("spec"))
    except ValidationError as error:
        raise TopologyError(first_error(error, prefix="spec")) from None

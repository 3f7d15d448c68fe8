"""Where a topology comes from: the catalogue, a file, or a node of the cluster."""

from pathlib import Path
from typing import Final

from gputopo.runtime.messages import quoted
from gputopo_cli.shared.errors import InputError
from gputopo_cli.shared.files import STANDARD_INPUT, read_text
from gputopo_cli.shared.words import nearest
from gputopo_cli.topology.cluster import node
from gputopo_cli.topology.source import Source
from gputopo_topologies import catalogue
from gputopo_topologies.load import parse, parse_document
from gputopo_topologies.topo_matrix import has_matrix

_NODE: Final = "node/"


def find(argument: str, context: str | None = None) -> Source:
    """Return the topology that a user means.

    A name of the catalogue; else a file, or ``-`` for standard input; else a node of the
    cluster. ``node/NAME`` is always a node, ``./NAME`` always a file.

    Args:
        argument: the user's word.
        context: of the kubeconfig; its current one if None.

    Raises:
        InputError: where it is none of them; says what was tried.
        TopologyError: where the text found is no topology.
    """
    if argument.startswith(_NODE):
        return node(argument.removeprefix(_NODE), context)
    if argument in known_names():
        return Source(argument, catalogue.named(argument))
    if argument == STANDARD_INPUT or "/" in argument or Path(argument).exists():
        return _file(argument)
    try:
        return node(argument, context)
    except InputError as error:
        raise InputError(
            f"topology: {quoted(argument)} is no name in the catalogue, no file and no node"
            f" ({error}){nearest(argument, known_names())}"
        ) from None


def known_names() -> tuple[str, ...]:
    """Return every name that the catalogue knows, further names included."""
    return tuple(
        name for first in catalogue.names() for name in (first, *catalogue.describe(first).aliases)
    )


def _file(path: str) -> Source:
    text = read_text(path, "topology")
    name = "standard input" if path == STANDARD_INPUT else Path(path).name
    if text.lstrip().startswith("{") or has_matrix(text):
        return Source(name, parse(text, name))
    document = _yaml(text, name)
    return Source(
        name, parse_document(document, name) if isinstance(document, dict) else parse(text, name)
    )


def _yaml(text: str, name: str) -> object:
    """Return the document of a YAML text; what is no YAML is left to the parser to refuse."""
    import yaml

    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):
        return None
    except RecursionError:
        raise InputError(f"{name}: is nested too deeply") from None

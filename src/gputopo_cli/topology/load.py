"""Load a topology from the catalogue, a file or a node of the cluster."""

from pathlib import Path
from typing import Final

from gputopo.runtime.messages import quoted
from gputopo_cli.shared.arguments import suggest
from gputopo_cli.shared.errors import InputError
from gputopo_cli.shared.files import STANDARD_INPUT, read_text
from gputopo_cli.shared.options import catalogue_names
from gputopo_cli.topology.cluster import load_node
from gputopo_cli.topology.loaded import LoadedTopology
from gputopo_topologies import catalogue
from gputopo_topologies.load import parse, parse_document
from gputopo_topologies.topo_matrix import has_matrix

_NODE: Final = "node/"


def load_topology(argument: str, context: str | None = None) -> LoadedTopology:
    """Return the topology that an argument names.

    The argument is looked up as a name of the catalogue, then as a file (``-`` is standard
    input), then as a node of the cluster. ``node/NAME`` is always a node, ``./NAME`` a file.

    Args:
        argument: the user's argument.
        context: context of the kubeconfig; None for its current one.

    Raises:
        InputError: if nothing of this name is found, or it cannot be read.
        TopologyError: if the file or object is not a valid topology.
    """
    if argument.startswith(_NODE):
        return load_node(argument.removeprefix(_NODE), context)
    if argument in catalogue_names():
        return LoadedTopology(argument, catalogue.named(argument))
    if argument == STANDARD_INPUT or "/" in argument or Path(argument).exists():
        return _load_file(argument)
    try:
        return load_node(argument, context)
    except InputError as error:
        raise InputError(
            f"topology: {quoted(argument)} is not a name of the catalogue, a file or a node"
            f" ({error}){suggest(argument, catalogue_names())}"
        ) from None


def _load_file(path: str) -> LoadedTopology:
    text = read_text(path, "topology")
    name = "standard input" if path == STANDARD_INPUT else Path(path).name
    if text.lstrip().startswith("{") or has_matrix(text):
        return LoadedTopology(name, parse(text, name))
    document = _parse_yaml(text, name)
    return LoadedTopology(
        name, parse_document(document, name) if isinstance(document, dict) else parse(text, name)
    )


def _parse_yaml(text: str, name: str) -> object:
    """Return the document of a YAML text; None if it is not YAML."""
    import yaml

    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):
        return None
    except RecursionError:
        raise InputError(f"{name}: is nested too deeply") from None

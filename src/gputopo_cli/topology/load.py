"""Load a topology from the catalogue, a file or a node of the cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gputopo import catalogue
from gputopo.api.names import GROUP, VERSION
from gputopo.runtime.messages import quoted
from gputopo.topology.model import (
    GpuIndex,
    GpuMask,
    NodeTopology,
    TopologyError,
    indices_of,
    mask_of,
)
from gputopo_cli.shared.arguments import suggest
from gputopo_cli.shared.connection import connect
from gputopo_cli.shared.errors import InputError
from gputopo_cli.shared.files import STANDARD_INPUT, read_text
from gputopo_cluster.topologies import GpuNode, UnreadableTopology, parse_published_node
from gputopo_cluster.usage import node_usage
from gputopo_explain.text import counted, gpu_models
from gputopo_kube.document import Document
from gputopo_kube.errors import NotFoundError, RejectedError
from gputopo_topologies.load import parse, parse_document
from gputopo_topologies.topo_matrix import has_matrix

_NODE: Final = "node/"
_NOT_FOUND: Final = "the cluster has no GPUTopology of this name"


@dataclass(frozen=True, slots=True)
class LoadedTopology:
    """A node topology with its name for messages.

    Attributes:
        in_use: for nodes of a cluster, the reasons why GPUs are not free.
    """

    name: str
    topology: NodeTopology
    in_use: Mapping[GpuIndex, str] = field(default_factory=dict)

    @property
    def in_use_mask(self) -> GpuMask:
        """The GPUs that are not free."""
        return mask_of(self.in_use)

    @property
    def summary(self) -> str:
        """Number and models of the GPUs."""
        models = gpu_models(self.topology)
        return f"{counted(len(self.topology.gpus), 'GPU')}{models and f', {models}'}"


def load_topology(argument: str, context: str | None = None) -> LoadedTopology:
    """Return the topology that an argument names.

    The argument is looked up as a name of the catalogue, then as a file (``-`` is standard
    input), then as a node of the cluster. ``node/NAME`` is always a node, ``./NAME`` a file.
    ``context`` is a context of the kubeconfig. None selects the current context.

    Raises:
        InputError: if the argument names nothing, or if the file or node cannot be read.
        TopologyError: if the file or object is not a valid topology.
    """
    if argument.startswith(_NODE):
        return _load_node(argument.removeprefix(_NODE), context)
    if argument in catalogue.all_names():
        return LoadedTopology(argument, catalogue.named(argument))
    if argument == STANDARD_INPUT or "/" in argument or Path(argument).exists():
        return _load_file(argument)
    try:
        return _load_node(argument, context)
    except InputError as error:
        raise InputError(
            f"topology: {quoted(argument)} is not a name of the catalogue, a file or a node"
            f" ({error}){suggest(argument, catalogue.all_names())}"
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
    import yaml

    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):
        return None
    except RecursionError:
        raise InputError(f"{name}: is nested too deeply") from None


def _load_node(name: str, context: str | None) -> LoadedTopology:
    """Return the topology that the agent of a node has published, with the GPUs in use."""
    if not name:
        raise InputError("node: the name is empty")
    node = parse_published_node(_get(name, context))
    if isinstance(node.gpus, UnreadableTopology):
        raise TopologyError(f"node/{name}: {node.fault}")
    return LoadedTopology(f"node/{name}", node.gpus.topology, _in_use(node.gpus))


def _in_use(node: GpuNode) -> dict[GpuIndex, str]:
    """Return why GPUs are not free, as far as the agent of the node reports it."""
    usage = node_usage(node, pods=(), reserved=())
    users = {user.gpu: user.pod.removeprefix("/") for user in reversed(node.users)}
    return {
        gpu: users.get(gpu, "served by MPS") if usage.healthy & mask_of([gpu]) else "unhealthy"
        for gpu in indices_of(GpuMask(usage.topology.mask & ~usage.free))
    }


def _get(name: str, context: str | None) -> Document:
    with connect(context) as cluster:
        try:
            return cluster.get("apis", GROUP, VERSION, "gputopologies", name)
        except RejectedError as error:
            reason = _NOT_FOUND if isinstance(error, NotFoundError) else error.message
            raise InputError(f"node: {quoted(name)}: {reason}") from None
